package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
	"executor/internal/postgres"
)

// slowFrom is what makes an answer a slow one: its endpoint waits in the other
// line then.
const slowFrom = 2 * time.Second

// standing is what a batch of results says of an endpoint, as it was when it was
// tried: a changed URL makes it another receiver.
type standing struct {
	endpoint     uuid.UUID
	url          string
	failed, slow bool
	gone         bool
	again        bool          // a delivery failed that had failed before
	detail       string        // of the last failure
	pause        time.Duration // that it asks for
}

// judge notes how endpoints do, and disables those that want no more or have
// failed for days.
func (s *Store) judge(ctx context.Context, tx pgx.Tx, held []result) error {
	list := standings(held)
	if len(list) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		UPDATE webhook_endpoints e SET
			failing_since = CASE WHEN h.failed THEN coalesce(e.failing_since, clock_timestamp()) END,
			troubled = h.failed OR h.slow,
			paused_until = CASE WHEN h.pause > interval '0' THEN clock_timestamp() + h.pause END
		FROM unnest($1::uuid[], $2::text[], $3::bool[], $4::bool[], $5::interval[]) AS h(id, url, failed, slow, pause)
		WHERE e.id = h.id AND e.url = h.url AND (h.failed <> (e.failing_since IS NOT NULL) OR (h.failed OR h.slow) <> e.troubled
			OR h.pause > interval '0')`,
		postgres.Column(list, func(h standing) uuid.UUID { return h.endpoint }),
		postgres.Column(list, func(h standing) string { return h.url }),
		postgres.Column(list, func(h standing) bool { return h.failed }),
		postgres.Column(list, func(h standing) bool { return h.slow }),
		postgres.Column(list, func(h standing) time.Duration { return h.pause }))
	if err != nil {
		return fmt.Errorf("note how webhooks do: %w", err)
	}
	list = slices.DeleteFunc(list, func(h standing) bool { return !h.gone && !h.again })
	if len(list) == 0 {
		return nil
	}
	return s.disable(ctx, tx, list)
}

// standings sums results up by endpoint, in the order of ids. One success among
// them means that it does not fail.
func standings(held []result) []standing {
	byID := make(map[uuid.UUID]standing)
	for _, r := range held {
		if r.failure.ours() {
			continue
		}
		h, known := byID[r.job.EndpointID]
		if !known {
			h = standing{endpoint: r.job.EndpointID, url: r.job.URL, failed: true}
		}
		if r.failure == FailureNone {
			h.failed = false
		} else {
			h.detail = r.detail
		}
		h.slow = h.slow || r.duration >= slowFrom
		h.gone = h.gone || r.failure == FailureGone
		h.pause = max(h.pause, min(r.retryAfter, longestPause))
		h.again = h.failed && (h.again || r.step > 1)
		byID[h.endpoint] = h
	}
	list := make([]standing, 0, len(byID))
	for _, h := range byID {
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b standing) int { return cmp.Compare(a.endpoint.String(), b.endpoint.String()) })
	return list
}

// disabled is an endpoint that was just disabled.
type disabled struct {
	ID     uuid.UUID
	Tenant string
	Reason string
}

// disable takes endpoints out of service. Their deliveries wait.
func (s *Store) disable(ctx context.Context, tx pgx.Tx, list []standing) error {
	rows, err := tx.Query(ctx, `
		UPDATE webhook_endpoints e SET disabled_at = clock_timestamp(), version = version + 1, updated_at = clock_timestamp(),
			disabled_by = CASE WHEN h.gone THEN 'gone' ELSE 'failing' END,
			disabled_reason = CASE WHEN h.gone THEN 'it answered 410 Gone'
				ELSE 'nothing but failures since ' || to_char(e.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"') || '; the last: ' || h.detail END
		FROM unnest($1::uuid[], $2::text[], $3::bool[], $4::text[]) AS h(id, url, gone, detail)
		WHERE e.id = h.id AND e.url = h.url AND e.disabled_at IS NULL AND (h.gone OR e.failing_since < clock_timestamp() - $5::interval)
		RETURNING e.id, e.tenant, e.disabled_reason AS reason`,
		postgres.Column(list, func(h standing) uuid.UUID { return h.endpoint }),
		postgres.Column(list, func(h standing) string { return h.url }),
		postgres.Column(list, func(h standing) bool { return h.gone }),
		postgres.Column(list, func(h standing) string { return h.detail }), failingFor)
	if err != nil {
		return fmt.Errorf("disable webhooks: %w", err)
	}
	off, err := pgx.CollectRows(rows, pgx.RowToStructByName[disabled])
	if err != nil {
		return fmt.Errorf("disable webhooks: %w", err)
	}
	// The audit's heads are locked in one order.
	slices.SortFunc(off, func(a, b disabled) int { return cmp.Compare(a.Tenant, b.Tenant) })
	for _, e := range off {
		s.log.Warn("webhook disabled; its deliveries wait", "webhook", e.ID, "tenant", e.Tenant, "reason", e.Reason)
		by := By{Tenant: e.Tenant, Actor: "executor", Reason: e.Reason}
		if err := by.note(ctx, tx, audit.ActionWebhookDisable, e.ID.String(), nil, nil, nil); err != nil {
			return err
		}
	}
	return nil
}
