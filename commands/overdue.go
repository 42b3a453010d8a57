package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/postgres"
	"executor/outcome"
)

// CloseOverdue closes pending commands whose deadline has passed, wherever they
// wait, and returns how many there were.
func (s *Store) CloseOverdue(ctx context.Context) (int, error) {
	var moved []Moved
	err := s.commit(ctx, func(ctx context.Context, tx Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT `+lockedColumns+` FROM commands
			WHERE next_attempt_at IS NOT NULL AND deadline <= now()
			ORDER BY deadline LIMIT 500 FOR UPDATE SKIP LOCKED`)
		if err != nil {
			return fmt.Errorf("find overdue commands: %w", err)
		}
		overdue, err := pgx.CollectRows(rows, pgx.RowToStructByName[Locked])
		if err != nil {
			return fmt.Errorf("find overdue commands: %w", err)
		}
		moved, err = s.closePending(ctx, tx, overdue, outcome.ReasonDeadline, outcome.DecidedByDeadline, "")
		return err
	})
	if err != nil {
		return 0, err
	}
	s.Changed(moved)
	return len(moved), nil
}

// closePending ends pending commands that something other than an attempt stops, by
// what their attempts say.
func (s *Store) closePending(ctx context.Context, tx Tx, list []Locked, stopped outcome.Reason, by outcome.DecidedBy, actor string) ([]Moved, error) {
	history, err := s.History(ctx, tx, postgres.Column(list, func(c Locked) uuid.UUID { return c.ID }))
	if err != nil {
		return nil, err
	}
	doubt, err := s.doubt(ctx, tx)
	if err != nil {
		return nil, err
	}
	holds, err := heldBackAtDeadline(ctx, tx, list, stopped, doubt)
	if err != nil {
		return nil, err
	}
	moves := make([]Move, len(list))
	for i, c := range list {
		terms, err := s.Terms(ctx, c)
		if err != nil {
			return nil, err
		}
		reason := stopped
		if c.CancelRequestedAt != nil {
			reason = outcome.ReasonCancelRequested
		}
		past, attempts := history[c.ID], c.Attempts
		var blocked *time.Time // until then the attempt whose record is lost may be under way
		if doubt.Covers(c) {
			attempts++
			latest := doubt.LatestEnd(terms, c)
			blocked = &latest
			past = append(past, possiblyLost(c, attempts, latest))
			if err := recordLost(ctx, tx, c, attempts, latest); err != nil {
				return nil, err
			}
		}
		out := outcome.Close(outcome.Facts{
			Operation: terms.Contract, CancelRequested: c.CancelRequestedAt != nil, Attempts: attemptsOf(past),
		})
		final := FinalOf(out, reason, by, past)
		if reason == outcome.ReasonDeadline {
			final.WaitedFor = holds[c.ID]
		}
		moves[i] = Move{Command: c, To: out.State, Attempts: attempts, Actor: actor, BlockedUntil: blocked, Outcome: final}
	}
	return s.Move(ctx, tx, moves)
}

// heldBackAtDeadline says what kept commands from their turn until their deadline, where
// that is on record: without it nobody could tell afterwards why nothing was sent.
func heldBackAtDeadline(ctx context.Context, tx Tx, list []Locked, stopped outcome.Reason, d Doubt) (map[uuid.UUID]WaitFor, error) {
	if stopped != outcome.ReasonDeadline || len(list) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT id, CASE WHEN paused_at IS NOT NULL THEN 'paused' ELSE 'throttle' END AS hold FROM upstreams
		WHERE id = ANY($1) AND (paused_at IS NOT NULL OR throttled_until > clock_timestamp())`,
		postgres.Column(list, func(c Locked) int64 { return c.UpstreamID }))
	if err != nil {
		return nil, fmt.Errorf("read what holds commands back: %w", err)
	}
	var (
		upstreams = map[int64]WaitFor{}
		id        int64
		hold      WaitFor
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &hold}, func() error { upstreams[id] = hold; return nil }); err != nil {
		return nil, fmt.Errorf("read what holds commands back: %w", err)
	}
	holds := make(map[uuid.UUID]WaitFor, len(list))
	for _, c := range list {
		holds[c.ID] = c.heldBack(upstreams[c.UpstreamID], d.FrozenAt != nil)
	}
	return holds, nil
}

// heldBack is what a command waited for, "" if for nothing but its turn or the pause
// between two attempts. What stops everybody comes first, as while it waits.
func (c Locked) heldBack(upstream WaitFor, frozen bool) WaitFor {
	switch {
	case frozen:
		return WaitFrozen
	case upstream == WaitPaused:
		return WaitPaused
	case c.WaitFor != nil && *c.WaitFor != WaitBackoff && *c.WaitFor != WaitNotBefore:
		return *c.WaitFor
	default:
		return upstream
	}
}
