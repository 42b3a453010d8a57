package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"executor/commands"
)

// inLine is how long a job waits in a lane for its turn before it goes back to
// the queue, where another process may have room.
const inLine = time.Minute

// worker brings due commands from the queue into their lane. The row decides
// what happens, not the job: one that finds nothing due has done its work.
type worker struct {
	river.WorkerDefaults[commands.AttemptArgs]
	engine *Engine
}

// Work waits for the command's turn and for the attempt. The queue's context
// never reaches the wire: it only ends the wait for a turn.
func (w *worker) Work(ctx context.Context, job *river.Job[commands.AttemptArgs]) error {
	l, err := w.engine.laneOf(job.Queue)
	if err != nil {
		return err
	}
	if l.isBarred() {
		return river.JobSnooze(2 * time.Second)
	}
	done := make(chan ran, 1)
	l.push(&item{id: job.Args.ID, due: time.Now(), priority: job.Priority}, done)
	turn, cancel := context.WithTimeout(ctx, inLine)
	defer cancel()
	select {
	case r := <-done:
		return r.verdict()
	case <-turn.Done():
	}
	if l.withdraw(job.Args.ID, done) {
		return river.JobSnooze(time.Second)
	}
	r := <-done // it started: the attempt has its own deadline
	return r.verdict()
}

// verdict is what the queue is told.
func (r ran) verdict() error {
	switch {
	case errors.Is(r.err, errDraining):
		return river.JobSnooze(0)
	case r.err != nil:
		return errors.New("the attempt could not be prepared; the log says why") // no details into the queue's rows
	case r.again > 0:
		return river.JobSnooze(r.again)
	default:
		return nil
	}
}

// laneOf finds the lane of a queue's upstream.
func (e *Engine) laneOf(queue string) (*lane, error) {
	var id int64
	if _, err := fmt.Sscanf(queue, "u%d", &id); err != nil {
		return nil, fmt.Errorf("queue %q is no upstream's", queue)
	}
	l := e.lane(id)
	if l == nil {
		return nil, fmt.Errorf("queue %q has no lane yet", queue)
	}
	return l, nil
}

// steadyRetry: River's own retries are for faults of our side, which pass.
type steadyRetry struct{}

func (steadyRetry) NextRetry(job *rivertype.JobRow) time.Time {
	wait := time.Duration(len(job.Errors)+1) * time.Second
	return time.Now().Add(min(wait, 30*time.Second))
}

func (c RiverConfig) withDefaults() RiverConfig {
	fill := func(d *time.Duration, standard time.Duration) {
		if *d <= 0 {
			*d = standard
		}
	}
	fill(&c.JobTimeout, 10*time.Minute)
	fill(&c.RescueStuckJobsAfter, time.Hour)
	fill(&c.SoftStopTimeout, 5*time.Second)
	return c
}

// warnings keeps the queue's routine lines out of the log.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }

// newClient makes the queue client that works. Its id is the instance's name,
// which ties a running job to a lease.
func (e *Engine) newClient(instance string) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{engine: e})
	client, err := river.NewClient(riverpgxv5.New(e.pool), &river.Config{
		ID:                          instance,
		JobTimeout:                  e.river.JobTimeout,
		RescueStuckJobsAfter:        e.river.RescueStuckJobsAfter,
		SoftStopTimeout:             e.river.SoftStopTimeout,
		CompletedJobRetentionPeriod: time.Hour,
		CancelledJobRetentionPeriod: time.Hour,
		DiscardedJobRetentionPeriod: 24 * time.Hour,
		RetryPolicy:                 steadyRetry{},
		Logger:                      slog.New(warnings{e.log.Handler()}),
		Queues:                      map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
		Workers:                     workers,
	})
	if err != nil {
		return nil, fmt.Errorf("set up queue client: %w", err)
	}
	return client, nil
}

// NewInserter makes the queue client that only inserts.
func NewInserter(pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		return nil, fmt.Errorf("set up inserting queue client: %w", err)
	}
	return client, nil
}
