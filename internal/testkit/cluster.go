package testkit

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/postgres"
	"executor/internal/testkit/scratch"
)

// Server is a PostgreSQL of one test's own, to be stopped and started while
// something uses it. It keeps its address, and what was committed is on disk.
type Server struct {
	URL string // of its empty database "executor"

	t       testing.TB
	dir     string
	port    int
	running *postgres.Server
}

// Cluster starts a server that is gone after the test.
func Cluster(t testing.TB) *Server {
	t.Helper()
	dir, err := scratch.Dir("executor-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, dir)
	s.Start()
	return s
}

// newServer is a server that is not started yet, on a directory that is gone after
// the test.
func newServer(t testing.TB, dir string) *Server {
	s := &Server{t: t, dir: dir}
	t.Cleanup(func() {
		s.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Start starts the server again, at the address it had before.
func (s *Server) Start() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	running, err := postgres.Start(ctx, postgres.DevConfig{Dir: s.dir, Port: s.port})
	if err != nil {
		s.t.Fatal(err)
	}
	s.running, s.port, s.URL = running, running.Port, running.URL
}

// Stop shuts the server down and breaks off what its clients are doing.
func (s *Server) Stop() { s.end((*postgres.Server).Stop) }

// Crash ends the server without any of what a shutdown does.
func (s *Server) Crash() { s.end((*postgres.Server).Crash) }

func (s *Server) end(how func(*postgres.Server) error) {
	s.t.Helper()
	if s.running == nil {
		return
	}
	if err := how(s.running); err != nil {
		s.t.Error(err)
	}
	s.running = nil
}

// Database migrates the server's database and returns a pool on it.
func (s *Server) Database() *pgxpool.Pool {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := migrate(ctx, s.URL); err != nil {
		s.t.Fatal(err)
	}
	return Open(s.t, s.URL)
}

// Promote lets the server come back as a standby would that takes over: on a new
// timeline, with whatever was committed. It must have been stopped.
func (s *Server) Promote() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "data", "standby.signal"), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.Start()
	s.promote()
}

// promote lets a standby that runs take over. It returns when that is done.
func (s *Server) promote() {
	s.t.Helper()
	s.exec(`SELECT pg_promote()`)
}
