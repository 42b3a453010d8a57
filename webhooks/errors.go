package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/groupcommit"
)

// ErrNotFound: the tenant has no such endpoint or delivery.
var ErrNotFound = errors.New("webhook not found")

// ErrBadCursor: a list cursor that this server did not give out.
var ErrBadCursor = errors.New("unknown cursor")

// Invalid is a setting that can never be accepted as it stands.
type Invalid struct {
	Field  string // of the request: url, events, …
	Code   string
	Detail string
}

func (e *Invalid) Error() string { return e.Field + ": " + e.Detail }

func invalid(field, code, format string, args ...any) error {
	return &Invalid{Field: field, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Refused is a request that the state of things does not allow now.
type Refused struct {
	Code   string
	Detail string
}

func (e *Refused) Error() string { return e.Detail }

func refused(code, format string, args ...any) error {
	return &Refused{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Stale: the endpoint is no longer in the version that the caller saw.
type Stale struct{ Version int }

func (e *Stale) Error() string {
	return fmt.Sprintf("the webhook was changed meanwhile: its version is %d now", e.Version)
}

// transactionBound is how long a transaction may take up to its COMMIT: on a
// connection that stands still it would take for ever.
const transactionBound = 30 * time.Second

// commit runs fn in a transaction. An error that is not about the request itself
// is commands.ErrUnavailable: whoever asked may ask again.
func (s *Store) commit(ctx context.Context, fn func(ctx context.Context, tx pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, transactionBound)
	defer cancel()
	err := groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) error { return fn(ctx, tx) })
	if err == nil || answered(err) {
		return err
	}
	return fmt.Errorf("%w: %w", commands.ErrUnavailable, err)
}

// answered tells an answer to the caller from a failure of ours.
func answered(err error) bool {
	var (
		invalid *Invalid
		refused *Refused
		stale   *Stale
		busy    *Busy
	)
	return errors.Is(err, ErrNotFound) || errors.Is(err, context.Canceled) ||
		errors.As(err, &invalid) || errors.As(err, &refused) || errors.As(err, &stale) || errors.As(err, &busy)
}

// unavailable wraps a failed read: whoever asked may ask again.
func unavailable(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", commands.ErrUnavailable, what, err)
}
