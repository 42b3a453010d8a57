package commands

import (
	"context"
	"errors"
	"fmt"

	"executor/internal/groupcommit"
)

// commit runs fn in a transaction. An error that is not about the command
// itself is ErrUnavailable: whoever asked may ask again.
func (s *Store) commit(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	err := groupcommit.Commit(ctx, s.pool, func(tx Tx) error { return fn(ctx, tx) })
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrConflict) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// unavailable wraps a failed read: whoever asked may ask again.
func unavailable(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}
