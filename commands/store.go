package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"executor/internal/groupcommit"
	"executor/outcome"
	"executor/upstreams"
)

// Tx is a transaction of the store's database.
type Tx = pgx.Tx

// Inserter puts jobs into the queue in the caller's transaction; River's
// insert-only client is one.
type Inserter interface {
	InsertManyTx(ctx context.Context, tx pgx.Tx, params []river.InsertManyParams) ([]*rivertype.JobInsertResult, error)
}

// Config is what a Store is built from. Announcer and Starter may be nil.
type Config struct {
	Pool      *pgxpool.Pool
	Upstreams *upstreams.Store
	Jobs      Inserter
	Announcer Announcer
	Starter   Starter
	Log       *slog.Logger
}

// Store keeps the commands.
type Store struct {
	pool      *pgxpool.Pool
	upstreams *upstreams.Store
	jobs      Inserter
	announcer Announcer
	starter   Starter
	log       *slog.Logger
	submits   *groupcommit.Group[*entry, Accepted]
	watch     *watch
}

// submitBatch bounds how many submissions share one commit.
const submitBatch = 128

// NewStore builds a Store.
func NewStore(c Config) *Store {
	s := &Store{
		pool: c.Pool, upstreams: c.Upstreams, jobs: c.Jobs,
		announcer: c.Announcer, starter: c.Starter, log: c.Log,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.submits = groupcommit.New(submitBatch, func(ctx context.Context, items []*entry) []groupcommit.Result[Accepted] {
		return groupcommit.Run(ctx, s.pool, items, s.accept)
	})
	s.watch = newWatch(s.finalAmong)
	return s
}

// SetStarter gives the store the process's starter, which itself needs the
// store. It is called once, before the first submission.
func (s *Store) SetStarter(starter Starter) { s.starter = starter }

// Locked is a command's moving part, read under its row lock.
type Locked struct {
	ID                uuid.UUID
	Tenant            string
	UpstreamID        int64
	Operation         string
	ProfileVersion    int
	State             outcome.State
	Version           int
	Sequence          int
	Priority          int16
	CreatedAt         time.Time
	Deadline          time.Time
	NextAttemptAt     *time.Time
	WaitFor           *WaitFor
	Attempts          int
	BlockedUntil      *time.Time
	CancelRequestedAt *time.Time
	Now               time.Time // of the database
}

const lockedColumns = `id, tenant, upstream_id, operation, profile_version, state, version, sequence, priority,
	created_at, deadline, next_attempt_at, wait_for, attempts, blocked_until, cancel_requested_at,
	clock_timestamp() AS now`

const lockSQL = `SELECT ` + lockedColumns + ` FROM commands WHERE id = ANY($1) ORDER BY id FOR UPDATE`

// Lock locks commands in the order of their ids and reads them. Ids that do
// not exist are left out.
func (s *Store) Lock(ctx context.Context, tx Tx, ids []uuid.UUID) (map[uuid.UUID]Locked, error) {
	rows, err := tx.Query(ctx, lockSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("lock commands: %w", err)
	}
	return collectLocked(rows)
}

func collectLocked(rows pgx.Rows) (map[uuid.UUID]Locked, error) {
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Locked])
	if err != nil {
		return nil, fmt.Errorf("lock commands: %w", err)
	}
	byID := make(map[uuid.UUID]Locked, len(list))
	for _, l := range list {
		byID[l.ID] = l
	}
	return byID, nil
}

// Move is one step of one command, decided under its row lock.
type Move struct {
	Command  Locked // as read under the lock; its State is the state it leaves
	To       outcome.State
	Attempts int // attempts on record after the step

	// To pending: when the next attempt is due and what the wait is for.
	NextAttemptAt time.Time
	WaitFor       WaitFor
	BlockedUntil  *time.Time // a lost attempt may be under way until then; nil leaves it

	// To a final state.
	Outcome *Final
	Actor   string
}

// Final is an outcome to be announced.
type Final struct {
	outcome.Outcome
	StoppedBy outcome.Reason
	DecidedBy outcome.DecidedBy
	Answer    AnswerGiven // the attempt or finding that gave it; zero where none did
}

// AnswerGiven is where a result or a rejection came from.
type AnswerGiven struct {
	Attempt   int // number of the attempt whose response holds the result
	Status    int
	Reference string
	Code      string
	Message   string
}

// Moved is one moved command, to be passed to Changed after the commit.
type Moved struct {
	ID    uuid.UUID
	State outcome.State
}

// Move is the only writer of a command's state. It refuses a transition that
// the table does not hold, and a row that is not as it was read; it writes the
// outcome's event, has it announced and enqueues what the new state waits for,
// all in the caller's transaction. After the commit the caller passes what was
// moved to Changed.
func (s *Store) Move(ctx context.Context, tx Tx, moves []Move) ([]Moved, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	jobIDs, err := s.enqueue(ctx, tx, moves)
	if err != nil {
		return nil, err
	}
	var (
		w     = newMoveRows(len(moves))
		moved = make([]Moved, 0, len(moves))
	)
	for i, m := range moves {
		if !outcome.CanMove(m.Command.State, m.To) {
			return nil, fmt.Errorf("move command %s from %s to %s: not a legal transition", m.Command.ID, m.Command.State, m.To)
		}
		if err := w.add(m, jobIDs[i]); err != nil {
			return nil, err
		}
		moved = append(moved, Moved{m.Command.ID, m.To})
	}
	tag, err := tx.Exec(ctx, `
		UPDATE commands c SET
			state = m.state,
			version = c.version + 1,
			sequence = c.sequence + CASE WHEN m.outcome IS NULL THEN 0 ELSE 1 END,
			attempts = m.attempts,
			next_attempt_at = m.next_attempt_at,
			wait_for = m.wait_for,
			blocked_until = coalesce(m.blocked_until, c.blocked_until),
			claimed_by = NULL,
			job_id = m.job_id,
			outcome = coalesce(m.outcome, c.outcome),
			phase = m.phase,
			finalized_at = CASE WHEN m.outcome IS NULL THEN NULL ELSE m.at END
		FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::timestamptz[], $6::text[],
			$7::timestamptz[], $8::bigint[], $9::json[], $10::text[], $11::timestamptz[], $12::int[])
			AS m(id, from_state, state, attempts, next_attempt_at, wait_for, blocked_until, job_id,
				outcome, phase, at, version)
		WHERE c.id = m.id AND c.state = m.from_state AND c.version = m.version`,
		w.ids, w.from, w.to, w.attempts, w.next, w.waitFor, w.blocked, w.jobs, w.outcomes, w.phases, w.at, w.versions)
	if err != nil {
		return nil, fmt.Errorf("move commands: %w", err)
	}
	if tag.RowsAffected() != int64(len(moves)) {
		return nil, fmt.Errorf("move commands: %w", ErrConflict)
	}
	return moved, s.announce(ctx, tx, moves)
}

// enqueue inserts the jobs that the new states wait for and returns, move by
// move, the job's id or nil.
func (s *Store) enqueue(ctx context.Context, tx Tx, moves []Move) ([]*int64, error) {
	ids := make([]*int64, len(moves))
	var (
		params []river.InsertManyParams
		places []int
	)
	for i, m := range moves {
		p, ok := jobFor(m.To, m.Command.ID, m.Command.UpstreamID, priorityOf(int(m.Command.Priority)), m.NextAttemptAt)
		if !ok {
			continue
		}
		params, places = append(params, p), append(places, i)
	}
	if len(params) == 0 {
		return ids, nil
	}
	results, err := s.jobs.InsertManyTx(ctx, tx, params)
	if err != nil {
		return nil, fmt.Errorf("enqueue attempts: %w", err)
	}
	for k, r := range results {
		ids[places[k]] = &r.Job.ID
	}
	return ids, nil
}

// announce writes the events of the outcomes among the moves.
func (s *Store) announce(ctx context.Context, tx Tx, moves []Move) error {
	var events []OutcomeEvent
	for _, m := range moves {
		if m.Outcome != nil {
			events = append(events, newOutcomeEvent(m))
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := insertOutcomeEvents(ctx, tx, events); err != nil {
		return err
	}
	if s.announcer == nil {
		return nil
	}
	return s.announcer.Announce(ctx, tx, events)
}

// Changed wakes those who wait for commands that a committed Move ended.
func (s *Store) Changed(moved []Moved) {
	for _, m := range moved {
		if m.State.Final() {
			s.watch.wake(m.ID)
		}
	}
}

// Close ends the store's own goroutines; submissions under way are finished.
func (s *Store) Close() {
	s.submits.Close()
	s.watch.close()
}

// moveRows are the columns of Move's UPDATE, a slice each.
type moveRows struct {
	ids        []uuid.UUID
	from, to   []string
	attempts   []int32
	next       []*time.Time
	waitFor    []*string
	blocked    []*time.Time
	jobs       []*int64
	outcomes   []*string
	phases     []*string
	at         []time.Time
	versions   []int32
}

func newMoveRows(n int) *moveRows {
	return &moveRows{
		ids: make([]uuid.UUID, 0, n), from: make([]string, 0, n), to: make([]string, 0, n),
		attempts: make([]int32, 0, n), next: make([]*time.Time, 0, n),
		waitFor: make([]*string, 0, n), blocked: make([]*time.Time, 0, n), jobs: make([]*int64, 0, n),
		outcomes: make([]*string, 0, n), phases: make([]*string, 0, n), at: make([]time.Time, 0, n),
		versions: make([]int32, 0, n),
	}
}

func (w *moveRows) add(m Move, jobID *int64) error {
	var (
		next    *time.Time
		waitFor *string
		text    *string
		phase   *string
	)
	if m.To == outcome.StatePending {
		next = &m.NextAttemptAt
		if m.WaitFor != "" {
			f := string(m.WaitFor)
			waitFor = &f
		}
	}
	if (m.Outcome != nil) != m.To.Final() {
		return fmt.Errorf("move command %s to %s: a final state and its outcome go together", m.Command.ID, m.To)
	}
	if m.Outcome != nil {
		data, err := json.Marshal(newStoredOutcome(m))
		if err != nil {
			return fmt.Errorf("encode outcome of command %s: %w", m.Command.ID, err)
		}
		t := string(data)
		text = &t
		if m.To == outcome.StateUnresolved {
			phase = new(string(m.Outcome.NextAction))
		}
	}
	w.ids = append(w.ids, m.Command.ID)
	w.from = append(w.from, string(m.Command.State))
	w.to = append(w.to, string(m.To))
	w.attempts = append(w.attempts, int32(m.Attempts))
	w.next = append(w.next, next)
	w.waitFor = append(w.waitFor, waitFor)
	w.blocked = append(w.blocked, m.BlockedUntil)
	w.jobs = append(w.jobs, jobID)
	w.outcomes = append(w.outcomes, text)
	w.phases = append(w.phases, phase)
	w.at = append(w.at, m.Command.Now)
	w.versions = append(w.versions, int32(m.Command.Version))
	return nil
}

// QueueLock queues Lock on a batch, for callers that ask for more in the same
// round trip.
func (s *Store) QueueLock(batch *pgx.Batch, ids []uuid.UUID, got func(map[uuid.UUID]Locked)) {
	batch.Queue(lockSQL, ids).Query(func(rows pgx.Rows) error {
		list, err := collectLocked(rows)
		got(list)
		return err
	})
}
