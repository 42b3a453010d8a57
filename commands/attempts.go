package commands

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Attempts reads a command's attempts as they stand on record, oldest first.
func (s *Store) Attempts(ctx context.Context, tenant string, id uuid.UUID) ([]Attempt, error) {
	var known bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM commands WHERE tenant = $1 AND id = $2)`, tenant, id).Scan(&known)
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	if !known {
		return nil, ErrNotFound
	}
	rows, err := s.pool.Query(ctx, `
		SELECT number, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			coalesce(evidence, '') AS evidence, stage, category, detail, answer, status, boundary, settled_by, rule, decision,
			reason, wait_ms, retry_at, refreshed_auth, request, bytes_total, bytes_handed_over, body_sha256,
			response_headers, response_body, response_truncated, response_sha256, response_bytes,
			reference, rejection_code, rejection_message, addresses, timings, remote,
			protocol, reused, deadline_left_ms, budget_tokens, notes
		FROM attempts WHERE tenant = $1 AND command_id = $2 ORDER BY number`, tenant, id)
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Attempt])
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	return list, nil
}
