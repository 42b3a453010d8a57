package postgres_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/testkit"
)

// TestAStatementThatWasGivenUp frees its locks, although it still waits for
// another's.
func TestAStatementThatWasGivenUp(t *testing.T) {
	pool := testkit.Database(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE held (n integer PRIMARY KEY)`)
	exec(`INSERT INTO held VALUES (1), (2)`)
	holder, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.Background()) }()
	if _, err := holder.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0; SELECT FROM held WHERE n = 2 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	// A process that was killed sends no word of it over another connection either.
	var gone atomic.Bool
	config := pool.Config()
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if gone.Load() {
			return nil, errors.New("the process is gone")
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	other, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	conn, err := other.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `BEGIN; SELECT FROM held WHERE n = 1 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	lost := conn.Hijack()
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		_, _ = lost.Exec(context.Background(), `SELECT FROM held WHERE n = 2 FOR UPDATE`)
	}()
	for blocked := 0; blocked == 0; {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
	}
	gone.Store(true)
	_ = lost.PgConn().Conn().Close() // as the kernel does for a process that was killed
	<-waiting
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pool.Exec(ctx, `UPDATE held SET n = 3 WHERE n = 1`); err != nil {
		t.Errorf("its lock is still held: %v", err)
	}
}
