package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/groupcommit"
	"executor/outcome"
	"executor/upstreams"
)

// ErrCannotHold: this process has no room for the body of a one-shot command, or
// sends nothing. Another one, or a later moment, may do.
var ErrCannotHold = errors.New("this process cannot hold the body of a one-shot command now")

// mayHold refuses what a one-shot body can never be.
func (s *Store) mayHold(sub Submission, op *upstreams.Operation) *Invalid {
	switch {
	case !sub.OneShot:
		return nil
	case s.box == nil:
		return invalid("/body_kind", "unavailable", "This deployment takes no one-shot bodies: it has no encryption key, under which their hash is kept.")
	case op.Body == upstreams.BodyNone:
		return invalid("/body_kind", "forbidden", "This operation has no body.")
	default:
		return nil
	}
}

// hold gives the body of a one-shot command to the process's engine, before anybody
// can see the command.
func (s *Store) hold(e *entry) error {
	if e.kept.kind != outcome.BodyOneShot {
		return nil
	}
	if s.starter == nil {
		return ErrCannotHold
	}
	epoch, ok := s.starter.Hold(e.id, e.sub.Tenant, e.request.Body)
	if !ok {
		return ErrCannotHold
	}
	e.held = &epoch
	return nil
}

// settleHeld tells the engine what became of the submission. If that is unknown it
// keeps the body and finds out by itself. Any other error says that nothing was
// accepted: while the database is away the bodies of those who ask again and again
// take up no room.
func (s *Store) settleHeld(e *entry, accepted bool, err error) {
	if e.held != nil && !errors.Is(err, groupcommit.ErrUnknown) {
		s.starter.Settle(e.id, accepted)
	}
}

// storedBody is the body as the row keeps it: nothing of a one-shot command's.
func (e *entry) storedBody() []byte {
	if e.kept.kind == outcome.BodyOneShot {
		return []byte{}
	}
	return append([]byte{}, e.request.Body...)
}

// Held is a pending command whose body only this process has.
type Held struct {
	Due
	In float64 // seconds until it is due, by the database's clock; negative if it is
}

// HeldUnder lists the pending one-shot commands that were accepted under leases.
func (s *Store) HeldUnder(ctx context.Context, epochs []int64) ([]Held, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, upstream_id, priority, extract(epoch FROM greatest(next_attempt_at, blocked_until) - clock_timestamp())::float8 AS "in"
		FROM commands WHERE held_by = ANY($1) AND next_attempt_at IS NOT NULL`, epochs)
	if err != nil {
		return nil, fmt.Errorf("read one-shot commands: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Held])
	if err != nil {
		return nil, fmt.Errorf("read one-shot commands: %w", err)
	}
	return list, nil
}

// CloseLost closes pending one-shot commands whose bodies are gone: their process
// lost its lease, or says itself that it does not have them. They were never sent.
// It returns how many there were.
func (s *Store) CloseLost(ctx context.Context, ids []uuid.UUID) (int, error) {
	var moved []Moved
	err := s.commit(ctx, func(ctx context.Context, tx Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT `+lockedColumns+` FROM commands c
			WHERE c.held_by IS NOT NULL AND c.next_attempt_at IS NOT NULL AND (c.id = ANY($1)
				OR NOT EXISTS (SELECT FROM leases l WHERE l.epoch = c.held_by AND l.ended_at IS NULL))
			ORDER BY c.id LIMIT 500 FOR UPDATE OF c SKIP LOCKED`, ids)
		if err != nil {
			return fmt.Errorf("find one-shot commands without a body: %w", err)
		}
		lost, err := pgx.CollectRows(rows, pgx.RowToStructByName[Locked])
		if err != nil {
			return fmt.Errorf("find one-shot commands without a body: %w", err)
		}
		moved, err = s.closePending(ctx, tx, lost, outcome.ReasonBodyNotReplayable, outcome.DecidedByAttempt, "")
		return err
	})
	if err != nil {
		return 0, err
	}
	s.Changed(moved)
	return len(moved), nil
}
