// Package reconcile gives doubt an owner. What ends unresolved is followed up
// until it is known: lookups ask the upstream, notices and settlement reports
// bring word from it, and what none of them settles a person decides.
//
// All of it ends in commands.Store.Learn: nothing here writes a command's state.
package reconcile

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"executor/commands"
	"executor/upstreams"
)

// Config is what a Store is built from; Log and Registry may be nil, and Secrets
// where no notices come in.
type Config struct {
	Pool      *pgxpool.Pool
	Commands  *commands.Store
	Upstreams *upstreams.Store
	Secrets   Secrets // of the signatures of notices
	Log       *slog.Logger
	Registry  prometheus.Registerer // nil for no metrics
}

// Store keeps what is found out about commands, and who looks after them.
type Store struct {
	pool      *pgxpool.Pool
	commands  *commands.Store
	upstreams *upstreams.Store
	secrets   Secrets
	log       *slog.Logger
	asked     *prometheus.CounterVec // questions to upstreams, by what they found
}

// NewStore builds a Store.
func NewStore(c Config) *Store {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{pool: c.Pool, commands: c.Commands, upstreams: c.Upstreams, secrets: c.Secrets, log: c.Log}
	s.asked = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "executor_lookups_total", Help: "Questions that this process put to upstreams, by what they found.",
	}, []string{"upstream", "finding"})
	if c.Registry != nil {
		c.Registry.MustRegister(s.asked)
	}
	return s
}
