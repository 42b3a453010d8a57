package testkit

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/migrations"
)

func TestDatabaseIsMigratedAndItsOwn(t *testing.T) {
	ctx := context.Background()
	one, other := Database(t), Database(t)
	for _, pool := range []*pgxpool.Pool{one, other} {
		if current, err := migrations.Current(ctx, pool); err != nil || !current {
			t.Errorf("Current = %v, %v; want true", current, err)
		}
	}
	if _, err := one.Exec(ctx, `INSERT INTO deployment (id, system_identifier, timeline) VALUES ('a', 'b', 1)`); err != nil {
		t.Fatal(err)
	}
	var rows int
	if err := other.QueryRow(ctx, `SELECT count(*) FROM deployment`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("another test's database has %d rows, %v; want none", rows, err)
	}
}

func TestDatabaseIsDroppedAfterTheTest(t *testing.T) {
	ctx := context.Background()
	var name string
	t.Run("user", func(t *testing.T) {
		name = Database(t).Config().ConnConfig.Database
	})
	conn, err := pgx.Connect(ctx, serverURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
	if err != nil || exists {
		t.Errorf("database %s exists: %v, %v; want it gone", name, exists, err)
	}
}

func TestEmptyDatabaseHasNoTables(t *testing.T) {
	pool := Open(t, EmptyDatabaseURL(t))
	var tables int
	err := pool.QueryRow(context.Background(), `SELECT count(*) FROM pg_tables WHERE schemaname = 'public'`).Scan(&tables)
	if err != nil || tables != 0 {
		t.Errorf("%d tables, %v; want none", tables, err)
	}
}

func TestClusterKeepsAddressAndDataOverStops(t *testing.T) {
	ctx := context.Background()
	server := Cluster(t)
	pool := server.Database()
	if _, err := pool.Exec(ctx, `INSERT INTO deployment (id, system_identifier, timeline) VALUES ('a', 'b', 1)`); err != nil {
		t.Fatal(err)
	}
	for name, end := range map[string]func(){"stop": server.Stop, "crash": server.Crash} {
		before := server.URL
		end()
		if err := pool.Ping(ctx); err == nil {
			t.Errorf("after %s the server still answers", name)
		}
		server.Start()
		if server.URL != before {
			t.Errorf("after %s the URL changed", name)
		}
		var rows int
		if err := pool.QueryRow(ctx, `SELECT count(*) FROM deployment`).Scan(&rows); err != nil || rows != 1 {
			t.Errorf("after %s: %d rows, %v; want 1", name, rows, err)
		}
	}
}

func TestWithDatabase(t *testing.T) {
	got := withDatabase("postgres://u:p@127.0.0.1:5432/postgres?sslmode=disable", "x")
	if want := "postgres://u:p@127.0.0.1:5432/x?sslmode=disable"; got != want {
		t.Errorf("withDatabase = %s, want %s", got, want)
	}
}
