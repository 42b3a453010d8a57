package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// plain is what one would write by hand on River: the command and its job in one
// transaction; a worker that writes an attempt row, does the POST and updates
// both rows.
type plain struct {
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	waiting sync.Map // command number to the channel that its end closes
}

type plainArgs struct {
	ID int64 `json:"id"`
}

func (plainArgs) Kind() string { return "plain_command" }

type plainWorker struct {
	river.WorkerDefaults[plainArgs]
	plain *plain
	http  *http.Client
	url   string
}

func newPlain(ctx context.Context, pool *pgxpool.Pool, url string, inFlight int) (*plain, error) {
	_, err := pool.Exec(ctx, `
		CREATE TABLE plain_commands (id bigint PRIMARY KEY, key text UNIQUE NOT NULL, state text NOT NULL, body bytea NOT NULL, updated_at timestamptz);
		CREATE TABLE plain_attempts (command_id bigint NOT NULL, number int NOT NULL, started_at timestamptz NOT NULL, ended_at timestamptz,
			status int, PRIMARY KEY (command_id, number))`)
	if err != nil {
		return nil, err
	}
	p := &plain{pool: pool}
	transport := &http.Transport{MaxIdleConnsPerHost: inFlight}
	workers := river.NewWorkers()
	river.AddWorker(workers, &plainWorker{plain: p, http: &http.Client{Transport: transport, Timeout: 10 * time.Second}, url: url})
	p.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: inFlight}}, Workers: workers, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	return p, p.client.Start(ctx)
}

func (p *plain) do(ctx context.Context, n int64) error {
	done := make(chan struct{})
	p.waiting.Store(n, done)
	err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO plain_commands VALUES ($1, $2, 'pending', $3, now())`, n, fmt.Sprintf("key-%d", n), payload)
		if err != nil {
			return err
		}
		_, err = p.client.InsertTx(ctx, tx, plainArgs{n}, nil)
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *plainWorker) Work(ctx context.Context, job *river.Job[plainArgs]) error {
	id := job.Args.ID
	if _, err := w.plain.pool.Exec(ctx, `INSERT INTO plain_attempts VALUES ($1, $2, now())`, id, job.Attempt); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/payments", strings.NewReader(payload))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := w.http.Do(r)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	err = pgx.BeginFunc(ctx, w.plain.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE plain_attempts SET ended_at = now(), status = $3 WHERE command_id = $1 AND number = $2`, id, job.Attempt, res.StatusCode); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE plain_commands SET state = 'done', updated_at = now() WHERE id = $1`, id)
		return err
	})
	if err != nil {
		return err
	}
	if done, ok := w.plain.waiting.LoadAndDelete(id); ok {
		close(done.(chan struct{}))
	}
	return nil
}

func (p *plain) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = p.client.StopAndCancel(ctx)
}
