package webhooks

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ownSQL asks whether the data is this deployment's to work on.
const ownSQL = `SELECT coalesce((SELECT ($1 = '' OR id = $1) AND NOT doubtful FROM deployment), $1 = '')`

// tend does what is to be done now and then.
func (s *Store) tend(ctx context.Context, deployment string) error {
	var own bool
	if err := s.pool.QueryRow(ctx, ownSQL, deployment).Scan(&own); err != nil || !own {
		return err
	}
	if err := s.dropOrphans(ctx); err != nil {
		return err
	}
	if err := s.tendSecrets(ctx); err != nil {
		return err
	}
	if err := s.askUnasked(ctx); err != nil {
		return err
	}
	if err := s.disableUnproven(ctx); err != nil {
		return err
	}
	if err := s.forgetAllowances(ctx); err != nil {
		return err
	}
	return s.measure(ctx)
}

// dropSQL drops what endpoints have pending. What somebody else holds is left for
// the next time.
const dropSQL = `
	UPDATE webhook_deliveries SET state = 'dropped', ended_at = clock_timestamp(), claim = NULL, claimed_until = NULL
	WHERE id IN (
		SELECT id FROM webhook_deliveries WHERE endpoint_id = ANY($1) AND state = 'pending' LIMIT $2 FOR UPDATE SKIP LOCKED)`

// dropOrphans drops what is pending for endpoints that are gone: an outcome may
// have been announced to one in the moment of its deletion. It walks from one
// endpoint with something pending to the next, whatever lies between.
func (s *Store) dropOrphans(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `
		WITH RECURSIVE waiting AS (
			(SELECT endpoint_id FROM webhook_deliveries WHERE state = 'pending' ORDER BY endpoint_id LIMIT 1)
			UNION ALL
			SELECT (SELECT d.endpoint_id FROM webhook_deliveries d WHERE d.state = 'pending' AND d.endpoint_id > waiting.endpoint_id
				ORDER BY d.endpoint_id LIMIT 1)
			FROM waiting WHERE waiting.endpoint_id IS NOT NULL
		)
		SELECT endpoint_id FROM waiting
		WHERE endpoint_id IS NOT NULL AND NOT EXISTS (SELECT FROM webhook_endpoints e WHERE e.id = waiting.endpoint_id)`)
	if err != nil {
		return fmt.Errorf("look for deliveries to deleted webhooks: %w", err)
	}
	gone, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("look for deliveries to deleted webhooks: %w", err)
	}
	for more := len(gone) > 0; more; {
		tag, err := s.pool.Exec(ctx, dropSQL, gone, dropAtOnce)
		if err != nil {
			return fmt.Errorf("drop deliveries to deleted webhooks: %w", err)
		}
		more = tag.RowsAffected() == dropAtOnce
	}
	return nil
}

// tendSecrets forgets secrets that sign no more, and seals those under an older
// key anew, so that the older key can go.
func (s *Store) tendSecrets(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM webhook_secrets WHERE expires_at <= clock_timestamp()`); err != nil {
		return fmt.Errorf("forget webhook secrets: %w", err)
	}
	if s.box == nil {
		return nil
	}
	_, err := s.Reseal(ctx)
	return err
}

// measure sets the gauges. What is held back on purpose does not count, nor what
// waits for a receiver that has not proved itself.
func (s *Store) measure(ctx context.Context) error {
	var (
		age        float64
		unverified int
	)
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce(extract(epoch FROM clock_timestamp() - min(oldest.at)), 0)
		FROM webhook_endpoints e CROSS JOIN LATERAL (
			SELECT min(d.at) AS at FROM webhook_deliveries d
			WHERE d.endpoint_id = e.id AND d.state = 'pending' AND (d.held_until IS NULL OR d.held_until <= now())
		) oldest WHERE e.disabled_at IS NULL AND e.verified_at IS NOT NULL`).Scan(&age)
	if err == nil {
		err = s.pool.QueryRow(ctx, `
			SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NULL AND verified_at IS NULL`).Scan(&unverified)
	}
	if err != nil {
		return fmt.Errorf("measure the oldest pending webhook: %w", err)
	}
	s.metrics.oldest.Set(max(age, 0))
	s.metrics.unverified.Set(float64(unverified))
	return nil
}
