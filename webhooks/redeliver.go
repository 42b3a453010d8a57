package webhooks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
)

// MaxRange bounds how many deliveries one call makes due again.
const MaxRange = 10_000

// again makes deliveries due at once, on a schedule that begins anew. What is
// under way is taken from whoever is at it, so that a new try surely follows.
const again = `
	UPDATE webhook_deliveries SET state = 'pending', held_until = NULL, next_at = clock_timestamp(), step = 0,
		claim = NULL, claimed_until = NULL, ended_at = NULL `

// Redeliver sends an event once more to the endpoint of a delivery in whatever
// state, under the same event id. For a disabled endpoint it waits until that is
// enabled.
func (s *Store) Redeliver(ctx context.Context, by By, id uuid.UUID) (Delivery, error) {
	var after Delivery
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		list, err := deliveries(ctx, tx, `WHERE tenant = $1 AND id = $2 FOR UPDATE`, by.Tenant, id)
		if err != nil {
			return fmt.Errorf("lock webhook delivery %s: %w", id, err)
		}
		if len(list) == 0 {
			return ErrNotFound
		}
		before := list[0]
		if before.Type == TypeChallenge {
			return refused("webhook_challenge", "A challenge is not sent again: ask the receiver anew, with a new one.")
		}
		if err := useOf(ctx, tx, by.Tenant, "redeliver", before.EndpointID, redeliverAllowance); err != nil {
			return err
		}
		if _, err := endpoint(ctx, tx, by.Tenant, before.EndpointID); err == ErrNotFound {
			return refused("webhook_gone", "The webhook of this delivery is deleted.")
		} else if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, again+`WHERE id = $1`, id); err != nil {
			return fmt.Errorf("redeliver %s: %w", id, err)
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook_deliveries SET next_at = clock_timestamp()
			WHERE command_id = $1 AND endpoint_id = $2 AND sequence > $3 AND state = 'pending' AND tries = 0 AND held_until IS NULL`,
			before.CommandID, before.EndpointID, before.Sequence) // those that were put behind it
		if err != nil {
			return fmt.Errorf("redeliver what waits for %s: %w", id, err)
		}
		if list, err = deliveries(ctx, tx, `WHERE id = $1`, id); err != nil {
			return fmt.Errorf("read webhook delivery %s: %w", id, err)
		}
		after = list[0]
		return by.note(ctx, tx, audit.ActionWebhookRedeliver, id.String(), nil, nil, map[string]any{
			"webhook": before.EndpointID, "event": before.EventID, "state": before.State,
		})
	})
	if err == nil {
		s.nudge()
	}
	return after, err
}

// Range is a part of an endpoint's log.
type Range struct {
	Endpoint uuid.UUID
	Since    time.Time // of the events
	Until    time.Time // exclusive; zero: now
	States   []DeliveryState
}

// Redelivered says what RedeliverRange did.
type Redelivered struct {
	Count int  // deliveries that are due again
	More  bool // the range holds more than MaxRange; the oldest of them are due, the same call takes the next
}

// refillable are the states that deliveries come back to once they are due again:
// of more than MaxRange of them the same call would take the same.
var refillable = []DeliveryState{DeliveryPending, DeliveryDelivered}

// fits refuses a range of which no further call could take the rest.
func (r Range) fits(ctx context.Context, tx pgx.Tx, tenant string) error {
	if !slices.ContainsFunc(r.States, func(s DeliveryState) bool { return slices.Contains(refillable, s) }) {
		return nil
	}
	var count int
	err := tx.QueryRow(ctx, `
		SELECT count(*) FROM (
			SELECT FROM webhook_deliveries
			WHERE endpoint_id = $1 AND tenant = $2 AND at >= $3 AND at < $4 AND state = ANY($5) AND type <> 'webhook.challenge' LIMIT $6) found`,
		r.Endpoint, tenant, r.Since, r.Until, r.States, MaxRange+1).Scan(&count)
	if err != nil {
		return fmt.Errorf("count the deliveries of webhook %s: %w", r.Endpoint, err)
	}
	if count > MaxRange {
		return invalid("since", "range_too_large", "The range holds more than %d deliveries, and of those that are pending or delivered already no second call finds the rest: part it by its times.", MaxRange)
	}
	return nil
}

// RedeliverRange sends a range of events once more, at most MaxRange of them, the
// oldest first. No states are the failed ones. Of what was delivered or is pending a
// range holds at most MaxRange.
func (s *Store) RedeliverRange(ctx context.Context, by By, r Range) (Redelivered, error) {
	r, err := r.complete()
	if err != nil {
		return Redelivered{}, err
	}
	var done Redelivered
	err = s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done = Redelivered{}
		if _, err := endpoint(ctx, tx, by.Tenant, r.Endpoint); err != nil {
			return err
		}
		if err := useOf(ctx, tx, by.Tenant, "redeliver range", r.Endpoint, redeliversAllowance); err != nil {
			return err
		}
		if err := r.fits(ctx, tx, by.Tenant); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, again+`
			WHERE id IN (
				SELECT id FROM webhook_deliveries
				WHERE endpoint_id = $1 AND tenant = $2 AND at >= $3 AND at < $4 AND state = ANY($5) AND type <> 'webhook.challenge'
				ORDER BY at, id LIMIT $6 FOR UPDATE)`,
			r.Endpoint, by.Tenant, r.Since, r.Until, r.States, MaxRange)
		if err != nil {
			return fmt.Errorf("redeliver to webhook %s: %w", r.Endpoint, err)
		}
		done.Count = int(tag.RowsAffected())
		done.More = done.Count == MaxRange
		return by.note(ctx, tx, audit.ActionWebhookRedeliverRange, r.Endpoint.String(), nil, nil, map[string]any{
			"since": r.Since.UTC(), "until": r.Until.UTC(), "states": r.States, "count": done.Count,
		})
	})
	if err == nil {
		s.nudge()
	}
	return done, err
}

// Test sends an event of type TypeTest to one endpoint, whatever that asks for.
func (s *Store) Test(ctx context.Context, by By, id uuid.UUID) (Delivery, error) {
	var made Delivery
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, err := lockEndpoint(ctx, tx, by.Tenant, id, 0)
		if err != nil {
			return err
		}
		if e.DisabledAt != nil {
			return refused("webhook_disabled", "The webhook is disabled: enable it first.")
		}
		if e.VerifiedAt == nil {
			return refused("webhook_unverified", "The webhook's receiver has not answered its challenge yet, and gets nothing else until then.")
		}
		if err := useOf(ctx, tx, by.Tenant, "test", id, testAllowance); err != nil {
			return err
		}
		if made, err = insertOwn(ctx, tx, e, TypeTest, map[string]any{"webhook": e.ID}); err != nil {
			return err
		}
		return by.note(ctx, tx, audit.ActionWebhookTest, id.String(), nil, nil, map[string]any{"event": made.EventID})
	})
	if err == nil {
		s.nudge()
	}
	return made, err
}

// insertOwn writes an event that is about no command, for one endpoint.
func insertOwn(ctx context.Context, tx pgx.Tx, e Endpoint, kind string, data any) (Delivery, error) {
	event, at := uuid.Must(uuid.NewV7()), time.Now().UTC().Truncate(time.Microsecond)
	text, err := encode(message{Type: kind, Timestamp: at, Data: data})
	if err != nil {
		return Delivery{}, err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO webhook_events (id, tenant, sequence, type, at, payload) VALUES ($1, $2, 0, $3, $4, $5)`,
		event, e.Tenant, kind, at, text)
	if err != nil {
		return Delivery{}, fmt.Errorf("write a %s: %w", kind, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, sequence, type, at, next_at)
		VALUES ($1, $2, $3, 0, $4, $5, clock_timestamp())`, event, e.ID, e.Tenant, kind, at)
	if err != nil {
		return Delivery{}, fmt.Errorf("write the delivery of a %s: %w", kind, err)
	}
	list, err := deliveries(ctx, tx, `WHERE event_id = $1`, event)
	if err != nil || len(list) != 1 {
		return Delivery{}, fmt.Errorf("read the delivery of event %s: %w", event, err)
	}
	return list[0], nil
}
