package webhooks

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// unprovenSQL disables webhooks that nobody asks any more and whose last challenge, and
// last change, was days ago.
const unprovenSQL = `
	UPDATE webhook_endpoints e SET disabled_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp(), disabled_by = 'unproven',
		disabled_reason = 'its receiver has not answered a challenge; what happens from now on is not kept for it'
	WHERE e.verified_at IS NULL AND e.disabled_at IS NULL AND e.updated_at < clock_timestamp() - $1::interval
	  AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'pending' AND d.type = 'webhook.challenge')
	  AND EXISTS (SELECT FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'failed' AND d.type = 'webhook.challenge')
	  AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.endpoint_id = e.id AND d.state = 'failed' AND d.type = 'webhook.challenge'
		AND d.ended_at > clock_timestamp() - $1::interval)
	RETURNING e.id, e.tenant, e.disabled_reason AS reason`

// disableUnproven bounds what is kept for receivers that may never want it: else anybody
// could have outcomes collected for a stranger, without an end. What waits already goes on
// waiting, and follows if the webhook is enabled and its receiver answers.
func (s *Store) disableUnproven(ctx context.Context) error {
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, unprovenSQL, failingFor)
		if err != nil {
			return err
		}
		off, err := pgx.CollectRows(rows, pgx.RowToStructByName[turned])
		if err != nil {
			return err
		}
		return s.noteTurned(ctx, tx, nil, off)
	})
	if err != nil {
		return fmt.Errorf("disable webhooks that nobody has confirmed: %w", err)
	}
	return nil
}
