package reconcile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// byKeySQL also finds the operations whose key on the wire is the command's id.
const byKeySQL = `
	SELECT id FROM commands WHERE tenant = $1 AND idempotency_key = $3 AND upstream_id = $2
	UNION
	SELECT c.id FROM commands c JOIN command_requests r ON r.command_id = c.id
	WHERE c.id = $4 AND c.tenant = $1 AND c.upstream_id = $2 AND r.wire_key = $3
	LIMIT 2`

const byIDSQL = `SELECT id FROM commands WHERE tenant = $1 AND upstream_id = $2 AND id = $3`

const byReferenceSQL = `
	SELECT id FROM commands WHERE tenant = $1 AND upstream_id = $2 AND id IN (
		SELECT command_id FROM attempts WHERE tenant = $1 AND reference = $3 AND reference <> ''
		UNION SELECT command_id FROM findings WHERE tenant = $1 AND reference = $3 AND reference <> ''
		UNION SELECT command_id FROM lookups WHERE tenant = $1 AND reference = $3 AND reference <> '')
	LIMIT 2`

// candidates finds the commands of the notice's own upstream that it may mean, two
// at most: what is ambiguous is not guessed.
func candidates(ctx context.Context, q querier, n notice) ([]uuid.UUID, error) {
	var asID *uuid.UUID
	if id, err := uuid.Parse(n.Name); err == nil {
		asID = &id
	}
	var (
		rows pgx.Rows
		err  error
	)
	switch n.NamedBy {
	case NamedByKey:
		rows, err = q.Query(ctx, byKeySQL, n.Tenant, n.UpstreamID, n.Name, asID)
	case NamedByID:
		rows, err = q.Query(ctx, byIDSQL, n.Tenant, n.UpstreamID, asID)
	default:
		rows, err = q.Query(ctx, byReferenceSQL, n.Tenant, n.UpstreamID, n.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("look for the command of notice %d: %w", n.ID, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("look for the command of notice %d: %w", n.ID, err)
	}
	return ids, nil
}
