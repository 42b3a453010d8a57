package webhooks

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/groupcommit"
	"executor/internal/seal"
)

// Config is what a Store is built from. All but Pool may be left out.
type Config struct {
	Pool *pgxpool.Pool
	// Box seals the endpoints' secrets. Without one no endpoint can be made and
	// nothing is delivered.
	Box *seal.Box
	// Allow are addresses that are not public and may be reached all the same,
	// over plain http too: EXECUTOR_WEBHOOK_ALLOW.
	Allow []netip.Prefix
	// Ports are those that URLs may have besides 80, 443 and those from 1024 that
	// belong to no other service: EXECUTOR_WEBHOOK_PORTS.
	Ports []int
	// Guard knows the addresses of this deployment; nil for one that knows none.
	Guard *egress.Guard
	// Ask is whose receivers have to answer a challenge: EXECUTOR_WEBHOOK_CHALLENGE.
	Ask      Ask
	Log      *slog.Logger
	Registry prometheus.Registerer // nil for no metrics
}

// Store keeps endpoints and deliveries, and announces outcomes to them.
type Store struct {
	pool    *pgxpool.Pool
	box     *seal.Box
	allow   []netip.Prefix
	ports   []int
	ask     Ask
	guard   *egress.Guard // of addresses in URLs
	log     *slog.Logger
	metrics *metrics
	records *groupcommit.Group[result, recorded]
	wake    atomic.Pointer[func()] // tells the engine that something was announced
	waking  atomic.Bool            // it is about to be told
}

// recordBatch bounds how many results share one commit.
const recordBatch = 64

// NewStore builds a Store.
func NewStore(c Config) *Store {
	s := &Store{
		pool: c.Pool, box: c.Box, allow: c.Allow, ports: c.Ports, ask: c.Ask, guard: c.Guard, log: c.Log,
		metrics: newMetrics(c.Registry),
	}
	if s.guard == nil {
		s.guard = egress.NewGuard(egress.GuardConfig{})
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.records = groupcommit.New(recordBatch, func(ctx context.Context, items []result) []groupcommit.Result[recorded] {
		return groupcommit.Run(ctx, s.pool, items, s.record)
	})
	return s
}

// Close ends the store's own goroutines.
func (s *Store) Close() { s.records.Close() }

// nudgeAfter leaves the transaction that announced something the time to commit;
// what it does not need that long for is found by the next look.
const nudgeAfter = 20 * time.Millisecond

// nudge has the engine of this process look soon, once for all who ask meanwhile.
func (s *Store) nudge() {
	wake := s.wake.Load()
	if wake == nil || s.waking.Swap(true) {
		return
	}
	time.AfterFunc(nudgeAfter, func() {
		s.waking.Store(false)
		(*wake)()
	})
}

// By says who changes something, and why.
type By struct {
	Tenant string
	Actor  string // the API key's name or the operator
	Reason string
}

// note writes a deed into the audit, as the last step of its transaction.
func (b By) note(ctx context.Context, tx pgx.Tx, action, subject string, before, after, details any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Tenant: b.Tenant, Actor: b.Actor, Action: action, Subject: subject, Reason: b.Reason,
		Before: before, After: after, Details: details,
	})
}
