package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/postgres"
)

// clear leaves nothing of a contender behind that the next one would pay for: no
// table to vacuum, no page to write back.
func (b *bench) clear(ctx context.Context, pool *pgxpool.Pool) error {
	name := pool.Config().ConnConfig.Database
	pool.Close()
	admin, err := postgres.Open(ctx, b.url, 1)
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
		return err
	}
	_, err = admin.Exec(ctx, "CHECKPOINT")
	return err
}

// throughput: commands from submit to final state, many at once.
func (b *bench) throughput(ctx context.Context) error {
	if b.contender != "" {
		return b.measured(ctx, "throughput", func(pool *pgxpool.Pool, c contender, length time.Duration) (figures, error) {
			return closed(ctx, pool, c, b.inFlight, length)
		})
	}
	fmt.Printf("throughput, %d in flight, %s each\n", b.inFlight, b.length)
	rates, err := b.apart(ctx, "throughput")
	if err == nil && len(rates) == 2 {
		fmt.Printf("  executor / plain     %8.2f\n\n", rates[1]/rates[0])
	}
	return err
}

// lowRate is a load that leaves everything idle most of the time, in commands a
// second.
const lowRate = 50

// latency: the same at a low, steady rate.
func (b *bench) latency(ctx context.Context) error {
	if b.contender != "" {
		return b.measured(ctx, "latency", func(pool *pgxpool.Pool, c contender, length time.Duration) (figures, error) {
			return paced(ctx, pool, c, lowRate, length)
		})
	}
	fmt.Printf("latency at %d commands a second, %s each\n", lowRate, b.length)
	_, err := b.apart(ctx, "latency")
	fmt.Println()
	return err
}

// measured warms one contender up, measures it and prints its row.
func (b *bench) measured(ctx context.Context, part string, load func(*pgxpool.Pool, contender, time.Duration) (figures, error)) error {
	url, stop, err := upstream(ctx)
	if err != nil {
		return err
	}
	defer stop()
	pool, err := b.database(ctx, b.contender+"_"+part)
	if err != nil {
		return err
	}
	c, err := b.start(ctx, pool, url)
	if err != nil {
		return errors.Join(err, b.clear(ctx, pool))
	}
	_, err = load(pool, c, b.length/4)
	if err == nil {
		var f figures
		if f, err = load(pool, c, b.length); err == nil {
			fmt.Printf("  %-20s %s\n", b.contender, f)
		}
	}
	c.stop()
	return errors.Join(err, b.clear(ctx, pool))
}

// start starts the contender that this process measures.
func (b *bench) start(ctx context.Context, pool *pgxpool.Pool, url string) (contender, error) {
	switch b.contender {
	case "plain":
		return newPlain(ctx, pool, url, b.inFlight)
	case "executor":
		return newExecutor(ctx, pool, profileFor("up", url, b.inFlight, "15s"))
	default:
		return nil, fmt.Errorf("there is no contender %q: plain or executor", b.contender)
	}
}

// isolation: one upstream stalls every request while thousands of commands wait
// for it; another one's commands should not notice.
func (b *bench) isolation(ctx context.Context) error {
	url, stop, err := upstream(ctx)
	if err != nil {
		return err
	}
	defer stop()
	pool, err := b.database(ctx, "isolation")
	if err != nil {
		return err
	}
	defer pool.Close()
	x, err := newExecutor(ctx, pool, profileFor("up", url, 32, "15s"), profileFor("stalled", url+"/stall", 32, strconv.Itoa(120)+"s"))
	if err != nil {
		return err
	}
	defer x.stop()
	fmt.Printf("isolation: latency of one upstream at %d commands a second\n", lowRate)
	if _, err := paced(ctx, pool, x, lowRate, b.length/4); err != nil {
		return err
	}
	alone, err := paced(ctx, pool, x, lowRate, b.length)
	if err != nil {
		return err
	}
	fmt.Printf("  %-36s %s\n", "alone", alone)
	if err := x.fill(ctx, "stalled", b.backlog); err != nil {
		return err
	}
	beside, err := paced(ctx, pool, x, lowRate, b.length)
	if err != nil {
		return err
	}
	fmt.Printf("  %-36s %s\n", fmt.Sprintf("with %d queued for a stalled one", b.backlog), beside)
	ratio := func(q float64) float64 { return float64(beside.quantile(q)) / float64(alone.quantile(q)) }
	fmt.Printf("  ratio                                p50 %.2f   p99 %.2f\n\n", ratio(.5), ratio(.99))
	return nil
}

// fill queues commands for an upstream and waits until the first of them are
// under way.
func (x *executor) fill(ctx context.Context, upstream string, n int) error {
	err := together(32, func() error {
		for i := 0; i < n/32; i++ {
			s := x.submission(number.Add(1))
			s.Upstream = upstream
			if _, err := x.commands.Submit(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-time.After(2 * time.Second): // the queue's workers have come upon them by now
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
