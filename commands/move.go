package commands

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"executor/internal/postgres"
	"executor/outcome"
)

// Move is one step of one command, decided under its row lock.
type Move struct {
	Command  Locked // as read under the lock; its State is the state it leaves
	To       outcome.State
	Attempts int // attempts on record after the step

	// To pending: when the next attempt is due and what the wait is for.
	NextAttemptAt time.Time
	WaitFor       WaitFor
	BlockedUntil  *time.Time // a lost attempt may be under way until then; nil leaves it
	Resend        Resend     // from unresolved: why it may be sent once more
	Deadline      *time.Time // nil leaves it

	// To a final state.
	Outcome    *Final
	Actor      string
	Correction bool // a person changes an absorbed state
}

// Final is an outcome to be announced.
type Final struct {
	outcome.Outcome
	StoppedBy outcome.Reason
	WaitedFor WaitFor // by a deadline: what held it back, "" if nothing is on record
	DecidedBy outcome.DecidedBy
	Answer    AnswerGiven // the attempt or finding that gave it; zero where none did
	AskAt     time.Time   // unresolved: when the upstream wants to be asked again; zero where it does not say
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
// outcome's event, counts it, has it announced and enqueues what the new state waits
// for, all in the caller's transaction. After the commit the caller passes what was
// moved to Changed.
func (s *Store) Move(ctx context.Context, tx Tx, moves []Move) ([]Moved, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	moved, err := check(moves)
	if err != nil {
		return nil, err
	}
	jobs, err := s.enqueue(ctx, tx, moves)
	if err != nil {
		return nil, err
	}
	if err := s.followUp(ctx, tx, moves); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		WITH tallied AS (
			INSERT INTO tally_deltas (tenant, upstream_id, at, what, n, stock)
			SELECT * FROM unnest($16::text[], $17::bigint[], $18::timestamptz[], $19::text[], $20::int[], $21::int[])
		)
		UPDATE commands c SET
			state = m.state,
			version = c.version + 1,
			sequence = m.sequence,
			attempts = m.attempts,
			next_attempt_at = m.next_attempt_at,
			wait_for = m.wait_for,
			blocked_until = greatest(m.blocked_until, c.blocked_until), -- whichever there is
			claimed_by = NULL,
			job_id = m.job_id,
			outcome = coalesce(m.outcome, c.outcome),
			phase = m.phase,
			resend = m.resend,
			deadline = coalesce(m.deadline, c.deadline),
			finalized_at = CASE WHEN m.outcome IS NULL THEN NULL ELSE m.at END
		FROM unnest($1::uuid[], $2::text[], $3::int[], $4::text[], $5::int[], $6::timestamptz[], $7::text[], $8::timestamptz[],
			$9::json[], $10::text[], $11::timestamptz[], $12::int[], $13::text[], $14::timestamptz[], $15::bigint[])
			AS m(id, from_state, version, state, attempts, next_attempt_at, wait_for, blocked_until, outcome, phase, at, sequence, resend, deadline, job_id)
		WHERE c.id = m.id AND c.state = m.from_state AND c.version = m.version
		RETURNING c.id, EXISTS (SELECT FROM findings f WHERE f.command_id = c.id AND f.effect = 'kept' AND f.finding <> '')`,
		slices.Concat(moveColumns(moves), []any{jobs}, tallyColumns(tallyOf(moves)))...)
	if err != nil {
		return nil, fmt.Errorf("move commands: %w", err)
	}
	kept, err := collectKept(rows)
	if err != nil {
		return nil, fmt.Errorf("move commands: %w", err)
	}
	if len(kept) != len(moves) {
		return nil, fmt.Errorf("move commands: %w", ErrConflict)
	}
	if err := s.announce(ctx, tx, moves); err != nil {
		return nil, err
	}
	for _, m := range moves {
		if kept[m.Command.ID] && m.To.Absorbing() && !m.Correction {
			if err := s.contradictKept(ctx, tx, m); err != nil {
				return nil, err
			}
		}
	}
	return moved, nil
}

// check says what the moves will have moved, and refuses what none may.
func check(moves []Move) ([]Moved, error) {
	moved := make([]Moved, len(moves))
	for i, m := range moves {
		if err := m.check(); err != nil {
			return nil, err
		}
		moved[i] = Moved{m.Command.ID, m.To}
	}
	return moved, nil
}

// collectKept reads which commands were moved, and of which of them there are
// findings that had to wait.
func collectKept(rows pgx.Rows) (map[uuid.UUID]bool, error) {
	var (
		kept = map[uuid.UUID]bool{}
		id   uuid.UUID
		some bool
	)
	_, err := pgx.ForEachRow(rows, []any{&id, &some}, func() error {
		kept[id] = some
		return nil
	})
	return kept, err
}

// check refuses what no caller may ask for.
func (m Move) check() error {
	switch {
	case m.Correction && !outcome.CanCorrect(m.Command.State, m.To), !m.Correction && !outcome.CanMove(m.Command.State, m.To):
		return fmt.Errorf("move command %s from %s to %s: not a legal transition", m.Command.ID, m.Command.State, m.To)
	case (m.Outcome != nil) != m.To.Final(), m.Outcome != nil && m.Outcome.State != m.To:
		return fmt.Errorf("move command %s to %s: a final state and its outcome go together", m.Command.ID, m.To)
	default:
		return nil
	}
}

// moveColumns are $1 to $14 of Move's UPDATE, a slice each.
func moveColumns(moves []Move) []any {
	return []any{
		postgres.Column(moves, func(m Move) uuid.UUID { return m.Command.ID }),
		postgres.Column(moves, func(m Move) string { return string(m.Command.State) }),
		postgres.Column(moves, func(m Move) int32 { return int32(m.Command.Version) }),
		postgres.Column(moves, func(m Move) string { return string(m.To) }),
		postgres.Column(moves, func(m Move) int32 { return int32(m.Attempts) }),
		postgres.Column(moves, func(m Move) *time.Time { return onlyIf(m.To == outcome.StatePending, m.NextAttemptAt) }),
		postgres.Column(moves, func(m Move) *string {
			return onlyIf(m.To == outcome.StatePending && m.WaitFor != "", string(m.WaitFor))
		}),
		postgres.Column(moves, func(m Move) *time.Time { return m.BlockedUntil }),
		postgres.Column(moves, Move.outcomeColumn),
		postgres.Column(moves, Move.phaseColumn),
		postgres.Column(moves, func(m Move) time.Time { return m.Command.Now }),
		postgres.Column(moves, func(m Move) int32 { return int32(m.sequence()) }),
		postgres.Column(moves, Move.resendColumn),
		postgres.Column(moves, func(m Move) *time.Time { return m.Deadline }),
	}
}

// announces reports whether the move brings an outcome that the caller is told.
// A replay that leaves the doubt as it was brings none: it was a question.
func (m Move) announces() bool {
	return m.Outcome != nil && !(m.To == outcome.StateUnresolved && m.Command.Resend == ResendReplay)
}

// sequence is the command's after the move.
func (m Move) sequence() int {
	if m.announces() {
		return m.Command.Sequence + 1
	}
	return m.Command.Sequence
}

// resendColumn keeps what allows the attempt until an outcome follows it.
func (m Move) resendColumn() *string {
	if m.Outcome != nil {
		return nil
	}
	if m.Resend != "" {
		return new(string(m.Resend))
	}
	return onlyIf(m.Command.Resend != "", string(m.Command.Resend))
}

func (m Move) outcomeColumn() *string {
	if m.Outcome == nil {
		return nil
	}
	return new(encodeJSON(newStoredOutcome(m)))
}

// phaseColumn says who clears up an unresolved command.
func (m Move) phaseColumn() *string {
	if m.To != outcome.StateUnresolved {
		return nil
	}
	return new(string(m.Outcome.NextAction))
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
		c := m.Command
		p, ok := jobFor(m.To, queued{c.ID, c.UpstreamID, priorityOf(int(c.Priority)), m.NextAttemptAt, c.Now})
		if !ok || c.HeldBy != nil { // only the process that holds its body can start it
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
		if !m.announces() {
			continue
		}
		e := newOutcomeEvent(m)
		if m.To == outcome.StateUnresolved {
			terms, err := s.Terms(ctx, m.Command)
			if err != nil {
				return err
			}
			e.Hold = terms.hold(m.Outcome.Reason)
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil
	}
	if err := insertEvents(ctx, tx, events); err != nil {
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
			s.finished.WithLabelValues(string(m.State)).Inc()
			s.watch.wake(m.ID)
		}
	}
}
