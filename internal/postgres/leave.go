package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Leave closes a pool, and waits until ctx ends at most for connections on which
// a silent database keeps somebody: those end with the process.
func Leave(ctx context.Context, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
}
