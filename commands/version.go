package commands

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Version reads a command's version alone, for who waits for the next one.
// Another tenant's id is ErrNotFound.
func (s *Store) Version(ctx context.Context, tenant string, id uuid.UUID) (int, error) {
	var version int
	err := s.pool.QueryRow(ctx, `SELECT version FROM commands WHERE id = $1 AND tenant = $2`, id, tenant).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, unavailable("read version", err)
	}
	return version, nil
}
