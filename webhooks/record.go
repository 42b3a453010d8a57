package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/groupcommit"
	"executor/internal/postgres"
)

// result is what a try saw and what follows.
type result struct {
	job *job
	seen
	instance string
	state    DeliveryState
	wait     time.Duration // pending: until the next try
	step     int           // after it
}

// slowFrom is what makes an answer a slow one: its endpoint waits in the other
// line then.
const slowFrom = 2 * time.Second

// recorded is what became of a result.
type recorded struct {
	held bool // the claim was ours; else somebody else has taken over, and nothing was written
}

// resultOf decides what follows from a try, on a schedule of waits.
func resultOf(j *job, saw seen, waits []time.Duration, instance string) result {
	r := result{job: j, seen: saw, instance: instance, state: DeliveryPending, step: j.Step}
	switch {
	case saw.failure == FailureNone:
		r.state = DeliveryDelivered
	case saw.failure == FailureInterrupted, saw.failure == FailureGone: // due at once: elsewhere, or when it is enabled again
	case saw.failure.ours():
		r.wait = ourWait
	default:
		wait, ok := next(waits, j.Step, saw.retryAfter, random)
		if !ok {
			r.state = DeliveryFailed
		}
		r.wait, r.step = wait, j.Step+1
	}
	return r
}

// recordSQL writes results under their claims, and a line of the log for each.
const recordSQL = `
	WITH r AS (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::interval[], $5::int[], $6::text[], $7::timestamptz[], $8::int[],
			$9::int[], $10::text[], $11::text[], $12::text[])
			AS r(id, claim, state, wait, step, instance, at, duration_ms, status, failure, detail, excerpt)
	), done AS (
		UPDATE webhook_deliveries d SET state = r.state, step = r.step, tries = d.tries + 1, claim = NULL, claimed_until = NULL,
			next_at = CASE WHEN r.state = 'pending' THEN clock_timestamp() + r.wait ELSE d.next_at END,
			ended_at = CASE WHEN r.state = 'pending' THEN NULL ELSE clock_timestamp() END,
			status = r.status, failure = r.failure, detail = r.detail
		FROM r WHERE d.id = r.id AND d.claim = r.claim AND d.state = 'pending'
		RETURNING d.id, d.tenant, d.tries, CASE WHEN r.state = 'pending' THEN d.next_at END AS next_at
	)
	INSERT INTO webhook_tries (delivery_id, number, tenant, instance, at, duration_ms, status, failure, detail, excerpt, next_at)
	SELECT done.id, done.tries, done.tenant, r.instance, r.at, r.duration_ms, r.status, r.failure, r.detail, r.excerpt, done.next_at
	FROM done JOIN r ON r.id = done.id
	RETURNING delivery_id`

// record writes a batch of results.
func (s *Store) record(ctx context.Context, tx pgx.Tx, items []result) ([]groupcommit.Result[recorded], error) {
	rows, err := tx.Query(ctx, recordSQL, recordColumns(items)...)
	if err != nil {
		return nil, fmt.Errorf("record webhook deliveries: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("record webhook deliveries: %w", err)
	}
	results, held := make([]groupcommit.Result[recorded], len(items)), make([]result, 0, len(items))
	for i, r := range items {
		if slices.Contains(ids, r.job.ID) {
			results[i].Value.held = true
			held = append(held, r)
		}
	}
	if err := s.judge(ctx, tx, held); err != nil {
		return nil, err
	}
	return results, nil
}

// recordColumns are $1 to $12 of recordSQL, a slice each.
func recordColumns(items []result) []any {
	return []any{
		postgres.Column(items, func(r result) uuid.UUID { return r.job.ID }),
		postgres.Column(items, func(r result) uuid.UUID { return r.job.claim }),
		postgres.Column(items, func(r result) string { return string(r.state) }),
		postgres.Column(items, func(r result) time.Duration { return r.wait }),
		postgres.Column(items, func(r result) int32 { return int32(r.step) }),
		postgres.Column(items, func(r result) string { return r.instance }),
		postgres.Column(items, func(r result) time.Time { return r.at }),
		postgres.Column(items, func(r result) int32 { return int32(r.duration.Milliseconds()) }),
		postgres.Column(items, func(r result) int32 { return int32(r.status) }),
		postgres.Column(items, func(r result) string { return string(r.failure) }),
		postgres.Column(items, func(r result) string { return r.detail }),
		postgres.Column(items, func(r result) string { return r.excerpt }),
	}
}

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
	for _, e := range off {
		s.log.Warn("webhook disabled; its deliveries wait", "webhook", e.ID, "tenant", e.Tenant, "reason", e.Reason)
		by := By{Tenant: e.Tenant, Actor: "executor", Reason: e.Reason}
		if err := by.note(ctx, tx, "webhook.disable", e.ID.String(), nil, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

const (
	recordPause = 500 * time.Millisecond // between two tries to record a result
	lastRecord  = 5 * time.Second        // how long a process that stops goes on trying
)

// keep records a result, again and again while its claim lasts: what cannot be
// recorded by then is sent once more. The same write twice is one. A ctx that
// ends leaves it a little time.
func (s *Store) keep(working context.Context, r result) (recorded, error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(working), r.job.expires)
	defer cancel()
	stop := context.AfterFunc(working, func() { time.AfterFunc(lastRecord, cancel) })
	defer stop()
	for {
		done, err := s.records.Do(ctx, r)
		if err == nil || errors.Is(err, groupcommit.ErrClosed) {
			return done, err
		}
		select {
		case <-time.After(recordPause):
		case <-ctx.Done():
			return recorded{}, err
		}
	}
}
