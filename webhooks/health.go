package webhooks

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// MaxCount bounds how far the deliveries of an endpoint are counted.
const MaxCount = 1000

// recent bounds how many deliveries are looked at for the last success.
const recent = 1000

// Health is how the deliveries of an endpoint do.
type Health struct {
	Pending       int        // up to MaxCount + 1, which stands for more
	Failed        int        // given up; up to MaxCount + 1
	OldestPending *time.Time // the event that waits longest; nil: none waits
	LastSuccess   *time.Time // nil: none among the latest deliveries
}

// healthSQL looks at each endpoint by its own indexes, never further than bounded.
// Since an endpoint began to fail nothing of it was delivered, and nothing newer
// than its end while it is disabled: the last success lies before.
const healthSQL = `
	SELECT e.id, p.pending, f.failed, p.oldest, l.at
	FROM webhook_endpoints e
	CROSS JOIN LATERAL (
		SELECT count(*) AS pending, min(at) AS oldest FROM (
			SELECT at FROM webhook_deliveries WHERE endpoint_id = e.id AND state = 'pending' ORDER BY next_at LIMIT $2) p) p
	CROSS JOIN LATERAL (
		SELECT count(*) AS failed FROM (
			SELECT FROM webhook_deliveries WHERE endpoint_id = e.id AND state = 'failed' ORDER BY at DESC LIMIT $2) f) f
	CROSS JOIN LATERAL (
		SELECT max(ended_at) AS at FROM (
			SELECT state, ended_at FROM webhook_deliveries
			WHERE endpoint_id = e.id AND at <= coalesce(e.failing_since, e.disabled_at, now()) ORDER BY at DESC, id DESC LIMIT $3) l
		WHERE l.state = 'delivered') l
	WHERE e.tenant = $1`

// Health tells how each endpoint of a tenant does.
func (s *Store) Health(ctx context.Context, tenant string) (map[uuid.UUID]Health, error) {
	rows, err := s.pool.Query(ctx, healthSQL, tenant, MaxCount+1, recent)
	if err != nil {
		return nil, unavailable("read how webhooks do", err)
	}
	var (
		all = make(map[uuid.UUID]Health)
		id  uuid.UUID
		h   Health
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &h.Pending, &h.Failed, &h.OldestPending, &h.LastSuccess}, func() error {
		all[id] = h
		return nil
	})
	if err != nil {
		return nil, unavailable("read how webhooks do", err)
	}
	return all, nil
}

// Sealing reports whether this process can make and read secrets. Without it no
// endpoint can be made here, and nothing is delivered from here.
func (s *Store) Sealing() bool { return s.box != nil }

// CountRange tells how many deliveries RedeliverRange would make due; more is true
// where the range holds more than MaxRange.
func (s *Store) CountRange(ctx context.Context, tenant string, r Range) (count int, more bool, err error) {
	if r, err = r.complete(); err != nil {
		return 0, false, err
	}
	if _, err := s.Get(ctx, tenant, r.Endpoint); err != nil {
		return 0, false, err
	}
	state := "state = ANY($5)"
	if len(r.States) == 1 && r.States[0] == DeliveryFailed {
		state = "state = 'failed' AND state = ANY($5)" // lets the planner see the partial index
	}
	err = s.pool.QueryRow(ctx, `
		SELECT count(*) FROM (
			SELECT FROM webhook_deliveries
			WHERE endpoint_id = $1 AND tenant = $2 AND at >= $3 AND at < $4 AND `+state+` AND type <> 'webhook.challenge' LIMIT $6) found`,
		r.Endpoint, tenant, r.Since, r.Until, r.States, MaxRange+1).Scan(&count)
	if err != nil {
		return 0, false, unavailable("count webhook deliveries", err)
	}
	return min(count, MaxRange), count > MaxRange, nil
}

// complete fills in what a range leaves out and refuses what is none.
func (r Range) complete() (Range, error) {
	if len(r.States) == 0 {
		r.States = []DeliveryState{DeliveryFailed}
	}
	if r.Until.IsZero() {
		r.Until = time.Now()
	}
	for _, state := range r.States {
		if !slices.Contains(DeliveryStates(), state) {
			return r, invalid("state", "unknown_state", "There is no state %q.", state)
		}
	}
	if !r.Since.Before(r.Until) {
		return r, invalid("until", "empty_range", "The range ends before it begins.")
	}
	return r, nil
}
