package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"executor/internal/groupcommit"
)

// transactionBound is how long a transaction may take up to its COMMIT: on a
// connection that stands still it would take for ever.
const transactionBound = 30 * time.Second

// commit runs fn in a transaction. An error that is not about the command
// itself is ErrUnavailable: whoever asked may ask again.
func (s *Store) commit(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, transactionBound)
	defer cancel()
	err := groupcommit.Commit(ctx, s.pool, func(tx Tx) error { return fn(ctx, tx) })
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// confirm lets the transaction's COMMIT wait for the synchronous standby, as that of
// a write would: what it read may have been committed and not replicated, by a
// transaction whose wait was cancelled. It writes a record that nobody reads.
func confirm(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, `SELECT pg_logical_emit_message(true, 'executor', '')`)
	if err != nil {
		return fmt.Errorf("confirm what was read: %w", err)
	}
	return nil
}

// unavailable wraps a failed read: whoever asked may ask again.
func unavailable(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}
