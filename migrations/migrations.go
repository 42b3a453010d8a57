// Package migrations holds the database schema: our own numbered SQL files and
// those that River brings along. A file never changes once it was released.
package migrations

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

//go:embed *.sql
var files embed.FS

// lockID is the advisory lock that one migrating process holds. Any constant
// does, as long as every release uses the same one.
const lockID int64 = 0x6578656375746f72 // "executor"

// lockPoll is how often a process that waits for the lock asks again. It asks
// instead of queueing, because a queued statement holds a snapshot, and that
// would block an index that the migrating process builds concurrently.
const lockPoll = 100 * time.Millisecond

// Up brings the database to the newest schema and does nothing where it is
// there already. Of two processes that call it at once the second waits.
// Migrations may take long: no statement timeout of the pool applies.
func Up(ctx context.Context, pool *pgxpool.Pool) error {
	own, err := migrationPool(ctx, pool)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer own.Close()
	unlock, err := lock(ctx, own)
	if err != nil {
		return fmt.Errorf("migrate: wait for another process that migrates: %w", err)
	}
	defer unlock()
	if err := upOwn(ctx, own); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if err := upRiver(ctx, own); err != nil {
		return fmt.Errorf("migrate River's tables: %w", err)
	}
	return nil
}

// migrationPool is a pool like the given one, without its timeouts: one
// connection for the lock, and one for the work.
func migrationPool(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Pool, error) {
	config := pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = 2, 0, 0
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0"
	config.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	return pgxpool.NewWithConfig(ctx, config)
}

// lock takes the advisory lock. It is held by a connection, so a process that
// dies gives it up.
func lock(ctx context.Context, pool *pgxpool.Pool) (unlock func(), err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		var got bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, lockID).Scan(&got); err != nil {
			conn.Release()
			return nil, err
		}
		if got {
			return func() { release(ctx, conn) }, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			conn.Release()
			return nil, ctx.Err()
		}
	}
}

// release ends the session that holds the lock, and the lock with it.
func release(ctx context.Context, conn *pgxpool.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = conn.Hijack().Close(ctx)
}

// upOwn applies our own files. Goose needs no lock of its own: ours covers
// River's tables too.
func upOwn(ctx context.Context, pool *pgxpool.Pool) error {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

func upRiver(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := riverMigrator(pool)
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverMigrator also answers questions about River's files; the pool may then
// be nil.
func riverMigrator(pool *pgxpool.Pool) (*rivermigrate.Migrator[pgx.Tx], error) {
	return rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
}

// Current tells whether the database has every migration that this program
// knows. A newer schema counts as current: while a release rolls out, the older
// processes go on. It is one cheap statement, made for readiness probes.
func Current(ctx context.Context, pool *pgxpool.Pool) (bool, error) {
	own, river, err := newest()
	if err != nil {
		return false, err
	}
	var current bool
	err = pool.QueryRow(ctx, `
		SELECT coalesce((SELECT max(version_id) FROM goose_db_version WHERE is_applied), 0) >= $1
		   AND coalesce((SELECT max(version) FROM river_migration WHERE line = 'main'), 0) >= $2`,
		own, river).Scan(&current)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && (pgErr.Code == undefinedTable || pgErr.Code == undefinedColumn) {
		return false, nil // nothing was migrated yet, or River's table is older than its lines
	}
	if err != nil {
		return false, fmt.Errorf("read the schema's version: %w", err)
	}
	return current, nil
}

// SQLSTATEs of a schema that is not there yet.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
)

// newest are the last versions that this program knows, of our files and of
// River's.
func newest() (own int64, river int64, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, 0, errors.Join(errors.New("no migration is built in"), err)
	}
	own, err = goose.NumericComponent(names[len(names)-1]) // Glob sorts by name
	if err != nil {
		return 0, 0, err
	}
	migrator, err := riverMigrator(nil)
	if err != nil {
		return 0, 0, err
	}
	all := migrator.AllVersions()
	return own, int64(all[len(all)-1].Version), nil
}

// Fingerprint differs between any two sets of migrations. Tests name their
// template database by it.
func Fingerprint() (string, error) {
	sum := sha256.New()
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s\n", name, len(text), text)
	}
	migrator, err := riverMigrator(nil)
	if err != nil {
		return "", err
	}
	for _, m := range migrator.AllVersions() {
		fmt.Fprintf(sum, "river %d %d\n%s\n", m.Version, len(m.SQLUp), m.SQLUp)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
