package attempts

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Process is one lease: a process that sends, or did until lately. All its times are
// the database's.
type Process struct {
	Instance   string
	Epoch      int64
	AcquiredAt time.Time
	RenewedAt  time.Time
	ExpiresAt  time.Time
	EndedAt    *time.Time // released by itself, or ended by another after it lapsed
	Now        time.Time  // when this was read
	Open       int        // attempts of the tenant that were begun under it and have no end on record
}

// Live reports whether the process may send.
func (p Process) Live() bool { return p.EndedAt == nil && p.ExpiresAt.After(p.Now) }

// SinceRenewal is how long ago the lease was renewed: a few seconds at most, while
// its process and the database are well.
func (p Process) SinceRenewal() time.Duration { return p.Now.Sub(p.RenewedAt) }

const (
	endedProcesses = 20             // shown at most
	endedWithin    = 24 * time.Hour // and no older
)

// Processes reads the leases that have not ended, the newest first, and after them
// those that ended lately. They work for every tenant; of their attempts one counts
// its own.
func (d *Deployment) Processes(ctx context.Context, tenant string) ([]Process, error) {
	rows, err := d.pool.Query(ctx, `
		WITH shown AS (
			SELECT * FROM leases WHERE ended_at IS NULL
			UNION ALL
			(SELECT * FROM leases WHERE ended_at > now() - $1::interval ORDER BY epoch DESC LIMIT $2)
		), open AS (
			SELECT epoch, count(*)::int AS n FROM attempts WHERE ended_at IS NULL AND tenant = $3 GROUP BY 1
		)
		SELECT s.instance, s.epoch, s.acquired_at, s.renewed_at, s.expires_at, s.ended_at, clock_timestamp() AS now, coalesce(o.n, 0) AS open
		FROM shown s LEFT JOIN open o USING (epoch)
		ORDER BY s.ended_at IS NOT NULL, s.epoch DESC`, endedWithin, endedProcesses, tenant)
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Process])
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	return list, nil
}

// Overdue says for how long the oldest work of each kind has been due; 0 where
// nothing is. It covers the whole deployment.
type Overdue struct {
	At         time.Time     // of the database
	Commands   time.Duration // pending, whatever holds them back
	Lookups    time.Duration // rounds that nobody has taken up
	Deliveries time.Duration // of webhooks, to endpoints that are enabled and have not asked for a pause
	BulkItems  time.Duration // of bulk actions
}

// Overdue reads it through the indexes of what is due, one row for each upstream,
// endpoint and bulk action.
func (d *Deployment) Overdue(ctx context.Context) (Overdue, error) {
	var (
		o                               Overdue
		command, lookup, delivery, bulk *time.Time
	)
	err := d.pool.QueryRow(ctx, `
		SELECT now(),
			(SELECT min(next_attempt_at) FROM commands WHERE next_attempt_at IS NOT NULL),
			(SELECT min(l.next_at) FROM upstreams u, LATERAL (
				SELECT next_at FROM doubts
				WHERE upstream_id = u.id AND next_at IS NOT NULL AND (claimed_until IS NULL OR claimed_until <= now())
				ORDER BY next_at LIMIT 1) l),
			(SELECT min(w.next_at) FROM webhook_endpoints e, LATERAL (
				SELECT next_at FROM webhook_deliveries
				WHERE endpoint_id = e.id AND state = 'pending' AND (claimed_until IS NULL OR claimed_until <= now())
					AND (held_until IS NULL OR held_until <= now())
				ORDER BY next_at LIMIT 1) w
			WHERE e.disabled_at IS NULL AND (e.paused_until IS NULL OR e.paused_until <= now())),
			(SELECT min(i.next_at) FROM bulk_actions b, LATERAL (
				SELECT next_at FROM bulk_items
				WHERE tenant = b.tenant AND bulk_id = b.id AND result = 'pending' ORDER BY next_at LIMIT 1) i
			WHERE b.finished_at IS NULL)`).Scan(&o.At, &command, &lookup, &delivery, &bulk)
	if err != nil {
		return o, fmt.Errorf("read what is overdue: %w", err)
	}
	for _, of := range []struct {
		due  *time.Time
		into *time.Duration
	}{{command, &o.Commands}, {lookup, &o.Lookups}, {delivery, &o.Deliveries}, {bulk, &o.BulkItems}} {
		if of.due != nil {
			*of.into = max(0, o.At.Sub(*of.due))
		}
	}
	return o, nil
}
