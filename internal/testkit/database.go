// Package testkit gives tests what they cannot fake: databases of a real
// PostgreSQL, and servers that can be stopped in the middle of a test.
package testkit

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/postgres"
	"executor/internal/testkit/scratch"
	"executor/migrations"
)

// EnvURL names the server that test databases are made on. Its user must be
// allowed to create databases. Without it each test process starts a server.
const EnvURL = "EXECUTOR_TEST_DATABASE_URL"

// poolSize is small: many tests share one server.
const poolSize = 8

// bound is for steps that take moments, on a machine that may be very busy.
const bound = 2 * time.Minute

// Database returns a pool on a database of the test's own with the newest
// schema. Both are gone after the test. The pool's Config().ConnString() is the
// database's URL.
func Database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Open(t, DatabaseURL(t))
}

// Open returns a pool that is closed after the test.
func Open(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	pool, err := postgres.Open(ctx, url, poolSize)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	return pool
}

// closePool reports connections that the test has not given back, instead of
// waiting for them for ever.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Errorf("%d database connections were never released", pool.Stat().AcquiredConns())
	}
}

// DatabaseURL is the URL of a database of the test's own with the newest schema.
func DatabaseURL(t testing.TB) string {
	t.Helper()
	server := serverURL(t)
	copyTemplate, err := sharedTemplate(server)
	if err != nil {
		t.Fatalf("make the template of the test databases: %v", err)
	}
	return create(t, server, copyTemplate)
}

// EmptyDatabaseURL is the URL of a database of the test's own without any tables.
func EmptyDatabaseURL(t testing.TB) string {
	t.Helper()
	return create(t, serverURL(t), "TEMPLATE template0")
}

func create(t testing.TB, server, from string) string {
	t.Helper()
	name := "executor_test_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if err := admin(server, "CREATE DATABASE "+name+" "+from); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin(server, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return withDatabase(server, name)
}

// serverURL is the server that all tests of this process share.
func serverURL(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(EnvURL); url != "" {
		return url
	}
	server, err := ownServer()
	if err != nil {
		t.Fatalf("these tests need PostgreSQL: %v\nOr name a running server in %s.", err, EnvURL)
	}
	return server.URL
}

// ownServer starts a server once per process. It ends with the process, and
// leaves nothing behind.
var ownServer = sync.OnceValues(func() (*postgres.Server, error) {
	dir, err := scratch.Dir("executor-test-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	return postgres.Start(ctx, postgres.DevConfig{Dir: dir, NoFsync: true, Remove: true})
})

var templates struct {
	sync.Mutex
	made map[string]string // by server
}

// sharedTemplate returns the words of CREATE DATABASE that copy the migrated
// database, which is made here if this is the first process to ask. Its name
// follows from the migrations, so processes of the same source share it.
func sharedTemplate(server string) (string, error) {
	templates.Lock()
	defer templates.Unlock()
	if words := templates.made[server]; words != "" {
		return words, nil
	}
	fingerprint, err := migrations.Fingerprint()
	if err != nil {
		return "", err
	}
	name := "executor_template_" + fingerprint[:16]
	if err := makeTemplate(server, name); err != nil {
		return "", err
	}
	words := "TEMPLATE " + name + " STRATEGY FILE_COPY" // half the time of the default, where nothing is synced
	if templates.made == nil {
		templates.made = map[string]string{}
	}
	templates.made[server] = words
	return words, nil
}

// templateLock is the advisory lock of whoever makes a template.
const templateLock = 0x74656d706c617465 // "template"

// makeTemplate builds the database under another name and renames it when it is
// complete: what has the name can be copied.
func makeTemplate(server, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) // and the lock with it
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, templateLock); err != nil {
		return err
	}
	var exists bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, name).Scan(&exists)
	if err != nil || exists {
		return err
	}
	draft := name + "_draft"
	if err := execAll(ctx, conn, "DROP DATABASE IF EXISTS "+draft+" WITH (FORCE)", "CREATE DATABASE "+draft); err != nil {
		return err
	}
	if err := migrate(ctx, withDatabase(server, draft)); err != nil {
		return err
	}
	return execAll(ctx, conn,
		"ALTER DATABASE "+draft+" ALLOW_CONNECTIONS false", // a connection to it would block copies
		"ALTER DATABASE "+draft+" RENAME TO "+name)
}

func migrate(ctx context.Context, url string) error {
	pool, err := postgres.Open(ctx, url, 2)
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrations.Up(ctx, pool)
}

// admin runs one statement on the server.
func admin(server, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return execAll(ctx, conn, sql)
}

func execAll(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// withDatabase is the server's URL with another database in it.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server // pgx reports it
	}
	u.Path = "/" + name
	return u.String()
}
