package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
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
	Body     []byte
	Identity upstreams.Identity
}

// entry is a submission on its way into the database.
type entry struct {
	sub      Submission
	id       uuid.UUID
	hashes   []byte
	upstream upstreams.Upstream
	request  upstreams.Request
	deadline *time.Time
	timeout  time.Duration
	claim    *int64 // epoch of the lease that claims the first attempt
	accepted Prepared
}

// Submit accepts a command, or finds the one that the key is bound to. When it
// returns without an error the command is durable; ErrUnavailable means that it
// may or may not be, and that repeating the call with the same key tells.
func (s *Store) Submit(ctx context.Context, sub Submission) (Accepted, error) {
	e, err := s.prepare(ctx, sub)
	var bad *Invalid
	if errors.As(err, &bad) {
		return s.replayOf(ctx, sub, bad)
	}
	if err != nil {
		return Accepted{}, err
	}
	return s.submit(ctx, e)
}

// SubmitBatch accepts many at once, each on its own.
func (s *Store) SubmitBatch(ctx context.Context, subs []Submission) []BatchResult {
	results := make([]BatchResult, len(subs))
	done := make(chan struct{}, len(subs))
	limit := make(chan struct{}, submitBatch)
	for i, sub := range subs {
		limit <- struct{}{}
		go func() {
			defer func() { <-limit; done <- struct{}{} }()
			a, err := s.Submit(ctx, sub)
			if err != nil {
				results[i].Err = err
				return
			}
			results[i].Accepted = &a
		}()
	}
	for range subs {
		<-done
	}
	return results
}

func (s *Store) submit(ctx context.Context, e *entry) (Accepted, error) {
	if s.starter != nil && e.startsSoon() {
		if epoch, ok := s.starter.Claim(e.upstream.ID); ok {
			e.claim = &epoch
		}
	}
	// The caller's context does not reach the batch: whoever goes away now would
	// leave a command of which nobody knows that it was accepted.
	a, err := s.submits.Do(context.WithoutCancel(ctx), e)
	started := err == nil && !a.Replayed
	switch {
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

// startsSoon: a command that waits for a moment of its own goes through the
// queue.
func (e *entry) startsSoon() bool { return e.sub.NotBefore == nil || time.Until(*e.sub.NotBefore) <= 0 }

func submitError(err error) error {
	var mismatch *KeyMismatch
	if errors.As(err, &mismatch) {
		return mismatch
	}
	return fmt.Errorf("%w: submit: %w", ErrUnavailable, err)
}

// prepare checks a submission and renders its request. What the caller can mend
// is an *Invalid.
func (s *Store) prepare(ctx context.Context, sub Submission) (*entry, error) {
	up, err := s.upstreams.Latest(ctx, sub.Tenant, sub.Upstream)
	if errors.Is(err, upstreams.ErrNotFound) {
		return nil, invalid("/upstream", "unknown_upstream", "There is no upstream %q.", sub.Upstream)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	op, ok := up.Profile.Operation(sub.Operation)
	if !ok {
		return nil, invalid("/operation", "unknown_operation", "The upstream %q has no operation %q.", sub.Upstream, sub.Operation)
	}
	e := &entry{sub: sub, id: uuid.Must(uuid.NewV7()), hashes: fieldHashes(sub), upstream: up}
	if err := e.setTimes(up.Profile, op, time.Now()); err != nil {
		return nil, err
	}
	e.request, err = op.Render(upstreams.Input{
		Key: sub.Key, CommandID: e.id, Params: sub.Params, Query: sub.Query, Headers: sub.Headers,
		Body: sub.Body, HasBody: sub.HasBody, ContentType: sub.ContentType,
	})
	var bad *upstreams.InputError
	if errors.As(err, &bad) {
		return nil, &Invalid{Detail: "The submission does not fit the operation.", Fields: bad.Fields}
	}
	return e, err
}

// setTimes settles deadline and priority. A deadline that leaves no room for
// one attempt is refused: the command could only be cancelled.
func (e *entry) setTimes(p *upstreams.Profile, op *upstreams.Operation, now time.Time) error {
	sub, window := e.sub, op.Policy().MinAttemptWindow
	if sub.Priority != "" && !slices.Contains(Priorities(), sub.Priority) {
		return invalid("/priority", "unknown_priority", "The priority is high, normal or low, not %q.", sub.Priority)
	}
	start := now
	if sub.NotBefore != nil && sub.NotBefore.After(now) {
		start = *sub.NotBefore
	}
	if sub.Deadline != nil {
		if sub.Timeout != 0 {
			return invalid("/timeout", "both_given", "Give a deadline or a timeout, not both.")
		}
		if sub.Deadline.Sub(start) < window {
			return invalid("/deadline", "no_room", "The deadline leaves no room for one attempt, which needs %s.", window)
		}
		e.deadline = sub.Deadline
		return nil
	}
	e.timeout = sub.Timeout
	if e.timeout == 0 {
		e.timeout = p.Deadline
	}
	if e.timeout < window {
		return invalid("/timeout", "no_room", "The timeout leaves no room for one attempt, which needs %s.", window)
	}
	return nil
}

// replayOf answers a submission that could not be accepted today: if its key is
// bound already, to the same request, it gets that command all the same.
func (s *Store) replayOf(ctx context.Context, sub Submission, bad *Invalid) (Accepted, error) {
	id, hashes, err := s.boundTo(ctx, sub.Tenant, sub.Key)
	if errors.Is(err, ErrNotFound) {
		return Accepted{}, bad
	}
	if err != nil {
		return Accepted{}, err
	}
	if names := differing(hashes, fieldHashes(sub)); len(names) > 0 {
		return Accepted{}, &KeyMismatch{CommandID: id, Differs: names}
	}
	c, err := s.Get(ctx, sub.Tenant, id)
	return Accepted{Command: c, Replayed: true}, err
}

// DryRun shows what a submission would send, and accepts nothing.
func (s *Store) DryRun(ctx context.Context, sub Submission) (Preview, error) {
	e, err := s.prepare(ctx, sub)
	if err != nil {
		return Preview{}, err
	}
	p := Preview{
		Method: e.request.Method, URL: requestURL(e.upstream.Profile, e.request.Path), Headers: e.request.Headers,
		Body: e.request.Body, ContentType: e.request.ContentType, ProfileVersion: e.upstream.Version, Identity: e.request.Identity,
	}
	if e.deadline != nil {
		p.Deadline = *e.deadline
	} else {
		p.Deadline = later(time.Now(), sub.NotBefore).Add(e.timeout)
	}
	id, hashes, err := s.boundTo(ctx, sub.Tenant, sub.Key)
	switch {
	case errors.Is(err, ErrNotFound):
		return p, nil
	case err != nil:
		return Preview{}, err
	}
	if names := differing(hashes, e.hashes); len(names) > 0 {
		return Preview{}, &KeyMismatch{CommandID: id, Differs: names}
	}
	c, err := s.Get(ctx, sub.Tenant, id)
	p.Existing = &c
	return p, err
}

func later(t time.Time, other *time.Time) time.Time {
	if other != nil && other.After(t) {
		return *other
	}
	return t
}

// requestURL shows an absolute URL for people; the wire uses its parts.
func requestURL(p *upstreams.Profile, path string) string {
	return p.Base.Scheme + "://" + p.Base.Host + path
}

// commandOf is the command as it stands right after its acceptance.
func (e *entry) commandOf() Command {
	a := e.accepted
	c := Command{
		ID: a.ID, Tenant: a.Tenant, Key: e.sub.Key, UpstreamID: a.UpstreamID, Upstream: e.upstream.Name, Operation: a.Operation,
		ProfileVersion: a.ProfileVersion, State: outcome.StatePending, Version: 1, Priority: a.Priority,
		CreatedAt: a.CreatedAt, Deadline: a.Deadline, NotBefore: e.sub.NotBefore, NextAttemptAt: &a.Due, Metadata: e.sub.Metadata,
		Record: Record{Record: outcome.RecordOf(outcome.IdempotencyNone, nil), Identity: e.request.Identity},
	}
	switch {
	case e.upstream.PausedAt != nil:
		c.Waiting = &Waiting{For: WaitPaused}
	case a.Due.After(a.CreatedAt):
		c.Waiting = &Waiting{For: WaitNotBefore, Until: &a.Due}
	}
	return c
}

// encodeJSON is for values that always encode, such as texts, numbers and times.
func encodeJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(data)
}
