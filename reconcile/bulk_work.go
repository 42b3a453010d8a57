package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/due"
)

const (
	bulkEvery = time.Second
	// bulkTotal and bulkLane bound the commands worked on at once in one process, and
	// of them those of one tenant: its audit lets no two be recorded at once.
	bulkTotal = 8
	bulkLane  = 2
	// bulkClaim is how long an item is left to whoever took it. Two that work on one
	// all the same wait for each other, and the second finds it done.
	bulkClaim = 30 * time.Second
	// bulkTries is when an item that fails for no reason of its own is given up.
	bulkTries = 10
)

// bulkWork is one item of a bulk action, taken to be worked on.
type bulkWork struct {
	Tenant    string
	BulkID    uuid.UUID
	Number    int
	CommandID uuid.UUID
	Version   int
	Tries     int
	Actor     string
	Request   string
}

// BulkRunner works on the items of bulk actions from Start to Stop. Any number of
// processes may have one.
func (s *Store) BulkRunner() *due.Runner[string, bulkWork] {
	return due.New(due.Config[string, bulkWork]{
		Name: "bulk actions", Every: bulkEvery, Total: bulkTotal, Claim: s.claimBulk,
		Lane: func(w bulkWork) string { return w.Tenant }, Work: s.workBulk, Log: s.log,
	})
}

// claimBulk takes items that are due, of each tenant the oldest action's first. An
// action that has none left is over.
func (s *Store) claimBulk(ctx context.Context, busy map[string]int, limit int) ([]bulkWork, error) {
	tenants := slices.Collect(maps.Keys(busy))
	counts := make([]int32, len(tenants))
	for i, name := range tenants {
		counts[i] = int32(busy[name])
	}
	rows, err := s.pool.Query(ctx, `
		WITH lane AS (
			SELECT t.tenant, greatest($3 - coalesce(b.items, 0), 0) AS room
			FROM (SELECT DISTINCT tenant FROM bulk_actions WHERE finished_at IS NULL) t
			LEFT JOIN unnest($1::text[], $2::int[]) AS b(tenant, items) ON b.tenant = t.tenant),
		due AS (
			SELECT taken.* FROM lane CROSS JOIN LATERAL (
				SELECT next.* FROM bulk_actions a CROSS JOIN LATERAL (
					SELECT i.tenant, i.bulk_id, i.number, a.actor, a.request FROM bulk_items i
					WHERE i.tenant = a.tenant AND i.bulk_id = a.id AND i.result = 'pending' AND i.next_at <= now()
					ORDER BY i.next_at, i.number LIMIT lane.room FOR UPDATE OF i SKIP LOCKED) next
				WHERE a.tenant = lane.tenant AND a.finished_at IS NULL
				ORDER BY a.created_at, a.id LIMIT lane.room) taken
			LIMIT $4)
		UPDATE bulk_items i SET next_at = now() + $5, tries = i.tries + 1
		FROM due WHERE i.tenant = due.tenant AND i.bulk_id = due.bulk_id AND i.number = due.number
		RETURNING i.tenant, i.bulk_id, i.number, i.command_id, i.version, i.tries, due.actor, due.request::text`,
		tenants, counts, bulkLane, limit, bulkClaim)
	if err != nil {
		return nil, fmt.Errorf("claim items of bulk actions: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[bulkWork])
	if err != nil {
		return nil, fmt.Errorf("claim items of bulk actions: %w", err)
	}
	if len(list) == 0 {
		return nil, s.finishBulk(ctx)
	}
	return list, nil
}

func (s *Store) finishBulk(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE bulk_actions a SET finished_at = now()
		WHERE finished_at IS NULL AND NOT EXISTS (
			SELECT FROM bulk_items i WHERE i.tenant = a.tenant AND i.bulk_id = a.id AND i.result = 'pending')`)
	if err != nil {
		return fmt.Errorf("end bulk actions: %w", err)
	}
	return nil
}

// workBulk does one item. What fails is due again when the claim ends.
func (s *Store) workBulk(ctx context.Context, w bulkWork) {
	var moved []commands.Moved
	err := s.readProfiles(ctx, w.CommandID)
	if err == nil {
		err = s.transact(ctx, func(ctx context.Context, tx commands.Tx) error {
			var err error
			moved, err = s.workBulkIn(ctx, tx, w)
			return err
		})
	}
	if err != nil {
		s.log.Error("an item of a bulk action failed", "bulk_id", w.BulkID, "command_id", w.CommandID, "tries", w.Tries, "error", err)
		return
	}
	s.commands.Changed(moved)
}

// workBulkIn does the action and writes its result in one transaction, so that it is
// done once however often it is taken up. An action that is refused leaves nothing
// but the refusal.
func (s *Store) workBulkIn(ctx context.Context, tx commands.Tx, w bulkWork) ([]commands.Moved, error) {
	var result BulkResult
	err := tx.QueryRow(ctx, `SELECT result FROM bulk_items WHERE tenant = $1 AND bulk_id = $2 AND number = $3 FOR UPDATE`,
		w.Tenant, w.BulkID, w.Number).Scan(&result)
	if err != nil {
		return nil, fmt.Errorf("read the item: %w", err)
	}
	if result != BulkPending {
		return nil, nil
	}
	if w.Tries > bulkTries {
		return nil, endBulkItem(ctx, tx, w, BulkRefused, "internal_error", "It failed again and again; the log has the cause.")
	}
	var moved []commands.Moved
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		var err error
		moved, err = s.actBulk(ctx, tx, w)
		return err
	})
	switch {
	case refuses(err):
		problem, detail := problemOf(err)
		return nil, endBulkItem(ctx, tx, w, BulkRefused, problem, detail)
	case err != nil:
		return nil, err
	default:
		return moved, endBulkItem(ctx, tx, w, BulkDone, "", "")
	}
}

func (s *Store) actBulk(ctx context.Context, tx commands.Tx, w bulkWork) ([]commands.Moved, error) {
	var o BulkOrder
	if err := json.Unmarshal([]byte(w.Request), &o); err != nil {
		return nil, fmt.Errorf("read the order of bulk action %s: %w", w.BulkID, err)
	}
	a := Action{
		Tenant: w.Tenant, Command: w.CommandID, Version: w.Version, Actor: w.Actor,
		Reason: o.Reason, EvidenceReference: o.EvidenceReference, bulk: &w.BulkID,
	}
	switch o.Action {
	case ActionResolve:
		return s.actIn(ctx, tx, a, s.resolving(a, *o.Resolution))
	case ActionLookup:
		return s.actIn(ctx, tx, a, s.lookingUp(a))
	case ActionResend:
		return s.actIn(ctx, tx, a, s.resending(a, o.Absent))
	case ActionAssign:
		return s.actIn(ctx, tx, a, s.assigning(a, o.Assignee))
	case ActionNote:
		return s.actIn(ctx, tx, a, s.noting(a))
	default:
		return nil, fmt.Errorf("bulk action %s has the unknown action %q", w.BulkID, o.Action)
	}
}

func endBulkItem(ctx context.Context, tx commands.Tx, w bulkWork, result BulkResult, problem, detail string) error {
	_, err := tx.Exec(ctx, `
		UPDATE bulk_items SET result = $4, problem = $5, detail = $6, ended_at = now()
		WHERE tenant = $1 AND bulk_id = $2 AND number = $3`, w.Tenant, w.BulkID, w.Number, result, problem, detail)
	if err != nil {
		return fmt.Errorf("record the result of the item: %w", err)
	}
	return nil
}

// problemOf names what refused an action.
func problemOf(err error) (problem, detail string) {
	var (
		stale   *Stale
		refused *Refused
	)
	switch {
	case errors.As(err, &stale):
		return "stale", fmt.Sprintf("The command has changed since it was selected: its version is %d.", stale.Version)
	case errors.As(err, &refused):
		return refused.Code, refused.Detail
	case errors.Is(err, commands.ErrNotFound):
		return "not_found", "There is no such command."
	default:
		return "invalid", err.Error()
	}
}
