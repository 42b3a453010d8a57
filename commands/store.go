package commands

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"executor/internal/bodyfiles"
	"executor/internal/groupcommit"
	"executor/internal/seal"
	"executor/upstreams"
)

// Tx is a transaction of the store's database.
type Tx = pgx.Tx

// Inserter puts jobs into the queue in the caller's transaction; River's
// insert-only client is one.
type Inserter interface {
	InsertManyTx(ctx context.Context, tx pgx.Tx, params []river.InsertManyParams) ([]*rivertype.JobInsertResult, error)
}

// Config is what a Store is built from. Announcer and Starter may be nil.
type Config struct {
	Pool       *pgxpool.Pool
	Upstreams  *upstreams.Store
	Jobs       Inserter
	Announcer  Announcer
	Deployment string // that this process belongs to: with another's data it sends nothing; "" is any
	Starter    Starter
	Box        *seal.Box       // of the deployment; without it no one-shot body is taken
	Files      *bodyfiles.Root // of bodies; nil for none
	Backlog    int64           // commands of a tenant without an outcome; 0 is no limit
	Log        *slog.Logger
	Registry   prometheus.Registerer // nil for no metrics
}

// Store keeps the commands.
type Store struct {
	pool       *pgxpool.Pool
	upstreams  *upstreams.Store
	jobs       Inserter
	announcer  Announcer
	deployment string
	starter    Starter
	box        *seal.Box
	files      *bodyfiles.Root
	log        *slog.Logger
	submits    *groupcommit.Group[*entry, Accepted]
	watch      *watch
	healing    sync.Mutex
	healed     time.Time // Heal goes on from here; zero is the beginning
	finished   *prometheus.CounterVec
	quota      *quota
	refusing   atomic.Pointer[error] // set: nothing is accepted
}

// submitBatch bounds how many submissions share one commit.
const submitBatch = 128

// NewStore builds a Store.
func NewStore(c Config) *Store {
	s := &Store{
		pool: c.Pool, upstreams: c.Upstreams, jobs: c.Jobs,
		announcer: c.Announcer, deployment: c.Deployment, starter: c.Starter, box: c.Box, files: c.Files, log: c.Log,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.submits = groupcommit.New(submitBatch, func(ctx context.Context, items []*entry) []groupcommit.Result[Accepted] {
		return groupcommit.Run(ctx, s.pool, items, s.accept)
	})
	s.quota = newQuota(c.Backlog, c.Pool, s.log)
	s.watch = newWatch(s.finalAmong)
	s.finished = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "executor_commands_finished_total", Help: "Outcomes that this process committed, by state.",
	}, []string{"state"})
	if c.Registry != nil {
		c.Registry.MustRegister(s.finished, s.quota.refused)
	}
	return s
}

// SetStarter gives the store the process's starter, which itself needs the
// store. It is called once, before the first submission.
func (s *Store) SetStarter(starter Starter) { s.starter = starter }

// Close ends the store's own goroutines; submissions under way are finished.
func (s *Store) Close() {
	s.submits.Close()
	s.watch.close()
}
