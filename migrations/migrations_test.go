package migrations_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"executor/internal/testkit"
	"executor/migrations"
)

func TestUpByManyProcessesAtOnce(t *testing.T) {
	ctx, url := context.Background(), testkit.EmptyDatabaseURL(t)
	pool := testkit.Open(t, url)
	if current, err := migrations.Current(ctx, pool); err != nil || current {
		t.Fatalf("Current of an empty database = %v, %v; want false", current, err)
	}
	var wg sync.WaitGroup
	for range 4 {
		own := testkit.Open(t, url) // as a process has
		wg.Go(func() {
			if err := migrations.Up(ctx, own); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if current, err := migrations.Current(ctx, pool); err != nil || !current {
		t.Fatalf("Current = %v, %v; want true", current, err)
	}
	if err := migrations.Up(ctx, pool); err != nil {
		t.Errorf("Up again: %v", err)
	}
	for _, table := range []string{"commands", "attempts", "river_job"} {
		if _, err := pool.Exec(ctx, `SELECT FROM `+table); err != nil {
			t.Error(err)
		}
	}
	var locks int
	err := pool.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&locks)
	if err != nil || locks != 0 {
		t.Errorf("%d advisory locks are held, %v; want none", locks, err)
	}
}

func TestCurrentNoticesWhatIsMissing(t *testing.T) {
	ctx := context.Background()
	for missing, sql := range map[string]string{
		"a migration of ours":       `DELETE FROM goose_db_version WHERE version_id > 0`,
		"a migration of River":      `DELETE FROM river_migration WHERE version = (SELECT max(version) FROM river_migration)`,
		"River's table":             `DROP TABLE river_migration`,
		"the lines of River's time": `ALTER TABLE river_migration DROP COLUMN line`,
	} {
		pool := testkit.Database(t)
		if _, err := pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
		if current, err := migrations.Current(ctx, pool); err != nil || current {
			t.Errorf("Current without %s = %v, %v; want false", missing, current, err)
		}
	}
}

func TestANewerSchemaIsCurrent(t *testing.T) {
	ctx, pool := context.Background(), testkit.Database(t)
	if _, err := pool.Exec(ctx, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)`); err != nil {
		t.Fatal(err)
	}
	if current, err := migrations.Current(ctx, pool); err != nil || !current {
		t.Errorf("Current = %v, %v; want true", current, err)
	}
	if err := migrations.Up(ctx, pool); err != nil {
		t.Errorf("Up = %v, want nothing to do", err)
	}
}

func TestUpGivesUpWithItsContext(t *testing.T) {
	pool := testkit.Open(t, testkit.EmptyDatabaseURL(t))
	holder, err := pool.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Release()
	// The lock as another process would hold it, which spells a word in ASCII.
	if _, err := holder.Exec(context.Background(), `SELECT pg_advisory_lock(x'6578656375746f72'::bit(64)::bigint)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- migrations.Up(ctx, pool) }()
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("Up = %v, want it canceled", err)
	}
	if current, err := migrations.Current(context.Background(), pool); err != nil || current {
		t.Errorf("Current = %v, %v; want nothing migrated", current, err)
	}
}

func TestFingerprintIsStable(t *testing.T) {
	one, err := migrations.Fingerprint()
	if err != nil || len(one) != 64 {
		t.Fatalf("Fingerprint = %q, %v", one, err)
	}
	if again, _ := migrations.Fingerprint(); again != one {
		t.Errorf("Fingerprint = %s and then %s", one, again)
	}
}
