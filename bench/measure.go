package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// contender does commands: one call submits a command and returns when it is
// final.
type contender interface {
	do(ctx context.Context, n int64) error
	stop()
}

// figures are what one round measured.
type figures struct {
	done      int64
	elapsed   time.Duration
	latencies []time.Duration
	commits   float64 // writing transactions a command
	walBytes  float64 // bytes of write-ahead log a command
}

func (f figures) perSecond() float64 { return float64(f.done) / f.elapsed.Seconds() }

func (f figures) quantile(q float64) time.Duration {
	if len(f.latencies) == 0 {
		return 0
	}
	return f.latencies[min(len(f.latencies)-1, int(q*float64(len(f.latencies))))]
}

func (f figures) String() string {
	return fmt.Sprintf("%8.0f commands/s   p50 %8s   p99 %8s   %6.3f commits   %6.0f bytes of WAL a command",
		f.perSecond(), f.quantile(.5).Round(10*time.Microsecond), f.quantile(.99).Round(10*time.Microsecond), f.commits, f.walBytes)
}

// closed keeps a number of commands under way, each started as soon as one ends.
func closed(ctx context.Context, pool *pgxpool.Pool, c contender, inFlight int, length time.Duration) (figures, error) {
	return measure(ctx, pool, func(ctx context.Context, next func() int64, record func(time.Duration)) error {
		end := time.Now().Add(length)
		return together(inFlight, func() error {
			for time.Now().Before(end) {
				began := time.Now()
				if err := c.do(ctx, next()); err != nil {
					return err
				}
				record(time.Since(began))
			}
			return nil
		})
	})
}

// paced starts commands at a fixed rate, whatever becomes of the earlier ones.
func paced(ctx context.Context, pool *pgxpool.Pool, c contender, perSecond int, length time.Duration) (figures, error) {
	return measure(ctx, pool, func(ctx context.Context, next func() int64, record func(time.Duration)) error {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		var (
			running sync.WaitGroup
			failed  atomic.Pointer[error]
		)
		for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
			running.Go(func() {
				began := time.Now()
				if err := c.do(ctx, next()); err != nil {
					failed.Store(&err)
					return
				}
				record(time.Since(began))
			})
		}
		running.Wait()
		if err := failed.Load(); err != nil {
			return *err
		}
		return nil
	})
}

var number atomic.Int64

func measure(ctx context.Context, pool *pgxpool.Pool, load func(context.Context, func() int64, func(time.Duration)) error) (figures, error) {
	var (
		mu sync.Mutex
		f  figures
	)
	xid, wal, err := counters(ctx, pool)
	if err != nil {
		return f, err
	}
	began := time.Now()
	err = load(ctx, func() int64 { return number.Add(1) }, func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		f.latencies = append(f.latencies, d)
	})
	f.elapsed = time.Since(began)
	if err != nil {
		return f, err
	}
	xidAfter, walAfter, err := counters(ctx, pool)
	f.done = int64(len(f.latencies))
	f.commits = float64(xidAfter-xid) / float64(f.done)
	f.walBytes = (walAfter - wal) / float64(f.done)
	slices.Sort(f.latencies)
	return f, err
}

// counters read how many transactions wrote and how much write-ahead log there
// is; both are exact.
func counters(ctx context.Context, pool *pgxpool.Pool) (xid int64, wal float64, err error) {
	err = pool.QueryRow(ctx, `
		SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8`).Scan(&xid, &wal)
	return xid, wal, err
}

// together runs work n times at once and returns the first error.
func together(n int, work func() error) error {
	errs := make(chan error, n)
	for range n {
		go func() { errs <- work() }()
	}
	var first error
	for range n {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}
