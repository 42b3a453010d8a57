package commands

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/bodyfiles"
	"executor/upstreams"
)

// Prepared is an accepted command with all that its first attempt needs, so
// that the accepting process need not read it back.
type Prepared struct {
	ID             uuid.UUID
	Tenant         string
	UpstreamID     int64
	Operation      string
	ProfileVersion int
	Priority       Priority
	CreatedAt      time.Time
	Deadline       time.Time
	Due            time.Time
	Request        Request
}

// Request is what will be sent, rendered once at accept. Credentials are added
// at sending and never stored.
type Request struct {
	Method   string
	Path     string // escaped path and query, from the host's root
	Headers  []upstreams.Header
	Body     []byte             // the stored bytes; all of it, of a one-shot command
	Files    []bodyfiles.Placed // sent within it, each compared when it is opened
	OneShot  bool
	Identity upstreams.Identity
}

// Submit accepts a command, or finds the one that the key is bound to. When it
// returns without an error the command is durable; ErrUnavailable means that it
// may or may not be, and that repeating the call with the same key tells. A
// *BacklogFull and a *FilesUnavailable say that nothing was accepted, for now.
func (s *Store) Submit(ctx context.Context, sub Submission) (Accepted, error) {
	if err := s.refused(); err != nil {
		return Accepted{}, err
	}
	if sub.hasFiles() { // a repeat reads none of them, and needs no volume
		if a, err := s.replayOf(ctx, sub, errNew); !errors.Is(err, errNew) {
			return a, err
		}
	}
	e, err := s.prepare(ctx, sub)
	var (
		bad  *Invalid
		away *FilesUnavailable
	)
	if errors.As(err, &bad) || errors.As(err, &away) {
		return s.replayOf(ctx, sub, err)
	}
	if err != nil {
		return Accepted{}, err
	}
	if err := s.quota.take(ctx, sub.Tenant); err != nil {
		a, err := s.replayOf(ctx, sub, err)
		if errors.As(err, new(*BacklogFull)) {
			s.quota.refused.Inc()
		}
		return a, err
	}
	a, err := s.submit(ctx, e)
	if err != nil || a.Replayed {
		s.quota.giveBack(sub.Tenant)
	}
	return a, err
}

// SubmitBatch accepts many at once, each on its own.
func (s *Store) SubmitBatch(ctx context.Context, subs []Submission) []BatchResult {
	byKey := make(map[string][]int, len(subs)) // equal keys one after the other: the first one is the command
	for i, sub := range subs {
		byKey[sub.Key] = append(byKey[sub.Key], i)
	}
	results := make([]BatchResult, len(subs))
	limit := make(chan struct{}, submitBatch)
	var all sync.WaitGroup
	for _, places := range byKey {
		limit <- struct{}{}
		all.Go(func() {
			defer func() { <-limit }()
			for _, i := range places {
				if a, err := s.Submit(ctx, subs[i]); err != nil {
					results[i].Err = err
				} else {
					results[i].Accepted = &a
				}
			}
		})
	}
	all.Wait()
	return results
}

func (s *Store) submit(ctx context.Context, e *entry) (Accepted, error) {
	if err := s.hold(e); err != nil {
		return s.replayOf(ctx, e.sub, err)
	}
	if s.starter != nil && e.startsSoon() {
		if epoch, ok := s.starter.Claim(e.upstream.ID); ok {
			e.claim = &epoch
		}
	}
	// The caller's context does not reach the batch: whoever goes away now would
	// leave a command of which nobody knows that it was accepted.
	a, err := s.submits.Do(context.WithoutCancel(ctx), e)
	started := err == nil && !a.Replayed
	s.settleHeld(e, started, err)
	switch {
	case e.claim == nil && e.held != nil && started:
		s.starter.Keep(e.accepted)
	case e.claim == nil:
	case started:
		s.starter.Launch(e.accepted)
	default:
		s.starter.Unclaim(e.upstream.ID)
	}
	if err != nil {
		return Accepted{}, submitError(err)
	}
	if a.Replayed {
		a.Command, err = s.Get(ctx, e.sub.Tenant, a.Command.ID)
	}
	return a, err
}

func submitError(err error) error {
	var mismatch *KeyMismatch
	if errors.As(err, &mismatch) {
		return mismatch
	}
	return fmt.Errorf("%w: submit: %w", ErrUnavailable, err)
}

// errNew: no command has the key.
var errNew = errors.New("the key is not known")

// replayOf answers a submission that could not be accepted today: if its key is
// bound already, to the same request, it gets that command all the same.
func (s *Store) replayOf(ctx context.Context, sub Submission, refusal error) (Accepted, error) {
	id, hashes, err := s.boundTo(ctx, sub.Tenant, sub.Key)
	if errors.Is(err, ErrNotFound) {
		return Accepted{}, refusal
	}
	if err != nil {
		return Accepted{}, err
	}
	if mismatch := s.mismatch(id, hashes, sub); mismatch != nil {
		return Accepted{}, mismatch
	}
	if err := s.commit(ctx, confirm); err != nil {
		return Accepted{}, err
	}
	c, err := s.Get(ctx, sub.Tenant, id)
	return Accepted{Command: c, Replayed: true}, err
}

// boundTo finds the command that a key is bound to, and what is kept of its request.
func (s *Store) boundTo(ctx context.Context, tenant, key string) (uuid.UUID, identity, error) {
	var (
		id   uuid.UUID
		kept identity
	)
	err := s.pool.QueryRow(ctx, `
		SELECT c.id, r.field_hashes, r.body_kind FROM commands c JOIN command_requests r ON r.command_id = c.id
		WHERE c.tenant = $1 AND c.idempotency_key = $2`, tenant, key).Scan(&id, &kept.hashes, &kept.kind)
	if errors.Is(err, pgx.ErrNoRows) {
		return id, kept, ErrNotFound
	}
	if err != nil {
		return id, kept, unavailable("look up key", err)
	}
	return id, kept, nil
}
