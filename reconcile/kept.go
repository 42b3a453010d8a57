package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// passOn weighs again what was found while an attempt was under way: now that the
// command is unresolved, it may settle it. A refusal does not speak for an attempt
// that began after it, nor against a finding that it was done: then it is a conflict.
func (s *Store) passOn(ctx context.Context, c claimed) ([]commands.Moved, error) {
	var moved []commands.Moved
	err := s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		moved = nil
		locked, err := s.commands.Lock(ctx, tx, []uuid.UUID{c.CommandID})
		if err != nil || locked[c.CommandID].State != outcome.StateUnresolved {
			return err
		}
		k, ok, err := newestKept(ctx, tx, c.CommandID)
		if err != nil || !ok {
			return err
		}
		_, moved, err = s.commands.Learn(ctx, tx, c.CommandID, k)
		return err
	})
	return moved, err
}

func newestKept(ctx context.Context, tx pgx.Tx, id uuid.UUID) (commands.Knowledge, bool, error) {
	var k commands.Knowledge
	err := tx.QueryRow(ctx, `
		SELECT source, actor, finding, status, reference, code, message, observation, body
		FROM findings f
		WHERE command_id = $1 AND effect = 'kept' AND (finding = 'applied' OR finding = 'refused' AND NOT EXISTS (
			SELECT FROM attempts a WHERE a.command_id = f.command_id AND a.started_at > f.at AND a.boundary <> 'not_crossed'))
		ORDER BY finding = 'applied' DESC, id DESC LIMIT 1`, id).Scan(
		&k.Source, &k.Actor, &k.Finding, &k.Status, &k.Reference, &k.Code, &k.Message, &k.Observation, &k.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		return k, false, nil
	}
	if err != nil {
		return k, false, fmt.Errorf("read findings about command %s: %w", id, err)
	}
	return k, true, nil
}
