package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// each runs a round with each contender, on a database of its own.
func (b *bench) each(ctx context.Context, url, part string, round func(name string, pool *pgxpool.Pool, c contender) error) error {
	start := map[string]func(*pgxpool.Pool) (contender, error){
		"plain": func(pool *pgxpool.Pool) (contender, error) { return newPlain(ctx, pool, url, b.inFlight) },
		"executor": func(pool *pgxpool.Pool) (contender, error) {
			return newExecutor(ctx, pool, profileFor("up", url, b.inFlight, "15s"))
		},
	}
	for _, name := range []string{"plain", "executor"} {
		if b.contender != "" && b.contender != name {
			continue
		}
		pool, err := b.database(ctx, name+"_"+part)
		if err != nil {
			return err
		}
		c, err := start[name](pool)
		if err == nil {
			err = round(name, pool, c)
			c.stop()
		}
		pool.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// throughput: commands from submit to final state, many at once.
func (b *bench) throughput(ctx context.Context) error {
	url, stop, err := upstream(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("throughput, %d in flight, %s each\n", b.inFlight, b.length)
	var rates []float64
	err = b.each(ctx, url, "throughput", func(name string, pool *pgxpool.Pool, c contender) error {
		if _, err := closed(ctx, pool, c, b.inFlight, b.length/4); err != nil { // warm-up
			return err
		}
		f, err := closed(ctx, pool, c, b.inFlight, b.length)
		if err == nil {
			fmt.Printf("  %-20s %s\n", name, f)
			rates = append(rates, f.perSecond())
		}
		return err
	})
	if err == nil && len(rates) == 2 {
		fmt.Printf("  executor / plain     %8.2f\n\n", rates[1]/rates[0])
	}
	return err
}

// latency: the same at a low, steady rate.
func (b *bench) latency(ctx context.Context) error {
	url, stop, err := upstream(ctx)
	if err != nil {
		return err
	}
	defer stop()
	const perSecond = 50
	fmt.Printf("latency at %d commands a second, %s each\n", perSecond, b.length)
	err = b.each(ctx, url, "latency", func(name string, pool *pgxpool.Pool, c contender) error {
		if _, err := paced(ctx, pool, c, perSecond, b.length/4); err != nil {
			return err
		}
		f, err := paced(ctx, pool, c, perSecond, b.length)
		if err == nil {
			fmt.Printf("  %-20s %s\n", name, f)
		}
		return err
	})
	fmt.Println()
	return err
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
	const perSecond = 50
	fmt.Printf("isolation: latency of one upstream at %d commands a second\n", perSecond)
	if _, err := paced(ctx, pool, x, perSecond, b.length/4); err != nil {
		return err
	}
	alone, err := paced(ctx, pool, x, perSecond, b.length)
	if err != nil {
		return err
	}
	fmt.Printf("  %-36s %s\n", "alone", alone)
	if err := x.fill(ctx, "stalled", b.backlog); err != nil {
		return err
	}
	beside, err := paced(ctx, pool, x, perSecond, b.length)
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
