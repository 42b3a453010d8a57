package commands

import (
	"context"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
)

// Park lets a due command wait for something other than time, and looks again
// after a while. It is no attempt; only the deadline ends it. A command that is
// not due any more is left to whoever moved it.
func (s *Store) Park(ctx context.Context, id uuid.UUID, what WaitFor, again time.Duration) error {
	return s.commit(ctx, func(ctx context.Context, tx Tx) error {
		locked, err := s.Lock(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		c, ok := locked[id]
		if !ok || c.State != outcome.StatePending || c.NextAttemptAt.After(c.Now) {
			return nil
		}
		_, err = s.Move(ctx, tx, []Move{{
			Command: c, To: outcome.StatePending, Attempts: c.Attempts, NextAttemptAt: c.Now.Add(again), WaitFor: what,
		}})
		return err
	})
}
