package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/postgres"
	"executor/internal/testkit"
)

const secret = "s3cr3t-p4ss"

// with changes the URL of a database.
func with(t *testing.T, database string, change func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// closedPort is an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestOpenSetsTheSessionUp(t *testing.T) {
	ctx := context.Background()
	pool, err := postgres.Open(ctx, testkit.EmptyDatabaseURL(t), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for setting, want := range map[string]string{
		"application_name":                    "executor",
		"TimeZone":                            "UTC",
		"statement_timeout":                   "1min",
		"idle_in_transaction_session_timeout": "10s",
	} {
		var got string
		if err := pool.QueryRow(ctx, `SELECT current_setting($1)`, setting).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", setting, got, err, want)
		}
	}
	if got := pool.Config().MaxConns; got != 3 {
		t.Errorf("the pool has up to %d connections, want 3", got)
	}
	var at time.Time
	var all []time.Time
	if err := pool.QueryRow(ctx, `SELECT now(), ARRAY[now()]`).Scan(&at, &all); err != nil {
		t.Fatal(err)
	}
	if at.Location() != time.UTC || all[0].Location() != time.UTC {
		t.Errorf("moments arrive in %v and %v, want UTC", at.Location(), all[0].Location())
	}
}

// TestARolesDefaultDoesNotMakeCommitsForgetful: a session that begins after it was
// changed commits as those before, and it is noticed.
func TestARolesDefaultDoesNotMakeCommitsForgetful(t *testing.T) {
	ctx := context.Background()
	pool := testkit.Open(t, testkit.EmptyDatabaseURL(t))
	commits := func(want string) {
		t.Helper()
		var got string
		if err := pool.QueryRow(ctx, `SELECT current_setting('synchronous_commit')`).Scan(&got); err != nil || got != want {
			t.Errorf("synchronous_commit = %q, %v; want %s", got, err, want)
		}
	}
	for set, want := range map[string]string{"off": "on", "remote_apply": "remote_apply"} {
		if _, err := pool.Exec(ctx, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = `+set+`', current_database()); END $$`); err != nil {
			t.Fatal(err)
		}
		err := postgres.Durable(ctx, pool)
		if told := err != nil && strings.Contains(err.Error(), "synchronous_commit"); told != (set == "off") {
			t.Errorf("with %s: %v", set, err)
		}
		pool.Reset()
		commits(want)
	}
}

func TestTheURLGoesBeforeTheDefaults(t *testing.T) {
	ctx := context.Background()
	database := with(t, testkit.EmptyDatabaseURL(t), func(u *url.URL) {
		u.RawQuery += "&statement_timeout=7s&pool_max_conns=2"
	})
	pool, err := postgres.Open(ctx, database, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var got string
	if err := pool.QueryRow(ctx, `SHOW statement_timeout`).Scan(&got); err != nil || got != "7s" {
		t.Errorf("statement_timeout = %q, %v; want 7s", got, err)
	}
	if got := pool.Config().MaxConns; got != 2 {
		t.Errorf("the pool has up to %d connections, want 2", got)
	}
}

func TestOpenFollowsTheHostThatAnswers(t *testing.T) {
	dead := closedPort(t)
	database := with(t, testkit.EmptyDatabaseURL(t), func(u *url.URL) { u.Host = dead + "," + u.Host })
	pool, err := postgres.Open(context.Background(), database, 2)
	if err != nil {
		t.Fatal(err)
	}
	pool.Close()
}

func TestOpenPassesOverAHostThatTakesNoWrites(t *testing.T) {
	ctx := context.Background()
	readOnly := testkit.Cluster(t)
	pool := testkit.Open(t, readOnly.URL)
	for _, sql := range []string{`ALTER SYSTEM SET default_transaction_read_only = on`, `SELECT pg_reload_conf()`} {
		if _, err := pool.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	readOnly.Stop()
	readOnly.Start() // so that the setting holds for certain
	_, err := postgres.Open(ctx, readOnly.URL, 2)
	wantError(t, err, "point the URL at the primary")
}

func TestOpenErrorsAdviseAndKeepThePassword(t *testing.T) {
	good := testkit.EmptyDatabaseURL(t)
	for name, tt := range map[string]struct {
		url  string
		want string
	}{
		"no URL":          {"", "no database URL is given"},
		"no URL at all":   {"postgres://executor:" + secret + "@host:port/x", "cannot be read"},
		"an odd password": {"postgres://executor:" + secret + "/%%@host/x", "cannot be read"},
		"keywords":        {"host=x port=y password=" + secret, "cannot be read"},
		"a bad option":    {"postgres://localhost/x?sslmode=perhaps", "sslmode"},
		"nothing listens": {"postgres://executor:" + secret + "@" + closedPort(t) + "/x", "check that PostgreSQL runs there"},
		"no database": {with(t, good, func(u *url.URL) { u.Path = "/not-there" }),
			`createdb "not-there"`},
		"no TLS": {with(t, good, func(u *url.URL) { u.RawQuery = "sslmode=require" }),
			"sslmode=disable"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(context.Background(), tt.url, 2)
			wantError(t, err, tt.want)
		})
	}
}

func TestOpenAdvisesOnAWrongPassword(t *testing.T) {
	server := testkit.Cluster(t) // which asks for one
	wrong := with(t, server.URL, func(u *url.URL) { u.User = url.UserPassword("executor", secret) })
	_, err := postgres.Open(context.Background(), wrong, 2)
	wantError(t, err, "check user and password")
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error shows the password: %v", err)
	}
}

// syncBuffer is written by the pool and read by the test.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// The server reports such a commit as done.
func TestACommitThatWasNotReplicatedIsAnError(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	server := testkit.Cluster(t)
	var log syncBuffer
	watch := postgres.NewWatch(slog.New(slog.NewTextHandler(&log, nil)))
	pool, err := postgres.OpenWatched(ctx, server.URL, 2, watch)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	observer := testkit.Open(t, server.URL)
	for _, sql := range []string{
		`CREATE TABLE notes (n integer)`,
		`ALTER SYSTEM SET synchronous_standby_names = 'missing'`,
		`SELECT pg_reload_conf()`,
	} {
		if _, err := observer.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(ctx, t, observer, `SELECT current_setting('synchronous_standby_names') = 'missing'`)
	committed := make(chan error)
	go func() {
		// No commit waits until the checkpointer has read the setting, too.
		var err error
		for err == nil && log.String() == "" {
			_, err = pool.Exec(ctx, `INSERT INTO notes VALUES (1)`)
		}
		committed <- err
	}()
	waitFor(ctx, t, observer, `
		SELECT coalesce(bool_or(pg_cancel_backend(pid)), false) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	if err := <-committed; err != nil {
		t.Errorf("the commit failed: %v; it should look done", err)
	}
	if n := watch.Unreplicated(); n != 1 {
		t.Errorf("%d unreplicated commits counted, want 1", n)
	}
	if got := log.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "not replicated") {
		t.Errorf("the log has no error: %q", got)
	}
}

// waitFor asks again until the answer is true.
func waitFor(ctx context.Context, t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var reached bool
		if err := pool.QueryRow(ctx, sql).Scan(&reached); err != nil {
			t.Fatal(err)
		}
		if reached {
			return
		}
		<-tick.C
	}
}
