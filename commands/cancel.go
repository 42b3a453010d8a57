package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"executor/internal/audit"
	"executor/outcome"
)

// Cancel asks that nothing more be sent. A pending command ends in the same
// transaction, by the same closing function as ever; an attempt on the wire is
// not cut off, its evidence decides; an unresolved command only loses the right
// to be sent again. Who asks is on record with the command and in the audit; asking
// again changes neither.
func (s *Store) Cancel(ctx context.Context, tenant string, id uuid.UUID, by audit.By) (Command, CancelResult, error) {
	var (
		result CancelResult
		moved  []Moved
	)
	err := s.commit(ctx, func(ctx context.Context, tx Tx) error {
		var err error
		result, moved, err = s.cancel(ctx, tx, tenant, id, by)
		return err
	})
	if err != nil {
		return Command{}, "", err
	}
	s.Changed(moved)
	c, err := s.Get(ctx, tenant, id)
	return c, result, err
}

// wish is what a cancel may change, as the audit shows it.
type wish struct {
	State           outcome.State `json:"state"`
	CancelRequested bool          `json:"cancel_requested"`
}

func (s *Store) cancel(ctx context.Context, tx Tx, tenant string, id uuid.UUID, by audit.By) (CancelResult, []Moved, error) {
	locked, err := s.Lock(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return "", nil, err
	}
	c, ok := locked[id]
	if !ok || c.Tenant != tenant {
		return "", nil, ErrNotFound
	}
	was := wish{c.State, c.CancelRequestedAt != nil}
	result, moved, err := s.CancelIn(ctx, tx, c, by.Actor)
	is := wish{was.State, true}
	if len(moved) > 0 {
		is.State = moved[0].State
	}
	if err != nil || is == was || was.State.Absorbing() {
		return result, moved, err
	}
	return result, moved, audit.Record(ctx, tx, audit.Entry{
		Tenant: tenant, Actor: by.Actor, Action: audit.ActionCommandCancel, Command: &id, Reason: by.Reason,
		Before: was, After: is, Details: map[string]any{"result": result},
	})
}

// CancelIn is Cancel as a step of the caller's transaction, which has locked the
// command and puts the deed into the audit. After the commit the caller passes what
// was moved to Changed.
func (s *Store) CancelIn(ctx context.Context, tx Tx, c Locked, actor string) (CancelResult, []Moved, error) {
	if c.State.Absorbing() {
		return CancelTooLate, nil, nil
	}
	if c.CancelRequestedAt == nil {
		if err := s.requestCancel(ctx, tx, &c, actor); err != nil {
			return "", nil, err
		}
	}
	return s.cancelNow(ctx, tx, c, actor)
}

// cancelNow ends a command that waits. One that is under way, or in doubt, has its
// wish on record.
func (s *Store) cancelNow(ctx context.Context, tx Tx, c Locked, actor string) (CancelResult, []Moved, error) {
	switch c.State {
	case outcome.StateExecuting:
		return CancelRequested, nil, nil
	case outcome.StateUnresolved:
		return CancelInDoubt, nil, nil
	}
	moved, err := s.closePending(ctx, tx, []Locked{c}, outcome.ReasonCancelRequested, outcome.DecidedByCancel, actor)
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
