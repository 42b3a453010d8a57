package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// Many reads commands of a tenant by their ids, in no order. Ids that the tenant
// does not have are left out.
func (s *Store) Many(ctx context.Context, tenant string, ids []uuid.UUID) (map[uuid.UUID]Command, error) {
	list, err := s.read(ctx, `WHERE c.tenant = $1 AND c.id = ANY($2)`, tenant, ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[uuid.UUID]Command, len(list))
	for _, c := range list {
		byID[c.ID] = c
	}
	return byID, nil
}

// Peek reads what Lock reads without locking it: for what is only shown.
func (s *Store) Peek(ctx context.Context, q Querier, ids []uuid.UUID) (map[uuid.UUID]Locked, error) {
	rows, err := q.Query(ctx, `SELECT `+lockedColumns+` FROM commands WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read commands: %w", err)
	}
	return collectLocked(rows)
}
