package testkit

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/postgres"
	"executor/internal/testkit/scratch"
)

// Replication is a PostgreSQL with a standby that follows it by streaming: two servers
// with data of their own.
type Replication struct {
	Primary, Standby *Server
	URL              string // names both servers; connections go to the one that takes writes
}

// NewReplication starts both, the standby from a base backup. Every commit waits for
// the standby if it is synchronous. Both are gone after the test.
func NewReplication(t testing.TB, synchronous bool) *Replication {
	t.Helper()
	r := &Replication{Primary: Cluster(t)}
	r.Standby = r.Primary.Backup()
	r.Standby.Start()
	await(t, r.Primary, "the standby to follow", `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')`)
	if synchronous {
		r.Primary.Set("synchronous_standby_names", "*")
		await(t, r.Primary, "the standby to be synchronous", `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`)
	}
	both, err := url.Parse(r.Primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	second, err := url.Parse(r.Standby.URL)
	if err != nil {
		t.Fatal(err)
	}
	both.Host += "," + second.Host
	r.URL = both.String() + "&target_session_attrs=read-write"
	return r
}

// Database migrates the database and returns a pool that finds the server
// which takes writes.
func (r *Replication) Database() *pgxpool.Pool {
	t := r.Primary.t
	t.Helper()
	r.Primary.Database()
	return Open(t, r.URL)
}

// Follows returns when the standby has what the primary committed until now.
func (r *Replication) Follows() {
	r.Primary.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.Primary.URL)
	if err != nil {
		r.Primary.t.Fatal(err)
	}
	defer conn.Close(ctx)
	var until string
	if err := conn.QueryRow(ctx, `SELECT pg_current_wal_lsn()::text`).Scan(&until); err != nil {
		r.Primary.t.Fatal(err)
	}
	await(r.Primary.t, r.Primary, "the standby to catch up", `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE flush_lsn >= '`+until+`')`)
}

// Detach ends the standby's following: what the primary commits from now on the
// standby does not have.
func (r *Replication) Detach() {
	r.Primary.t.Helper()
	r.Standby.Set("primary_conninfo", "")
	await(r.Primary.t, r.Standby, "the standby to stop following", `SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)`)
}

// Promote makes the standby the server that takes writes.
func (r *Replication) Promote() { r.Standby.promote() }

// Backup takes a base backup of the running server into a server that is not
// started yet: as a standby, unless Restore comes first.
func (s *Server) Backup() *Server {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	dir, err := scratch.Dir("executor-backup-")
	if err != nil {
		s.t.Fatal(err)
	}
	other := newServer(s.t, dir)
	if err := s.running.Backup(ctx, dir); err != nil {
		s.t.Fatal(err)
	}
	return other
}

// Restore starts the server on the backup alone. Told to recover it does what a
// restore from an archive does, and begins a new timeline; else it goes on in the
// old one, as if it were the server that the backup was taken of.
func (s *Server) Restore(recover bool) {
	s.t.Helper()
	signal := filepath.Join(s.dir, "data", "standby.signal")
	var err error
	if recover {
		err = os.Rename(signal, filepath.Join(s.dir, "data", "recovery.signal"))
		s.configure("restore_command = '/bin/false'")
	} else {
		err = os.Remove(signal)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.Start()
	await(s.t, s, "the end of the recovery", `SELECT NOT pg_is_in_recovery()`)
}

// TakePlaceOf gives the server the address of one that was stopped.
func (s *Server) TakePlaceOf(other *Server) { s.port = other.port }

// configure adds a line to the configuration of a server that does not run.
func (s *Server) configure(line string) {
	s.t.Helper()
	file, err := os.OpenFile(filepath.Join(s.dir, "data", "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(line + "\n"); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the server as a failure of its machine would.
func (s *Server) Kill() { s.end((*postgres.Server).Kill) }

// Set changes a setting of the running server, and returns when it has taken it in.
func (s *Server) Set(name, value string) {
	s.t.Helper()
	s.exec(`ALTER SYSTEM SET ` + name + ` = '` + value + `'`)
	s.exec(`SELECT pg_reload_conf()`)
	await(s.t, s, name, `SELECT current_setting('`+name+`') = '`+value+`'`)
}

func (s *Server) exec(sql string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

// await asks the server until it says yes.
func await(t testing.TB, s *Server, what, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		if err := conn.QueryRow(ctx, sql).Scan(&yes); err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if yes {
			return
		}
		<-tick.C
	}
}

// Alone lets every commit wait for a standby that is not there.
func (s *Server) Alone() {
	s.t.Helper()
	s.Set("synchronous_standby_names", "missing")
	s.waits()
}

// waits returns when a commit really waits for a standby: the setting is read by
// another process of the server than the one that says what it is.
func (s *Server) waits() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	waiting := make(chan error, 1)
	writes, done := context.WithCancel(ctx)
	go func() {
		for writes.Err() == nil {
			if _, err := conn.Exec(ctx, `SELECT pg_logical_emit_message(true, 'testkit', '')`); err != nil {
				waiting <- err
				return
			}
		}
		waiting <- nil
	}()
	await(s.t, s, "a commit that waits for the standby", `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')`)
	done()
	stop := s.CancelWaits()
	defer stop()
	if err := <-waiting; err != nil {
		s.t.Fatal(err)
	}
}

// CancelWaits cancels every wait for a synchronous standby, as an impatient operator
// would, until stop is called.
func (s *Server) CancelWaits() (stop func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	var ended sync.WaitGroup
	ended.Go(func() {
		defer conn.Close(context.WithoutCancel(ctx))
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			// An error is the end of the server or of the test.
			if _, err := conn.Exec(ctx, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`); err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}
