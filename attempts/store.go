package attempts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/internal/groupcommit"
	"executor/upstreams"
)

// batchRows bounds how many attempts share one commit.
const batchRows = 128

// busyWait is how soon a command whose row is held elsewhere is asked for again.
const busyWait = 100 * time.Millisecond

// recheck is how soon a command that something general holds back is asked
// about again.
const recheck = time.Second

// Store keeps the attempts. Its Begin and Finish are grouped: many attempts
// share one commit, each still waits for its own.
type Store struct {
	pool      *pgxpool.Pool
	commands  *commands.Store
	upstreams *upstreams.Store
	lease     *Lease
	instance  string
	expected  string // the deployment that this process belongs to; "" is any
	stopping  atomic.Bool

	begins   *groupcommit.Group[Start, beginResult]
	finishes *groupcommit.Group[Report, finishResult]

	mu     sync.Mutex
	newest map[int64]upstreams.Upstream
}

// NewStore builds a Store that begins attempts under the lease.
func NewStore(pool *pgxpool.Pool, cmds *commands.Store, ups *upstreams.Store, lease *Lease) *Store {
	s := &Store{pool: pool, commands: cmds, upstreams: ups, lease: lease, instance: lease.instance, newest: make(map[int64]upstreams.Upstream)}
	s.begins = groupcommit.New(batchRows, s.flushBegins)
	s.finishes = groupcommit.New(batchRows, s.flushFinishes)
	return s
}

// Begin commits an open attempt, which is the permission to send it once. A
// *Refusal means that nothing may be sent; groupcommit.ErrUnknown that an open
// attempt may stand on record, under which nothing may be sent either.
func (s *Store) Begin(ctx context.Context, start Start) (*Begun, error) {
	r, err := s.begins.Do(ctx, start)
	if err != nil {
		return nil, fmt.Errorf("begin attempt of command %s: %w", start.CommandID, err)
	}
	if r.refusal != nil {
		return nil, r.refusal
	}
	return r.begun, nil
}

// Finish closes an attempt and moves its command. ErrFenced, ErrNotPending and
// commands.ErrNotFound are final; after any other error the same call may be repeated until it is
// known: it is guarded by the open row.
func (s *Store) Finish(ctx context.Context, r Report) (*Finished, error) {
	res, err := s.finishes.Do(ctx, r)
	if err == nil {
		err = res.err
	}
	if err != nil {
		return nil, fmt.Errorf("finish attempt %d of command %s: %w", r.Number, r.CommandID, err)
	}
	return res.finished, nil
}

// flushBegins measures the send deadline from before anything is asked of the
// database, so that the local moment is never the later one.
func (s *Store) flushBegins(ctx context.Context, starts []Start) []groupcommit.Result[beginResult] {
	opened := time.Now()
	epoch, until, held := s.lease.Held()
	if !held {
		results := make([]groupcommit.Result[beginResult], len(starts))
		for i := range results {
			results[i].Value.refusal = &Refusal{Why: "the lease is not held", Again: recheck}
		}
		return results
	}
	results := groupcommit.Run(ctx, s.pool, starts, func(ctx context.Context, tx pgx.Tx, starts []Start) ([]groupcommit.Result[beginResult], error) {
		list, err := s.begin(ctx, tx, epoch, starts)
		return asResults(list), err
	})
	var closed []commands.Moved
	for i, r := range results {
		if r.Err == nil && r.Value.closed != "" {
			closed = append(closed, commands.Moved{ID: starts[i].CommandID, State: r.Value.closed})
		}
		if b := r.Value.begun; b != nil {
			b.Opened = opened
			b.SendBy = earliest(opened.Add(sendWindow), until, opened.Add(b.Deadline))
			b.SendWall = b.SendBy.Round(0)
		}
	}
	s.commands.Changed(closed)
	return results
}

func (s *Store) flushFinishes(ctx context.Context, reports []Report) []groupcommit.Result[finishResult] {
	results := groupcommit.Run(ctx, s.pool, reports, func(ctx context.Context, tx pgx.Tx, reports []Report) ([]groupcommit.Result[finishResult], error) {
		list, err := s.finish(ctx, tx, reports)
		return asResults(list), err
	})
	var moved []commands.Moved
	for i, r := range results {
		if r.Err == nil && r.Value.finished != nil {
			moved = append(moved, commands.Moved{ID: reports[i].CommandID, State: r.Value.finished.State})
		}
	}
	s.commands.Changed(moved)
	return results
}

func asResults[R any](list []R) []groupcommit.Result[R] {
	results := make([]groupcommit.Result[R], len(list))
	for i, v := range list {
		results[i].Value = v
	}
	return results
}

func earliest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// Unconfirmed looks for the attempt of a Begin whose commit is unknown, among
// those after the given number: open, or closed by others meanwhile. Nothing was
// sent under it. Locking the command queues behind the transaction in doubt, so
// the answer is final; nil means that it never began.
func (s *Store) Unconfirmed(ctx context.Context, id uuid.UUID, after int) (*Open, error) {
	var found *Open
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found = nil
		if _, err := s.commands.Lock(ctx, tx, []uuid.UUID{id}); err != nil {
			return err
		}
		o := Open{CommandID: id}
		err := tx.QueryRow(ctx, `
			SELECT upstream_id, number, epoch FROM attempts WHERE command_id = $1 AND instance = $2 AND number > $3
			ORDER BY number DESC LIMIT 1`, id, s.instance, after).Scan(&o.UpstreamID, &o.Number, &o.Epoch)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		found = &o
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the unconfirmed attempt of command %s: %w", id, err)
	}
	return found, nil
}

// Learn hands what a fenced attempt saw to the command as late evidence.
func (s *Store) Learn(ctx context.Context, id uuid.UUID, k commands.Knowledge) (commands.Effect, error) {
	var (
		effect commands.Effect
		moved  []commands.Moved
	)
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		effect, moved, err = s.commands.Learn(ctx, tx, id, k)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("late evidence about command %s: %w", id, err)
	}
	s.commands.Changed(moved)
	return effect, nil
}

// Open is an attempt without an end.
type Open struct {
	CommandID  uuid.UUID
	UpstreamID int64
	Number     int
	Epoch      int64
}

// OpenUnder lists the open attempts begun under any of the epochs.
func (s *Store) OpenUnder(ctx context.Context, epochs []int64) ([]Open, error) {
	return s.open(ctx, `
		SELECT command_id, upstream_id, number, epoch FROM attempts WHERE ended_at IS NULL AND epoch = ANY($1)`, epochs)
}

// OpenUnderEnded lists open attempts whose lease has ended, or is not there.
func (s *Store) OpenUnderEnded(ctx context.Context) ([]Open, error) {
	return s.open(ctx, `
		SELECT a.command_id, a.upstream_id, a.number, a.epoch FROM attempts a LEFT JOIN leases l USING (epoch)
		WHERE a.ended_at IS NULL AND (l.ended_at IS NOT NULL OR l.instance IS NULL) LIMIT 1000`)
}

func (s *Store) open(ctx context.Context, sql string, args ...any) ([]Open, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read open attempts: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Open])
	if err != nil {
		return nil, fmt.Errorf("read open attempts: %w", err)
	}
	return list, nil
}

// EndLapsed ends the leases that have lapsed and returns how many. From then on
// no attempt begins under them, and their open ones can be closed. After a promotion
// it ends none before somebody has taken note: renewals may be what was lost.
func (s *Store) EndLapsed(ctx context.Context) (int64, error) {
	tag, err := s.pool.Exec(ctx, `
		UPDATE leases SET ended_at = clock_timestamp() WHERE epoch IN (
			SELECT epoch FROM leases WHERE ended_at IS NULL AND expires_at < clock_timestamp() AND NOT `+promotedSQL+`
			ORDER BY epoch FOR UPDATE SKIP LOCKED)`)
	if err != nil {
		return 0, fmt.Errorf("end lapsed leases: %w", err)
	}
	return tag.RowsAffected(), nil
}

// setNewest takes the newest version of every upstream, read once a second.
func (s *Store) setNewest(list []upstreams.Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range list {
		s.newest[u.ID] = u
	}
}

// upstream is the newest version of an upstream, at most a moment old.
func (s *Store) upstream(ctx context.Context, id int64) (upstreams.Upstream, error) {
	s.mu.Lock()
	u, ok := s.newest[id]
	s.mu.Unlock()
	if ok {
		return u, nil
	}
	u, err := s.upstreams.ByID(ctx, id)
	if err != nil {
		return u, fmt.Errorf("read upstream %d: %w", id, err)
	}
	s.setNewest([]upstreams.Upstream{u})
	return u, nil
}

func (s *Store) draining() bool { return s.stopping.Load() }

func (s *Store) commit(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, dutyBound)
	defer cancel()
	return groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) error { return fn(ctx, tx) })
}

// Close waits for batches under way; nothing can be begun or finished after it.
func (s *Store) Close() {
	s.begins.Close()
	s.finishes.Close()
}
