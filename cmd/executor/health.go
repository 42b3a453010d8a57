package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/migrations"
)

// probeTimeout bounds a readiness probe: an orchestrator's own patience is
// usually a few seconds.
const probeTimeout = 2 * time.Second

// health answers readiness probes. They ask the database too, so that its
// outage, or its taking no changes, takes traffic away; liveness does not, so that it restarts nobody.
type health struct {
	pool     *pgxpool.Pool
	migrated atomic.Bool // a schema never goes back, so yes is remembered
}

// Ready returns nil when this process can take commands.
func (h *health) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if err := h.writable(ctx); err != nil || h.migrated.Load() {
		return err
	}
	current, err := migrations.Current(ctx, h.pool)
	switch {
	case err != nil:
		return errUnreachable
	case !current:
		return errNotMigrated
	}
	h.migrated.Store(true)
	return nil
}

var errUnreachable = errors.New("the database cannot be reached")

// writable asks whether the database takes changes: a standby does not, nor does one
// that was made read-only, as hosters do where a disk is full.
func (h *health) writable(ctx context.Context) error {
	var no bool
	err := h.pool.QueryRow(ctx, `SELECT current_setting('transaction_read_only') = 'on'`).Scan(&no)
	switch {
	case err != nil:
		return errUnreachable
	case no:
		return errors.New("the database takes no changes: it is a standby, or read-only")
	default:
		return nil
	}
}
