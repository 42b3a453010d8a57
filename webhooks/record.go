package webhooks

import (
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
	job      *job
	seen          // for our log
	told     seen // for the tenant
	instance string
	state    DeliveryState
	wait     time.Duration // pending: until the next try
	step     int           // after it
}

// recorded is what became of a result.
type recorded struct {
	held bool // the claim was ours; else somebody else has taken over, and nothing was written
}

// resultOf decides what follows from a try, on a schedule of waits.
func resultOf(j *job, saw seen, waits []time.Duration, instance string) result {
	r := result{job: j, seen: saw, told: saw.told(j.Type != TypeChallenge), instance: instance, state: DeliveryPending, step: j.Step}
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
		postgres.Column(items, func(r result) int32 { return int32(r.told.duration.Milliseconds()) }),
		postgres.Column(items, func(r result) int32 { return int32(r.status) }),
		postgres.Column(items, func(r result) string { return string(r.told.failure) }),
		postgres.Column(items, func(r result) string { return r.told.detail }),
		postgres.Column(items, func(r result) string { return r.told.excerpt }),
	}
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
