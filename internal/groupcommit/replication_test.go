package groupcommit

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"executor/internal/testkit"
)

// TestACancelledReplicationIsUnknown: the server calls the commit done and gave up
// waiting for the synchronous standby. It can be seen, and may be lost.
func TestACancelledReplicationIsUnknown(t *testing.T) {
	ctx := context.Background()
	server := testkit.Cluster(t)
	pool := testkit.Open(t, server.URL)
	if _, err := pool.Exec(ctx, `CREATE TABLE notes (n integer)`); err != nil {
		t.Fatal(err)
	}
	write := func(n int) error {
		return Commit(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO notes VALUES ($1)`, n)
			return err
		})
	}
	server.Alone()
	stop := server.CancelWaits()
	if err := write(1); !errors.Is(err, ErrUnknown) || !errors.Is(err, errUnreplicated) {
		t.Errorf("a commit whose replication was cancelled: %v, want ErrUnknown", err)
	}
	server.Set("synchronous_standby_names", "")
	stop()
	if err := write(2); err != nil {
		t.Errorf("the next one: %v", err)
	}
	if got := stored(t, pool); len(got) != 2 {
		t.Errorf("stored %v, want both", got)
	}
}
