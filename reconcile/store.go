// Package reconcile gives doubt an owner. What ends unresolved is followed up
// until it is known: lookups ask the upstream, notices and settlement reports
// bring word from it, and what none of them settles a person decides.
//
// All of it ends in commands.Store.Learn: nothing here writes a command's state.
package reconcile

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/upstreams"
)

// Config is what a Store is built from; only Log may be nil.
type Config struct {
	Pool      *pgxpool.Pool
	Commands  *commands.Store
	Upstreams *upstreams.Store
	Log       *slog.Logger
}

// Store keeps what is found out about commands, and who looks after them.
type Store struct {
	pool      *pgxpool.Pool
	commands  *commands.Store
	upstreams *upstreams.Store
	log       *slog.Logger
}

// NewStore builds a Store.
func NewStore(c Config) *Store {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{pool: c.Pool, commands: c.Commands, upstreams: c.Upstreams, log: c.Log}
}
