package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/postgres"
	"executor/migrations"
)

func main() {
	seconds := flag.Int("seconds", 8, "length of each round")
	inFlight := flag.Int("in-flight", 256, "commands under way at once in the throughput rounds")
	backlog := flag.Int("backlog", 5000, "commands queued for the stalling upstream")
	profileTo := flag.String("cpuprofile", "", "write a CPU profile to this file")
	url := flag.String("database", "", "use this server instead of starting one")
	only := flag.String("only", "", "run one part: throughput, latency, isolation, reads or pages")
	seeded := flag.String("seeded", "bench_seeded", "with -only reads or pages: the database with a million commands, made if it is not there")
	contender := flag.String("contender", "", "measure only this one: plain or executor")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *profileTo != "" {
		f, err := os.Create(*profileTo)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	b := bench{length: time.Duration(*seconds) * time.Second, inFlight: *inFlight, backlog: *backlog, url: *url, contender: *contender, seeded: *seeded}
	if err := b.run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench is one run of the program.
type bench struct {
	length    time.Duration
	inFlight  int
	backlog   int
	url       string
	contender string
	seeded    string
}

func (b *bench) run(ctx context.Context, only string) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // as the program serves
	}
	if b.url == "" {
		stop, err := b.startPostgres(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"throughput", b.throughput}, {"latency", b.latency}, {"isolation", b.isolation}, {"reads", b.reads}, {"pages", b.pages}} {
		if only != part.name && (only != "" || part.name == "reads" || part.name == "pages") {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// startPostgres runs a server of our own, with its durability on.
func (b *bench) startPostgres(ctx context.Context) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "executor-bench-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	server, err := postgres.Start(ctx, postgres.DevConfig{
		Dir: filepath.Join(dir, "postgres"), Remove: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	b.url = server.URL
	if err := b.settle(ctx); err != nil {
		return nil, errors.Join(err, server.Stop())
	}
	return func() {
		server.Stop()
		_ = os.RemoveAll(dir)
	}, nil
}

// settle brings the fresh server to where one is that has been running for a
// while: it reuses segments of its write-ahead log. A new one first writes each
// full of zeroes, which would be measured along with whoever logs most.
func (b *bench) settle(ctx context.Context) error {
	admin, err := postgres.Open(ctx, b.url, 1)
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, sql := range []string{
		`ALTER SYSTEM SET min_wal_size = '512MB'`,
		`SELECT pg_reload_conf()`,
		`SELECT count(pg_logical_emit_message(false, 'fill', repeat('x', 1 << 20))) FROM generate_series(1, 400)`,
		`CHECKPOINT`,
	} {
		if _, err := admin.Exec(ctx, sql); err != nil {
			return fmt.Errorf("settle the server: %w", err)
		}
	}
	return nil
}

// database makes a fresh database and a pool on it, the same size for every
// contender.
func (b *bench) database(ctx context.Context, name string) (*pgxpool.Pool, error) {
	admin, err := postgres.Open(ctx, b.url, 1)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	name = fmt.Sprintf("bench_%s_%d", name, time.Now().UnixNano())
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	config := admin.Config().Copy()
	config.ConnConfig.Database = name
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return pool, migrations.Up(ctx, pool)
}

// upstream answers every POST with a created payment. Paths under /stall are
// read and never answered.
func upstream(ctx context.Context) (string, func(), error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/stall/payments" {
			select {
			case <-r.Context().Done():
			case <-ctx.Done():
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"pay_1","status":"done"}`)
	})}
	go func() { _ = server.Serve(l) }()
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}

const payload = `{"amount":100,"currency":"EUR","account":"a1"}`
