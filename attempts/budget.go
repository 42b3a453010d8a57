package attempts

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"executor/upstreams"
)

// bucket is an upstream's retry budget under its row lock. It starts full, is
// refilled by a share of the real first attempts and by a small floor a second,
// and pays for every retry. Whoever has to wait for a token owns the next one
// that nobody waits for: all of them trying at once would knock at the door of
// an upstream that is to be spared.
type bucket struct {
	upstreamID     int64
	tokens         float64   // below 0 are those that commands wait for
	at             time.Time // of the database, when the floor was last credited
	now            time.Time
	budget         upstreams.Budget
	throttledUntil *time.Time
}

// forever stands for a token that never comes by itself.
const forever = 365 * 24 * time.Hour

// nextIn is how long the floor alone needs for a whole token beyond those that
// are promised.
func (b *bucket) nextIn() time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	if b.budget.FloorPerSecond <= 0 {
		return forever
	}
	return min(forever, time.Duration((1-b.tokens)/b.budget.FloorPerSecond*float64(time.Second)))
}

// credit adds what came in since, up to the burst.
func (b *bucket) credit(firstAttempts int) {
	seconds := max(0, b.now.Sub(b.at).Seconds())
	b.tokens += float64(firstAttempts)*b.budget.Ratio + seconds*b.budget.FloorPerSecond
	b.tokens = math.Min(b.tokens, math.Max(float64(b.budget.Burst), 1))
	b.at = b.now
}

// throttle holds back all of the upstream's commands.
func (b *bucket) throttle(until time.Time) {
	if b.throttledUntil == nil || until.After(*b.throttledUntil) {
		b.throttledUntil = &until
	}
}

// lockBuckets locks upstreams in the order of their ids, after the commands,
// and brings their budgets up to date. The settings are those of the newest
// version of each profile.
func (s *Store) lockBuckets(ctx context.Context, tx pgx.Tx, ids []int64) (map[int64]*bucket, error) {
	slices.Sort(ids)
	rows, err := tx.Query(ctx, `
		SELECT id, budget_tokens, budget_at, throttled_until, clock_timestamp() FROM upstreams
		WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, slices.Compact(ids))
	if err != nil {
		return nil, fmt.Errorf("lock retry budgets: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*bucket, error) {
		var b bucket
		err := row.Scan(&b.upstreamID, &b.tokens, &b.at, &b.throttledUntil, &b.now)
		return &b, err
	})
	if err != nil {
		return nil, fmt.Errorf("lock retry budgets: %w", err)
	}
	buckets := make(map[int64]*bucket, len(list))
	for _, b := range list {
		up, err := s.upstream(ctx, b.upstreamID)
		if err != nil {
			return nil, fmt.Errorf("retry budget of upstream %d: %w", b.upstreamID, err)
		}
		b.budget = up.Profile.Retry.Budget
		b.credit(0)
		buckets[b.upstreamID] = b
	}
	return buckets, nil
}

func (s *Store) storeBuckets(ctx context.Context, tx pgx.Tx, buckets map[int64]*bucket) error {
	for _, b := range buckets {
		_, err := tx.Exec(ctx, `
			UPDATE upstreams SET budget_tokens = $2, budget_at = $3, throttled_until = $4 WHERE id = $1`,
			b.upstreamID, b.tokens, b.at, b.throttledUntil)
		if err != nil {
			return fmt.Errorf("store retry budget of upstream %d: %w", b.upstreamID, err)
		}
	}
	return nil
}

// Credit refills budgets by the first attempts that this process sent since
// the last time.
func (s *Store) Credit(ctx context.Context, first map[int64]int) error {
	for id, n := range first {
		err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
			buckets, err := s.lockBuckets(ctx, tx, []int64{id})
			if err != nil {
				return err
			}
			for _, b := range buckets {
				b.credit(n)
			}
			return s.storeBuckets(ctx, tx, buckets)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
