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
// outage takes traffic away; liveness does not, so that it restarts nobody.
type health struct {
	pool     *pgxpool.Pool
	migrated atomic.Bool // a schema never goes back, so yes is remembered
}

// Ready returns nil when this process can take commands.
func (h *health) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if h.migrated.Load() {
		if err := h.pool.Ping(ctx); err != nil {
			return errors.New("the database cannot be reached")
		}
		return nil
	}
	current, err := migrations.Current(ctx, h.pool)
	switch {
	case err != nil:
		return errors.New("the database cannot be reached")
	case !current:
		return errNotMigrated
	}
	h.migrated.Store(true)
	return nil
}
