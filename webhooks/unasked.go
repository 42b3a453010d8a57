package webhooks

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// unaskedAtOnce bounds how many endpoints one round of housekeeping looks after.
const unaskedAtOnce = 100

// unasked is an endpoint that is not verified and that nobody asks.
type unasked struct {
	ID     uuid.UUID
	Tenant string
}

// askUnasked sees to endpoints that are not verified and were never asked to the end.
// A process of a version that knows no challenges leaves such ones while processes are
// replaced one by one: it makes an endpoint without asking, and takes any 2xx for the
// answer to a challenge.
func (s *Store) askUnasked(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `
		SELECT e.id, e.tenant FROM webhook_endpoints e
		WHERE e.verified_at IS NULL AND e.disabled_at IS NULL
		  AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'pending' AND d.type = 'webhook.challenge')
		  AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'failed' AND d.type = 'webhook.challenge')
		LIMIT $1`, unaskedAtOnce)
	if err != nil {
		return fmt.Errorf("look for webhooks that nobody asks: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[unasked])
	if err != nil {
		return fmt.Errorf("look for webhooks that nobody asks: %w", err)
	}
	for _, u := range list {
		err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.askOne(ctx, tx, u) })
		var busy *Busy
		if err != nil && !errors.As(err, &busy) && !errors.Is(err, ErrNotFound) { // those are asked another time, or gone
			return err
		}
	}
	if len(list) > 0 {
		s.nudge()
	}
	return nil
}

func (s *Store) askOne(ctx context.Context, tx pgx.Tx, u unasked) error {
	e, err := lockEndpoint(ctx, tx, u.Tenant, u.ID, 0)
	if err != nil || e.VerifiedAt != nil || e.DisabledAt != nil {
		return err
	}
	by := s.trusts(e.URL)
	if by == "" {
		return unproven(ctx, tx, e)
	}
	if _, err := tx.Exec(ctx, `UPDATE webhook_endpoints SET verified_at = now(), verified_by = $2 WHERE id = $1 AND tenant = $3`, e.ID, by, e.Tenant); err != nil {
		return fmt.Errorf("verify webhook %s: %w", e.ID, err)
	}
	return nil
}
