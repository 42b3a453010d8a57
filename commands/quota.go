package commands

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	quotaFresh = time.Second     // how long the numbers are taken as they were read
	quotaStale = 5 * time.Second // and how long while new ones are being read
	quotaBound = 2 * time.Second // of reading them
	quotaWarns = time.Minute     // between two lines in the log about one tenant
)

// BacklogFull: the tenant has as many commands without an outcome as it may have.
// Nothing was accepted; a repeat of a command that was is answered all the same.
type BacklogFull struct{ Limit int64 }

func (e *BacklogFull) Error() string {
	return fmt.Sprintf("the backlog is full: %d commands of the tenant have no outcome yet", e.Limit)
}

// quota bounds the commands of each tenant that have no outcome yet. What there are
// is read from the tallies, for all tenants at once, by the way of submissions and
// never more often than quotaFresh; what this process accepted since is added. So
// several processes together may exceed the limit by what they accept in that time.
type quota struct {
	limit   int64 // 0 is none
	read    func(context.Context) (map[string]int64, error)
	log     *slog.Logger
	refused prometheus.Counter

	mu      sync.Mutex
	known   map[string]int64     // by tenant, as last read
	before  map[string]int64     // accepted here between that read and the one under way
	since   map[string]int64     // accepted here since the last read began
	warned  map[string]time.Time // when the log had a line about the tenant
	next    time.Time            // no read begins before
	until   time.Time            // afterwards a submission waits for new numbers
	reading chan struct{}        // closed when the read under way ends; nil without one
}

func newQuota(limit int64, pool *pgxpool.Pool, log *slog.Logger) *quota {
	return &quota{
		limit: limit, log: log, since: make(map[string]int64), warned: make(map[string]time.Time),
		read: func(ctx context.Context) (map[string]int64, error) { return readBacklogs(ctx, pool) },
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "executor_backlog_refused_total", Help: "Submissions that this process refused because their tenant's backlog was full.",
		}),
	}
}

// readBacklogs counts the commands without an outcome by tenant.
func readBacklogs(ctx context.Context, pool *pgxpool.Pool) (map[string]int64, error) {
	rows, _ := pool.Query(ctx, `
		SELECT tenant, sum(CASE what WHEN 'accepted' THEN stock WHEN 'retried' THEN 0 ELSE -stock END)::bigint
		FROM (SELECT tenant, what, stock FROM tally_totals UNION ALL SELECT tenant, what, stock FROM tally_deltas) t
		GROUP BY tenant`)
	var (
		tenant string
		n      int64
		all    = make(map[string]int64)
	)
	_, err := pgx.ForEachRow(rows, []any{&tenant, &n}, func() error {
		all[tenant] = n
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read backlogs: %w", err)
	}
	return all, nil
}

// take makes room for one command of the tenant, or returns a *BacklogFull.
func (q *quota) take(ctx context.Context, tenant string) error {
	if q.limit <= 0 {
		return nil
	}
	q.refresh(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.known[tenant]+q.before[tenant]+q.since[tenant] < q.limit {
		q.since[tenant]++
		return nil
	}
	if now := time.Now(); now.Sub(q.warned[tenant]) >= quotaWarns {
		q.warned[tenant] = now
		q.log.Warn("backlog full: submissions are refused", "tenant", tenant, "limit", q.limit)
	}
	return &BacklogFull{Limit: q.limit}
}

// giveBack takes back what a submission did not need: it was refused, or a repeat.
func (q *quota) giveBack(tenant string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.since[tenant] > 0 { // not if a read has begun meanwhile
		q.since[tenant]--
	}
}

// refresh has new numbers read where it is time. It waits for them only where the
// old ones are too old to go by.
func (q *quota) refresh(ctx context.Context) {
	q.mu.Lock()
	now := time.Now()
	if now.After(q.next) && q.reading == nil {
		q.reading = make(chan struct{})
		q.before, q.since = q.since, make(map[string]int64)
		go q.renew(context.WithoutCancel(ctx), q.reading)
	}
	reading, wait := q.reading, now.After(q.until)
	q.mu.Unlock()
	if !wait || reading == nil {
		return
	}
	select {
	case <-reading:
	case <-ctx.Done():
	}
}

// renew reads the numbers. What was accepted before the read began is in them; if it
// fails, the old ones stay, and what was counted since.
func (q *quota) renew(ctx context.Context, done chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, quotaBound)
	defer cancel()
	began := time.Now()
	known, err := q.read(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.log.Warn("the backlogs could not be read", "error", err)
		for tenant, n := range q.before {
			q.since[tenant] += n
		}
		began = time.Now()
	} else {
		q.known = known
	}
	q.before = nil
	q.next, q.until, q.reading = began.Add(quotaFresh), began.Add(quotaStale), nil
	close(done)
}
