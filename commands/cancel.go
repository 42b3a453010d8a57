package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/groupcommit"
	"executor/outcome"
)

// Cancel asks that nothing more be sent. A pending command ends in the same
// transaction, by the same closing function as ever; an attempt on the wire is
// not cut off, its evidence decides; an unresolved command only loses the right
// to be sent again.
func (s *Store) Cancel(ctx context.Context, tenant string, id uuid.UUID, actor string) (Command, CancelResult, error) {
	var (
		result CancelResult
		moved  []Moved
	)
	err := s.commit(ctx, func(ctx context.Context, tx Tx) error {
		var err error
		result, moved, err = s.cancel(ctx, tx, tenant, id, actor)
		return err
	})
	if err != nil {
		return Command{}, "", err
	}
	s.Changed(moved)
	c, err := s.Get(ctx, tenant, id)
	return c, result, err
}

func (s *Store) cancel(ctx context.Context, tx Tx, tenant string, id uuid.UUID, actor string) (CancelResult, []Moved, error) {
	locked, err := s.Lock(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return "", nil, err
	}
	c, ok := locked[id]
	if !ok || c.Tenant != tenant {
		return "", nil, ErrNotFound
	}
	if c.State.Absorbing() {
		return CancelTooLate, nil, nil
	}
	if c.CancelRequestedAt == nil {
		if err := s.requestCancel(ctx, tx, &c, actor); err != nil {
			return "", nil, err
		}
	}
	switch c.State {
	case outcome.StateExecuting:
		return CancelRequested, nil, nil
	case outcome.StateUnresolved:
		return CancelInDoubt, nil, nil
	}
	moved, final, err := s.closePending(ctx, tx, []Locked{c}, outcome.DecidedByCancel, actor)
	if err != nil {
		return "", nil, err
	}
	switch final[0] {
	case outcome.StateCancelled:
		return CancelCancelled, moved, nil
	case outcome.StateUnresolved:
		return CancelInDoubt, moved, nil
	default: // the last answer had decided it
		return CancelTooLate, moved, nil
	}
}

// requestCancel records the wish and who had it.
func (s *Store) requestCancel(ctx context.Context, tx Tx, c *Locked, actor string) error {
	_, err := tx.Exec(ctx, `
		UPDATE commands SET cancel_requested_at = $2, cancel_requested_by = $3, version = version + 1 WHERE id = $1`,
		c.ID, c.Now, actor)
	if err != nil {
		return fmt.Errorf("cancel command %s: %w", c.ID, err)
	}
	c.Version++
	c.CancelRequestedAt = &c.Now
	return insertEvent(ctx, tx, OutcomeEvent{
		CommandID: c.ID, Tenant: c.Tenant, Number: c.Version, Type: "command.cancel_requested", At: c.Now, Actor: actor,
	})
}

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
		moved, _, err = s.closePending(ctx, tx, overdue, outcome.DecidedByDeadline, "")
		return err
	})
	if err != nil {
		return 0, err
	}
	s.Changed(moved)
	return len(moved), nil
}

// closePending ends pending commands that a cancel or the deadline stops, by
// what their attempts say.
func (s *Store) closePending(ctx context.Context, tx Tx, list []Locked, by outcome.DecidedBy, actor string) ([]Moved, []outcome.State, error) {
	ids := make([]uuid.UUID, len(list))
	for i, c := range list {
		ids[i] = c.ID
	}
	history, err := s.History(ctx, tx, ids)
	if err != nil {
		return nil, nil, err
	}
	moves := make([]Move, len(list))
	states := make([]outcome.State, len(list))
	for i, c := range list {
		contract, err := s.contract(ctx, c.UpstreamID, c.ProfileVersion, c.Operation)
		if err != nil {
			return nil, nil, err
		}
		reason := outcome.ReasonDeadline
		if c.CancelRequestedAt != nil {
			reason = outcome.ReasonCancelRequested
		}
		out := outcome.Close(outcome.Facts{
			Operation: contract, CancelRequested: c.CancelRequestedAt != nil, Attempts: attemptsOf(history[c.ID]),
		})
		moves[i] = Move{
			Command: c, To: out.State, Attempts: c.Attempts, Actor: actor,
			Outcome: FinalOf(out, reason, by, history[c.ID]),
		}
		states[i] = out.State
	}
	moved, err := s.Move(ctx, tx, moves)
	return moved, states, err
}

// commit runs fn in a transaction. An error that is not about the command
// itself is ErrUnavailable: whoever asked may ask again.
func (s *Store) commit(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	err := groupcommit.Commit(ctx, s.pool, func(tx Tx) error { return fn(ctx, tx) })
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
