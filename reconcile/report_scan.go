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

// scanBatch is how many commands of the tenant are looked through in one
// transaction, whatever upstream they are of.
const scanBatch = 5000

// scannedCommand is one that was looked through.
type scannedCommand struct {
	ID        uuid.UUID
	CreatedAt time.Time
	Since     time.Time // it has been as it is
	State     outcome.State
	Missing   bool // it should be in the report, and no line is about it
}

// scanPeriod looks through the next commands of the period for those that say
// success, or do not know, and that no line is about.
func (s *Store) scanPeriod(ctx context.Context, tx commands.Tx, r heldReport) (more bool, err error) {
	page, err := readPeriod(ctx, tx, r)
	if err != nil || len(page) == 0 {
		return false, err
	}
	var missing []scannedCommand
	young := 0
	for _, c := range page {
		if !c.Missing {
			continue
		}
		if c.Since.After(r.settled()) {
			young++
		}
		missing = append(missing, c)
	}
	if err := insertMissing(ctx, tx, r, missing); err != nil {
		return false, err
	}
	last := page[len(page)-1]
	_, err = tx.Exec(ctx, `
		UPDATE reports SET scanned = scanned + $2, scanned_at = $3, scanned_id = $4, failures = 0,
			missing_there = missing_there + $5, young_there = young_there + $6
		WHERE id = $1`, r.ID, len(page), last.CreatedAt, last.ID, len(missing)-young, young)
	if err != nil {
		return false, fmt.Errorf("count commands of settlement report %s: %w", r.ID, err)
	}
	return true, nil
}

func readPeriod(ctx context.Context, tx commands.Tx, r heldReport) ([]scannedCommand, error) {
	after, afterID := *r.PeriodFrom, uuid.Nil
	if r.ScannedAt != nil {
		after, afterID = *r.ScannedAt, *r.ScannedID
	}
	rows, err := tx.Query(ctx, `
		WITH page AS (
			SELECT id, created_at, coalesce(finalized_at, created_at) AS since, state, upstream_id, operation
			FROM commands
			WHERE tenant = $1 AND (created_at, id) > ($2, $3) AND created_at < $4
			ORDER BY created_at, id LIMIT $5)
		SELECT id, created_at, since, state, upstream_id = $6 AND ($7 = '' OR operation = $7) AND state IN ('success', 'unresolved')
			AND (SELECT true FROM report_items i WHERE i.report_id = $8 AND i.command_id = page.id AND i.duplicate_of IS NULL LIMIT 1) IS NULL
		FROM page ORDER BY created_at, id`,
		r.Tenant, after, afterID, *r.PeriodUntil, scanBatch, r.UpstreamID, r.Operation, r.ID)
	if err != nil {
		return nil, fmt.Errorf("look through the period of settlement report %s: %w", r.ID, err)
	}
	page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[scannedCommand])
	if err != nil {
		return nil, fmt.Errorf("look through the period of settlement report %s: %w", r.ID, err)
	}
	return page, nil
}

// insertMissing writes an item for each command, with the numbers that follow.
func insertMissing(ctx context.Context, tx commands.Tx, r heldReport, missing []scannedCommand) error {
	next := r.Lines + r.Unmentioned + 1
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"report_items"}, []string{"report_id", "number", "kind", "command_id", "state"},
		pgx.CopyFromSlice(len(missing), func(i int) ([]any, error) {
			kind := ReportMissingThere
			if missing[i].Since.After(r.settled()) {
				kind = ReportTooYoung
			}
			return []any{r.ID, int32(next + i), string(kind), missing[i].ID, string(missing[i].State)}, nil
		}))
	if err != nil {
		return fmt.Errorf("write items of settlement report %s: %w", r.ID, err)
	}
	return nil
}
