package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
	"executor/upstreams"
)

// StartBulk begins to do one thing to everything that the filter finds now, or to
// what was picked; in a dry run it says what that is. Each command is left alone if
// it has moved on since. The same request under the same id is the same bulk action.
func (s *Store) StartBulk(ctx context.Context, r BulkRequest) (Bulk, error) {
	r.Filter.Tenant, r.Filter.Sort, r.Filter.Cursor, r.Filter.Limit = r.Tenant, "", "", 0
	o, err := r.order()
	if err != nil {
		return Bulk{}, err
	}
	if r.DryRun {
		return s.previewBulk(ctx, r, o)
	}
	err = s.transact(ctx, func(ctx context.Context, tx commands.Tx) error { return s.startBulk(ctx, tx, r, o) })
	if err != nil {
		return Bulk{}, err
	}
	return s.Bulk(ctx, r.Tenant, r.ID)
}

// startBulk settles which commands it is for. Whoever asks under an id that is
// taken waits for the one who came first.
func (s *Store) startBulk(ctx context.Context, tx commands.Tx, r BulkRequest, o BulkOrder) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO bulk_actions (tenant, id, action, actor, request, created_at) VALUES ($1, $2, $3, $4, $5, now())
		ON CONFLICT (tenant, id) DO NOTHING`, r.Tenant, r.ID, r.Action, r.Actor, jsonText(o))
	if err != nil {
		return fmt.Errorf("start bulk action %s: %w", r.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return sameBulk(ctx, tx, r, o)
	}
	count, err := s.selectItems(ctx, tx, r)
	if err != nil {
		return err
	}
	if err := r.accepts(count); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		Tenant: r.Tenant, Actor: r.Actor, Action: audit.ActionBulkStart, Subject: "bulk action " + r.ID.String(), Reason: o.Reason,
		EvidenceReference: o.EvidenceReference, Details: map[string]any{"order": o, "count": count},
	})
}

// sameBulk refuses another request under the id of an earlier one.
func sameBulk(ctx context.Context, tx commands.Tx, r BulkRequest, o BulkOrder) error {
	var stored string
	err := tx.QueryRow(ctx, `SELECT request::text FROM bulk_actions WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID).Scan(&stored)
	if err != nil {
		return fmt.Errorf("read bulk action %s: %w", r.ID, err)
	}
	if stored != jsonText(o) {
		return &Refused{Code: RefusedIDReused, Detail: "Another bulk action was started under this id. Use a new id for a new action."}
	}
	return nil
}

// selectItems writes down the commands as of this moment and counts them.
func (s *Store) selectItems(ctx context.Context, tx commands.Tx, r BulkRequest) (int, error) {
	if len(r.Selection) > 0 {
		return selectPicked(ctx, tx, r)
	}
	sql, args, err := r.Filter.statement(MaxBulk + 1)
	if err != nil {
		return 0, err
	}
	n := len(args) + 1 // args begin with the tenant
	tag, err := tx.Exec(ctx, fmt.Sprintf(`
		INSERT INTO bulk_items (tenant, bulk_id, number, command_id, version, next_at)
		SELECT $1, $%d, row_number() OVER (ORDER BY since, command_id), command_id, version, now() FROM (%s) found`, n, sql),
		append(args, r.ID)...)
	if err != nil {
		return 0, fmt.Errorf("select the commands of bulk action %s: %w", r.ID, err)
	}
	if tag.RowsAffected() > MaxBulk {
		return s.countQueue(ctx, tx, r.Filter, everything)
	}
	return int(tag.RowsAffected()), nil
}

// selectPicked writes down those that were picked, each at the version that the
// person saw.
func selectPicked(ctx context.Context, tx commands.Tx, r BulkRequest) (int, error) {
	ids, versions := r.picks()
	tag, err := tx.Exec(ctx, `
		INSERT INTO bulk_items (tenant, bulk_id, number, command_id, version, next_at)
		SELECT $1, $2, p.number, c.id, p.version, now()
		FROM unnest($3::uuid[], $4::int[]) WITH ORDINALITY AS p(id, version, number)
		JOIN commands c ON c.id = p.id AND c.tenant = $1`, r.Tenant, r.ID, ids, versions)
	if err != nil {
		return 0, fmt.Errorf("select the commands of bulk action %s: %w", r.ID, err)
	}
	if missing := len(ids) - int(tag.RowsAffected()); missing > 0 {
		return 0, notTheirs(missing)
	}
	return len(ids), nil
}

func (r BulkRequest) picks() (ids []uuid.UUID, versions []int32) {
	for _, c := range r.Selection {
		ids, versions = append(ids, c.Command), append(versions, int32(c.Version))
	}
	return ids, versions
}

// notTheirs refuses a selection that names what the tenant does not have.
func notTheirs(missing int) error {
	return invalidIf([]upstreams.FieldError{field("/selection", "not_found", "This tenant has no such command for %d of those that were selected.", missing)})
}

func (s *Store) countQueue(ctx context.Context, q commands.Querier, f ReviewFilter, limit int) (int, error) {
	sql, args, err := f.countStatement(limit)
	if err != nil {
		return 0, err
	}
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return 0, unavailable("count the review queue", err)
	}
	count, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[int])
	if err != nil {
		return 0, unavailable("count the review queue", err)
	}
	return count, nil
}

// everything is a limit that limits nothing.
const everything = 1 << 31

// accepts refuses a number of commands that nobody can have meant.
func (r BulkRequest) accepts(count int) error {
	switch {
	case count > MaxBulk:
		return &Refused{Code: RefusedTooMany, Count: count, Detail: fmt.Sprintf("The filter finds %d commands; one bulk action takes %d. Narrow the filter.", count, MaxBulk)}
	case r.ExpectedCount != nil && *r.ExpectedCount != count:
		return &Refused{Code: RefusedCountDiffers, Count: count, Detail: fmt.Sprintf("The filter finds another number of commands now: %d instead of %d. Look at them again.", count, *r.ExpectedCount)}
	default:
		return nil
	}
}

// sampleSize is how many commands a dry run names.
const sampleSize = 20

// previewBulk says what a bulk action would be done to, and what of it would be
// refused as things stand.
func (s *Store) previewBulk(ctx context.Context, r BulkRequest, o BulkOrder) (Bulk, error) {
	selection, err := s.wouldSelect(ctx, r)
	if err != nil {
		return Bulk{}, err
	}
	b := Bulk{ID: r.ID, Action: r.Action, Actor: r.Actor, Reason: o.Reason, Order: o, Problems: map[string]int{}, Selection: selection}
	for part := range slices.Chunk(selection, 500) {
		ids := make([]uuid.UUID, len(part))
		for i, c := range part {
			ids[i] = c.Command
		}
		standings, err := s.standings(ctx, s.pool, ids)
		if err != nil {
			return Bulk{}, unavailable("read what may be done about commands", err)
		}
		for _, c := range part {
			st, ok := standings[c.Command]
			if !ok || st.command.Tenant != r.Tenant {
				return Bulk{}, notTheirs(1)
			}
			b.Items = append(b.Items, o.preview(c, st))
		}
	}
	b.sum()
	b.Items, b.Sample, b.State = nil, b.Items[:min(sampleSize, len(b.Items))], BulkStatePreview
	return b, nil
}

// wouldSelect is what it would be for: what was picked, or what the filter finds.
func (s *Store) wouldSelect(ctx context.Context, r BulkRequest) ([]Selected, error) {
	if len(r.Selection) > 0 {
		return r.Selection, r.accepts(len(r.Selection))
	}
	found, err := s.queue(ctx, s.pool, r.Filter, MaxBulk+1) // however long the queue is
	count := len(found)
	if err == nil && count > MaxBulk {
		count, err = s.countQueue(ctx, s.pool, r.Filter, everything)
	}
	if err != nil {
		return nil, err
	}
	selection := make([]Selected, len(found))
	for i, q := range found {
		selection[i] = Selected{q.CommandID, q.Version}
	}
	return selection, r.accepts(count)
}

// preview is what would become of one of them.
func (o BulkOrder) preview(c Selected, st standing) BulkItem {
	item := BulkItem{Command: c.Command, Result: BulkPending}
	if st.command.Version != c.Version {
		item.Result = BulkRefused
		item.Problem, item.Detail = problemOf(&Stale{Version: st.command.Version})
	} else if refused := o.refusal(st); refused != nil {
		item.Result, item.Problem, item.Detail = BulkRefused, refused.Code, refused.Detail
	}
	return item
}

// refusal says why the action would be refused for a command.
func (o BulkOrder) refusal(st standing) *Refused {
	switch o.Action {
	case ActionResolve:
		return st.mayResolve()
	case ActionLookup:
		return st.mayLookUp()
	case ActionResend:
		return st.mayResend(o.Absent)
	case ActionAssign:
		return st.mayAssign()
	default:
		return nil
	}
}
