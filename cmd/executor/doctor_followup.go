package main

import (
	"context"
	"fmt"
	"time"
)

// lookupWarn is how late a round of lookups may be before it is worth a warning.
const lookupWarn = time.Minute

// unresolved says who has the doubts, and whether those of the lookups are asked.
func (d *doctor) unresolved(ctx context.Context) ([]finding, error) {
	var (
		looked, waiting int
		late, oldest    float64 // seconds
	)
	err := d.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE c.phase = 'lookup'), count(*) FILTER (WHERE c.phase = 'review'),
			coalesce(extract(epoch FROM now() - min(d.next_at) FILTER (WHERE d.claimed_until IS NULL OR d.claimed_until < now())), 0)::float8,
			coalesce(extract(epoch FROM now() - min(coalesce(d.handed_at, c.finalized_at)) FILTER (WHERE c.phase = 'review')), 0)::float8
		FROM commands c LEFT JOIN doubts d ON d.command_id = c.id WHERE c.phase IS NOT NULL`).Scan(&looked, &waiting, &late, &oldest)
	if err != nil {
		return nil, err
	}
	f := finding{"unresolved", statusOK, "none", ""}
	if looked > 0 {
		f.Detail = fmt.Sprintf("%d %s being looked up", looked, does(looked, "is", "are"))
	}
	if waiting > 0 {
		f.Status, f.Fix = statusWarn, `decide them, the oldest first: "executor reviews"`
		f.Detail = fmt.Sprintf("%d %s for a person, the oldest for %s; %d %s being looked up",
			waiting, does(waiting, "waits", "wait"), age(seconds(oldest)), looked, does(looked, "is", "are"))
	}
	list := []finding{f}
	if seconds(late) > lookupWarn {
		list = append(list, finding{"lookups", statusFail, "a lookup has been due for " + age(seconds(late)), "nobody asks: start a worker of this deployment, or lower limits.lookups of a slow upstream"})
	}
	return list, nil
}

// webhooks says whether outcomes are told.
func (d *doctor) webhooks(ctx context.Context) ([]finding, error) {
	var (
		endpoints, disabled, unverified, unsigned, failed int
		late                                              float64 // seconds
	)
	err := d.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM webhook_endpoints), (SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NOT NULL),
			(SELECT count(*) FROM webhook_endpoints WHERE disabled_at IS NULL AND verified_at IS NULL),
			(SELECT count(*) FROM webhook_endpoints e WHERE disabled_at IS NULL AND NOT EXISTS (
				SELECT FROM webhook_secrets s WHERE s.endpoint_id = e.id AND (s.expires_at IS NULL OR s.expires_at > now()))),
			(SELECT count(*) FROM webhook_deliveries WHERE state = 'failed'),
			coalesce((SELECT extract(epoch FROM now() - min(w.next_at)) FROM webhook_endpoints e
				JOIN webhook_deliveries w ON w.endpoint_id = e.id AND w.state = 'pending'
				WHERE e.disabled_at IS NULL AND e.verified_at IS NOT NULL AND (e.paused_until IS NULL OR e.paused_until < now())), 0)::float8`).Scan(&endpoints, &disabled, &unverified, &unsigned, &failed, &late)
	if err != nil || endpoints == 0 {
		return nil, err
	}
	f := finding{"webhooks", statusOK, some(endpoints, "receiver"), ""}
	switch {
	case len(d.config.EncryptionKeys) == 0:
		f.Status, f.Detail = statusWarn, f.Detail+", and no EXECUTOR_ENCRYPTION_KEY here: a process without it signs and sends nothing"
		f.Fix = "give every worker the key under which their secrets were sealed"
	case seconds(late) > lookupWarn:
		f.Status, f.Detail = statusFail, f.Detail+", a delivery has been due for "+age(seconds(late))
		f.Fix = "start a worker of this deployment with EXECUTOR_ENCRYPTION_KEY, and look at its log"
	case unsigned > 0:
		f.Status, f.Detail = statusWarn, fmt.Sprintf("%s, %d without a secret, which get nothing", f.Detail, unsigned)
		f.Fix = `give each a new one, and its receiver too: "executor webhooks rotate ID --overlap 0"; "executor deliveries list --state pending" names them`
	case disabled > 0 || unverified > 0 || failed > 0:
		f.Status, f.Detail = statusWarn, fmt.Sprintf("%s, %d disabled, %d not verified, %s given up", f.Detail, disabled, unverified, does(failed, "1 delivery", fmt.Sprint(failed, " deliveries")))
		f.Fix = `see why: "executor webhooks list" and "executor deliveries list --state failed"; "executor webhooks verify ID" asks a receiver again`
	}
	return []finding{f}, nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
