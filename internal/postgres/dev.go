package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// startBound is generous: programs may have to be fetched, and a server that was
	// killed recovers first.
	startBound = 5 * time.Minute
	// stopBound is how long a fast shutdown may take before it is cut short.
	stopBound = 10 * time.Second
	// portTries is how often another process may snatch the port between our
	// finding it free and the server's taking it.
	portTries = 5
	// dyingPause is how long to give the orphans of a killed server before trying
	// again; they notice within moments.
	dyingPause = 200 * time.Millisecond

	superuser = "executor"
	database  = "executor"
)

// DevConfig describes a server for development or tests.
type DevConfig struct {
	// Dir holds everything of the server: data, password and log. Empty means
	// DefaultDir. It belongs to one running server at a time.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// NoFsync trades the data's surviving a crash of the machine for speed. For
	// tests only.
	NoFsync bool
	// Remove deletes Dir when the server has stopped, also after the death of
	// this process.
	Remove bool
	Log    *slog.Logger // nil: nothing is logged
}

// Server is a running PostgreSQL that listens on loopback only and ends with
// this process, however that ends. It also ends when it is garbage collected:
// keep it for as long as it is needed.
type Server struct {
	URL  string // of the database "executor", with the password
	Dir  string
	Port int

	config DevConfig
	lock   *os.File
	cmd    *exec.Cmd
	exited chan struct{}
	guard  *guard
}

// Start runs a server on the data in config.Dir, which it creates if need be.
// A server that an earlier process left running there is stopped first. The
// context bounds the start, not the server's life.
//
// The programs are those installed on this machine; where there are none they
// are fetched once, into Dir. As root the server runs as another user.
func Start(ctx context.Context, config DevConfig) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, startBound)
	defer cancel()
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	server, err := start(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return server, nil
}

func start(ctx context.Context, config DevConfig) (*Server, error) {
	as, err := serverAccount()
	if err != nil {
		return nil, err
	}
	if config.Dir, err = prepareDir(config.Dir, as); err != nil {
		return nil, err
	}
	lock, err := lockDir(config.Dir)
	if err != nil {
		return nil, err
	}
	server := &Server{Dir: config.Dir, config: config, lock: lock}
	if err := server.launch(ctx, as); err != nil {
		lock.Close()
		return nil, err
	}
	config.Log.Info("PostgreSQL is running", "port", server.Port, "dir", server.Dir, "user", as.name)
	return server, nil
}

// launch makes the data directory ready and starts the program on it.
func (s *Server) launch(ctx context.Context, as account) error {
	if err := stopLeftover(ctx, s.data(), s.config.Log); err != nil {
		return err
	}
	found, err := findBinaries(ctx, as, s.config)
	if err != nil {
		return err
	}
	programs, password, err := ensureCluster(ctx, as, found, s.config)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err = s.run(ctx, as, programs, password)
		switch {
		case errors.Is(err, errPortTaken) && s.config.Port == 0 && try < portTries:
		case errors.Is(err, errDying) && pause(ctx, dyingPause): // until ctx ends
		default:
			return err
		}
	}
}

// pause waits and tells whether there is time left to go on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *Server) data() string { return filepath.Join(s.config.Dir, "data") }

func (s *Server) logFile() string { return filepath.Join(s.config.Dir, "postgres.log") }

// run starts the program once and returns when it answers or has given up.
func (s *Server) run(ctx context.Context, as account, programs binaries, password string) error {
	port, err := choosePort(s.config.Port)
	if err != nil {
		return err
	}
	output, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer output.Close()
	// Not bound to ctx, which ends with the start.
	cmd := as.command(context.WithoutCancel(ctx), s.config.Dir, programs.path("postgres"), s.arguments(port)...)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.Port, s.exited = cmd, port, make(chan struct{})
	exited := s.exited
	go func() {
		_ = cmd.Wait() // how it ended stands in its log
		close(exited)
	}()
	if s.guard, err = startGuard(as, cmd.Process.Pid, s.removable()); err != nil {
		return errors.Join(err, s.halt())
	}
	s.URL = loopbackURL(port, password, database)
	if err := s.ready(ctx, loopbackURL(port, password, "postgres")); err != nil {
		return errors.Join(err, s.halt(), s.guard.dismiss())
	}
	return nil
}

func (s *Server) removable() string {
	if s.config.Remove {
		return s.config.Dir
	}
	return ""
}

// arguments override the cluster's configuration file. No Unix socket: its path
// is limited to about 100 bytes, and one way in is enough.
func (s *Server) arguments(port int) []string {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"port=" + strconv.Itoa(port),
		"unix_socket_directories=",
		"max_connections=200",
		"logging_collector=off",
		"log_destination=stderr",
		"timezone=UTC",
		"log_timezone=UTC",
	}
	if s.config.NoFsync {
		settings = append(settings, "fsync=off", "full_page_writes=off")
	}
	args := []string{"-D", s.data()}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// ready waits until the server answers as ours: another one may have been
// faster to take the port.
func (s *Server) ready(ctx context.Context, url string) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	exited := s.exited
	go func() {
		select {
		case <-exited: // so what answers on the port is not ours
			cancel()
		case <-asking.Done():
		}
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ensureDatabase(asking, url, s.data())
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-exited:
			return s.startFailure()
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer in time (%w): %v; its log is %s", ctx.Err(), err, s.logFile())
		}
	}
}

var (
	errPortTaken = errors.New("the port is taken")
	errDying     = errors.New("children of a killed server still use its memory")
)

// startFailure explains why the program ended, by its own last words.
func (s *Server) startFailure() error {
	said, _ := os.ReadFile(s.logFile())
	if strings.Contains(string(said), "could not bind") {
		return fmt.Errorf("%w: another program listens on 127.0.0.1:%d; choose another port", errPortTaken, s.Port)
	}
	if strings.Contains(string(said), "shared memory block") {
		return fmt.Errorf("%w; see %s", errDying, s.logFile())
	}
	return fmt.Errorf("the server gave up; the end of %s:\n%s", s.logFile(), tail(string(said), 10))
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// ensureDatabase connects, makes sure that the server is the one on dir, and
// creates our database if it is not there.
func ensureDatabase(ctx context.Context, url, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var serves string
	var exists bool
	err = conn.QueryRow(ctx, `
		SELECT current_setting('data_directory'), EXISTS (SELECT FROM pg_database WHERE datname = $1)`,
		database).Scan(&serves, &exists)
	if err != nil {
		return err
	}
	if serves != dir {
		return fmt.Errorf("the server on this port serves %s", serves)
	}
	if exists {
		return nil
	}
	_, err = conn.Exec(ctx, `CREATE DATABASE `+pgx.Identifier{database}.Sanitize())
	return err
}

func loopbackURL(port int, password, database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

func choosePort(wanted int) (int, error) {
	if wanted != 0 {
		return wanted, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// Exited is closed when the server's process has ended, asked to or not.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Stop ends the server: fast, which breaks off what clients are doing, and
// immediately when that takes too long. It may be called again.
func (s *Server) Stop() error {
	if s.lock == nil {
		return nil
	}
	err := errors.Join(s.halt(), s.guard.dismiss())
	if s.config.Remove {
		err = errors.Join(err, os.RemoveAll(s.config.Dir))
	}
	s.lock.Close()
	s.lock = nil
	if err != nil {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	return nil
}

// Crash ends the server as a failure of its process would: nothing is flushed,
// and the next start recovers from the log.
func (s *Server) Crash() error {
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	return s.Stop()
}

// halt signals the server until its process is gone.
func (s *Server) halt() error {
	for _, step := range []struct {
		signal syscall.Signal
		bound  time.Duration
	}{
		{syscall.SIGINT, stopBound},      // fast
		{syscall.SIGQUIT, stopBound / 2}, // immediate
		{syscall.SIGKILL, stopBound / 2},
	} {
		_ = s.cmd.Process.Signal(step.signal) // gone already: the channel tells
		select {
		case <-s.exited:
			return nil
		case <-time.After(step.bound):
		}
	}
	return fmt.Errorf("process %d does not end", s.cmd.Process.Pid)
}
