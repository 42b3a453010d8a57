package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"executor/internal/postgres"
	"executor/migrations"
)

// errNotMigrated says what to do with a schema that is older than the program.
var errNotMigrated = errors.New(`the database is not migrated to this version: run "executor migrate"`)

// toolConnections is enough for a command line that asks one thing at a time.
const toolConnections = 2

// openDatabase opens the database for a command of the operator, at once or
// not at all.
func openDatabase(ctx context.Context, config Config) (*pgxpool.Pool, error) {
	if err := checkDatabaseURL(config.DatabaseURL); err != nil {
		return nil, usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return reach(ctx, config.DatabaseURL, toolConnections, postgres.NewWatch(slog.Default()))
}

// databaseFlags are those of commands that work on the database itself.
type databaseFlags struct {
	config Config
	out    format
}

func (f *databaseFlags) add(cmd *cobra.Command) {
	f.config = defaultConfig()
	f.config.addDatabaseFlags(cmd.Flags())
	addOutput(cmd, &f.out)
}

// openMigrated is openDatabase for what needs the schema.
func openMigrated(ctx context.Context, config Config) (*pgxpool.Pool, error) {
	pool, err := openDatabase(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := requireMigrated(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

func requireMigrated(ctx context.Context, pool *pgxpool.Pool) error {
	current, err := migrations.Current(ctx, pool)
	if err == nil && !current {
		err = errNotMigrated
	}
	return err
}

// reach opens a pool and proves that the database answers.
func reach(ctx context.Context, url string, connections int, watch *postgres.Watch) (*pgxpool.Pool, error) {
	pool, err := postgres.OpenWatched(ctx, url, connections, watch)
	if err != nil {
		return nil, unreachable(url, err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, unreachable(url, err)
	}
	return pool, nil
}

func unreachable(url string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("database %s cannot be reached: %w", redactedDatabase(url), err)
}

// database is what a process that serves works on.
type database struct {
	pool  *pgxpool.Pool
	watch *postgres.Watch // hears the server's alarms
}

// databasePause lies between two tries to reach a database that is away.
const databasePause = time.Second

// awaitDatabase opens the database for a process that serves. One that is away
// (starting, failing over) is waited for; one that refuses us is an error at
// once, since waiting mends no password.
func awaitDatabase(ctx context.Context, config Config, log *slog.Logger) (database, error) {
	bound, cancel := context.WithTimeout(ctx, config.DatabaseWait)
	defer cancel()
	for {
		db, err := tryDatabase(ctx, config, log)
		if err == nil || ctx.Err() != nil || refusesUs(err) {
			return db, err
		}
		if bound.Err() != nil {
			return database{}, fmt.Errorf("%w; gave up after %s (EXECUTOR_DATABASE_WAIT)", err, config.DatabaseWait)
		}
		log.Warn("database away, trying again", "error", err, "pause", databasePause.String())
		select {
		case <-time.After(databasePause):
		case <-bound.Done():
		}
	}
}

func tryDatabase(ctx context.Context, config Config, log *slog.Logger) (database, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	watch := postgres.NewWatch(log)
	pool, err := reach(ctx, config.DatabaseURL, config.MaxConnections, watch)
	return database{pool, watch}, err
}

// refusesUs tells an answer that stays the same (password, missing database)
// from a server that is away or still starting.
func refusesUs(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code[:2] {
	case "28", "3D", "42": // authorisation, no such database, not permitted
		return true
	default:
		return false
	}
}
