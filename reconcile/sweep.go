package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// sweepPage bounds how many unresolved commands one sweep looks at. Each goes on
// where the last one ended.
const sweepPage = 1000

// place is where a sweep stands in the index of unresolved commands. The zero
// place is the beginning.
type place struct {
	tenant    string
	createdAt time.Time
	id        uuid.UUID
}

// sweep finds unresolved commands that nobody follows up, because they are older
// than the table of doubts or a fault of ours lost them: it plans a round of lookups,
// or gives them to a person.
func (e *Engine) sweep(ctx context.Context) error {
	ids, last, seen, err := e.store.forgotten(ctx, e.swept)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := e.store.takeUpForgotten(ctx, id); err != nil {
			return err
		}
		e.log.Warn("a forgotten doubt is followed up again", "command_id", id)
	}
	if e.swept = last; seen < sweepPage {
		e.swept = place{}
	}
	return nil
}

// forgotten looks at one page. It reads the index in its order: the rest of the
// tenant where the last page ended, then the tenants behind it. LATERAL keeps it
// from reading the whole table of doubts for one page.
func (s *Store) forgotten(ctx context.Context, from place) (ids []uuid.UUID, last place, seen int, err error) {
	rows, err := s.pool.Query(ctx, `
		SELECT c.id, c.tenant, c.created_at,
			CASE c.phase WHEN 'lookup' THEN d.next_at IS NULL AND (d.claimed_until IS NULL OR d.claimed_until <= now())
				ELSE d.handed_at IS NULL END
		FROM (
			(SELECT 1 AS part, id, tenant, created_at, phase FROM commands
				WHERE phase IS NOT NULL AND tenant = $1 AND (created_at, id) < ($2, $3)
				ORDER BY created_at DESC, id DESC LIMIT $4)
			UNION ALL
			(SELECT 2, id, tenant, created_at, phase FROM commands
				WHERE phase IS NOT NULL AND tenant > $1
				ORDER BY tenant, created_at DESC, id DESC LIMIT $4)
			ORDER BY part, tenant, created_at DESC, id DESC LIMIT $4) c
		LEFT JOIN LATERAL (SELECT next_at, claimed_until, handed_at FROM doubts WHERE command_id = c.id LIMIT 1) d ON true
		ORDER BY c.part, c.tenant, c.created_at DESC, c.id DESC`, from.tenant, from.createdAt, from.id, sweepPage)
	if err != nil {
		return nil, from, 0, fmt.Errorf("look for forgotten doubts: %w", err)
	}
	var lost bool
	_, err = pgx.ForEachRow(rows, []any{&last.id, &last.tenant, &last.createdAt, &lost}, func() error {
		seen++
		if lost {
			ids = append(ids, last.id)
		}
		return nil
	})
	if err != nil {
		return nil, from, 0, fmt.Errorf("look for forgotten doubts: %w", err)
	}
	return ids, last, seen, nil
}

// takeUpForgotten does under the lock, where it looks once more, what was forgotten.
func (s *Store) takeUpForgotten(ctx context.Context, id uuid.UUID) error {
	return s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		locked, err := s.commands.Lock(ctx, tx, []uuid.UUID{id})
		c := locked[id]
		if err != nil || c.State != outcome.StateUnresolved {
			return err
		}
		write := handForgotten
		if c.Phase == string(outcome.NextActionLookup) {
			write = s.planForgotten
		}
		wrote, err := write(ctx, tx, c)
		if err != nil || !wrote {
			return err
		}
		return s.commands.Touch(ctx, tx, []uuid.UUID{id})
	})
}

// queueColumns are what the queue of reviews is filtered and sorted by, of a command c.
const queueColumns = `operation, deadline, coalesce(outcome ->> 'reason', ''), coalesce(` + commands.ActingEvidence + `, '')`

// planForgotten plans a round now, with the whole schedule before it.
func (s *Store) planForgotten(ctx context.Context, tx commands.Tx, c commands.Locked) (bool, error) {
	schedule := fallbackSchedule
	if op, err := s.commands.Operation(ctx, c.UpstreamID, c.ProfileVersion, c.Operation); err == nil && len(op.Lookups) > 0 {
		schedule = op.LookupSchedule()
	}
	tag, err := tx.Exec(ctx, `
		INSERT INTO doubts (command_id, tenant, upstream_id, since, next_at, gives_up_at, operation, deadline, reason, evidence)
		SELECT id, tenant, upstream_id, coalesce(finalized_at, $2), $2, $3, `+queueColumns+` FROM commands c WHERE id = $1
		ON CONFLICT (command_id) DO UPDATE SET next_at = excluded.next_at, gives_up_at = excluded.gives_up_at
		WHERE doubts.next_at IS NULL`, c.ID, c.Now, c.Now.Add(schedule.GiveUpAfter))
	if err != nil {
		return false, fmt.Errorf("plan a lookup of command %s: %w", c.ID, err)
	}
	return tag.RowsAffected() > 0, nil
}

// handForgotten puts into the queue what is a person's.
func handForgotten(ctx context.Context, tx commands.Tx, c commands.Locked) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO doubts (command_id, tenant, upstream_id, since, handed_at, handed_reason, operation, deadline, reason, evidence)
		SELECT id, tenant, upstream_id, coalesce(finalized_at, $2), $2, $3, `+queueColumns+` FROM commands c WHERE id = $1
		ON CONFLICT (command_id) DO UPDATE SET handed_at = excluded.handed_at, handed_reason = excluded.handed_reason
		WHERE doubts.handed_at IS NULL`, c.ID, c.Now, commands.ReviewNoLookup)
	if err != nil {
		return false, fmt.Errorf("hand command %s to a person: %w", c.ID, err)
	}
	return tag.RowsAffected() > 0, nil
}
