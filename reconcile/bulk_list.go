package reconcile

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
)

// Bulks reads a page of the tenant's bulk actions, newest first and without their
// items, and the cursor of the next page ("" at the end).
func (s *Store) Bulks(ctx context.Context, tenant, cursor string, limit int) ([]Bulk, string, error) {
	var w postgres.Where
	w.And("b.tenant = ?", tenant)
	if cursor != "" {
		at, id, ok := postgres.ParseCursor(cursor)
		if !ok {
			return nil, "", commands.ErrBadCursor
		}
		w.And("(b.created_at, b.id) < (?, ?)", at, id)
	}
	where, args := w.Build()
	rows, err := s.pool.Query(ctx, fmt.Sprintf(`
		SELECT b.id, b.action, b.actor, b.created_at, b.request::text, i.pending, i.done, i.refused
		FROM bulk_actions b CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE result = 'pending') AS pending, count(*) FILTER (WHERE result = 'done') AS done,
				count(*) FILTER (WHERE result = 'refused') AS refused
			FROM bulk_items WHERE tenant = b.tenant AND bulk_id = b.id) i
		%s ORDER BY b.created_at DESC, b.id DESC LIMIT %d`, where, limit+1), args...)
	if err != nil {
		return nil, "", unavailable("read bulk actions", err)
	}
	list, err := pgx.CollectRows(rows, scanBulk)
	if err != nil {
		return nil, "", unavailable("read bulk actions", err)
	}
	if len(list) <= limit {
		return list, "", nil
	}
	list = list[:limit]
	return list, postgres.Cursor(list[limit-1].CreatedAt, list[limit-1].ID), nil
}

func scanBulk(row pgx.CollectableRow) (Bulk, error) {
	var (
		b       Bulk
		order   string
		pending int
	)
	if err := row.Scan(&b.ID, &b.Action, &b.Actor, &b.CreatedAt, &order, &pending, &b.Done, &b.Refused); err != nil {
		return b, err
	}
	b.Count, b.State = pending+b.Done+b.Refused, BulkStateDone
	if pending > 0 {
		b.State = BulkStateRunning
	}
	return b, b.readOrder(order)
}
