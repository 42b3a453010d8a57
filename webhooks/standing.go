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
	proved       bool          // it answered its challenge
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
	rows, err := tx.Query(ctx, `
		UPDATE webhook_endpoints e SET
			verified_at = CASE WHEN h.proved THEN coalesce(e.verified_at, now()) ELSE e.verified_at END,
			verified_by = CASE WHEN h.proved AND e.verified_at IS NULL THEN 'challenge' ELSE e.verified_by END,
			failing_since = CASE WHEN h.failed THEN coalesce(e.failing_since, clock_timestamp()) END,
			troubled = h.failed OR h.slow,
			paused_until = CASE WHEN h.pause > interval '0' THEN clock_timestamp() + h.pause END
		FROM unnest($1::uuid[], $2::text[], $3::bool[], $4::bool[], $5::interval[], $6::bool[]) AS h(id, url, failed, slow, pause, proved)
		WHERE e.id = h.id AND e.url = h.url AND (h.failed <> (e.failing_since IS NOT NULL) OR (h.failed OR h.slow) <> e.troubled
			OR h.pause > interval '0' OR (h.proved AND e.verified_at IS NULL))
		RETURNING e.id, e.tenant, CASE WHEN h.proved AND e.verified_at = now() THEN 'verified' ELSE '' END AS reason`,
		postgres.Column(list, func(h standing) uuid.UUID { return h.endpoint }),
		postgres.Column(list, func(h standing) string { return h.url }),
		postgres.Column(list, func(h standing) bool { return h.failed }),
		postgres.Column(list, func(h standing) bool { return h.slow }),
		postgres.Column(list, func(h standing) time.Duration { return h.pause }),
		postgres.Column(list, func(h standing) bool { return h.proved }))
	if err != nil {
		return fmt.Errorf("note how webhooks do: %w", err)
	}
	changed, err := pgx.CollectRows(rows, pgx.RowToStructByName[turned])
	if err != nil {
		return fmt.Errorf("note how webhooks do: %w", err)
	}
	changed = slices.DeleteFunc(changed, func(e turned) bool { return e.Reason == "" })
	list = slices.DeleteFunc(list, func(h standing) bool { return !h.gone && !h.again })
	off, err := disable(ctx, tx, list)
	if err != nil {
		return err
	}
	return s.noteTurned(ctx, tx, changed, off)
}

// receiver is an endpoint at the URL that it was tried at.
type receiver struct {
	endpoint uuid.UUID
	url      string
}

// standings sums results up by receiver, in the order of ids. One success among
// them means that it does not fail. What an endpoint's former URL answers late says
// nothing of the one that it has now.
func standings(held []result) []standing {
	byID := make(map[receiver]standing)
	for _, r := range held {
		if r.failure.ours() {
			continue
		}
		who := receiver{r.job.EndpointID, r.job.URL}
		h, known := byID[who]
		if !known {
			h = standing{endpoint: who.endpoint, url: who.url, failed: true}
		}
		if r.failure == FailureNone {
			h.failed = false
			h.proved = h.proved || r.job.Type == TypeChallenge
		} else {
			h.detail = r.told.detail
		}
		h.slow = h.slow || r.duration >= slowFrom
		h.gone = h.gone || r.failure == FailureGone
		h.pause = max(h.pause, min(r.retryAfter, longestPause))
		h.again = h.failed && (h.again || r.step > 1)
		byID[who] = h
	}
	list := make([]standing, 0, len(byID))
	for _, h := range byID {
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b standing) int { return cmp.Compare(a.endpoint.String(), b.endpoint.String()) })
	return list
}

// turned is an endpoint that was just verified or disabled.
type turned struct {
	ID     uuid.UUID
	Tenant string
	Reason string
}

// disable takes endpoints out of service. Their deliveries wait.
func disable(ctx context.Context, tx pgx.Tx, list []standing) ([]turned, error) {
	if len(list) == 0 {
		return nil, nil
	}
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
		return nil, fmt.Errorf("disable webhooks: %w", err)
	}
	off, err := pgx.CollectRows(rows, pgx.RowToStructByName[turned])
	if err != nil {
		return nil, fmt.Errorf("disable webhooks: %w", err)
	}
	return off, nil
}

// noteTurned writes what the program did with endpoints into log and audit, whose
// heads are locked in one order.
func (s *Store) noteTurned(ctx context.Context, tx pgx.Tx, verified, off []turned) error {
	all := slices.Concat(verified, off)
	byTenant := func(a, b turned) int { return cmp.Compare(a.Tenant, b.Tenant) }
	slices.SortStableFunc(all, byTenant)
	for _, e := range all {
		action, by := audit.ActionWebhookVerify, By{Tenant: e.Tenant, Actor: "executor", Reason: "it answered its challenge"}
		if slices.Contains(off, e) {
			action, by.Reason = audit.ActionWebhookDisable, e.Reason
			s.log.Warn("webhook disabled", "webhook", e.ID, "tenant", e.Tenant, "reason", e.Reason)
		}
		if err := by.note(ctx, tx, action, e.ID.String(), nil, nil, nil); err != nil {
			return err
		}
	}
	return nil
}
