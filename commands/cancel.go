package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"

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
	moved, err := s.closePending(ctx, tx, []Locked{c}, outcome.DecidedByCancel, actor)
	if err != nil {
		return "", nil, err
	}
	switch moved[0].State {
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
