package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"executor/internal/testkit/scratch"
)

// childEnv makes the test binary start a server in the directory it names, and
// wait to be killed.
const childEnv = "POSTGRES_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	os.Exit(m.Run())
}

func child(dir string) {
	server, err := Start(context.Background(), DevConfig{Dir: dir, NoFsync: true, Remove: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(server.cmd.Process.Pid)
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // until killed
	os.Exit(0)
}

// serverDir is a directory that the server's user may enter; those of
// testing.TB are closed to it.
func serverDir(t *testing.T) string {
	t.Helper()
	dir, err := scratch.Dir("executor-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func startServer(t *testing.T, config DevConfig) *Server {
	t.Helper()
	server, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// query runs one statement that returns one text.
func query(t *testing.T, url, sql string) string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	var text string
	if err := conn.QueryRow(ctx, sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func execute(t *testing.T, url, sql string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for a state of the machine that nothing announces.
func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !reached() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("still not so: %s", what)
		}
	}
}

func TestServerIsPrivateAndKeepsItsData(t *testing.T) {
	dir := serverDir(t)
	server := startServer(t, DevConfig{Dir: dir})
	for setting, want := range map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"fsync":                   "on",
		"full_page_writes":        "on",
		"server_encoding":         "UTF8",
		"port":                    strconv.Itoa(server.Port),
	} {
		if got := query(t, server.URL, `SHOW `+setting); got != want {
			t.Errorf("%s = %q, want %q", setting, got, want)
		}
	}
	conn, err := pgx.Connect(t.Context(), loopbackURL(server.Port, "wrong", database))
	if err == nil {
		conn.Close(t.Context())
		t.Error("a wrong password was accepted")
	}
	execute(t, server.URL, `CREATE TABLE kept AS SELECT 'still here' AS word`)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Errorf("stopped again: %v", err)
	}
	again := startServer(t, DevConfig{Dir: dir, Port: server.Port})
	if again.URL != server.URL {
		t.Errorf("the URL changed over a restart")
	}
	if got := query(t, again.URL, `SELECT word FROM kept`); got != "still here" {
		t.Errorf("the data is %q", got)
	}
}

func TestADirectoryHasOneServer(t *testing.T) {
	server := startServer(t, DevConfig{Dir: serverDir(t), NoFsync: true})
	_, err := Start(t.Context(), DevConfig{Dir: server.Dir})
	if want := fmt.Sprintf("in use by process %d", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("second start: %v, want one with %q", err, want)
	}
}

func TestAServerLeftRunningIsReplaced(t *testing.T) {
	orphan := startServer(t, DevConfig{Dir: serverDir(t), NoFsync: true})
	_ = orphan.guard.cmd.Process.Kill() // nothing but the server is left
	orphan.lock.Close()
	server := startServer(t, DevConfig{Dir: orphan.Dir, NoFsync: true})
	select {
	case <-orphan.Exited():
	default:
		t.Error("the orphan still runs")
	}
	query(t, server.URL, `SELECT 'it answers'`)
}

func TestTheServerEndsWithTheProcessThatStartedIt(t *testing.T) {
	dir := serverDir(t)
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), childEnv+"="+dir)
	parent.Stderr = os.Stderr
	if _, err := parent.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the child said %q: %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	eventually(t, "the server has ended", func() bool { return !alive(pid) })
	eventually(t, "its directory is removed", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}

func TestStartAfterTheServerWasKilled(t *testing.T) {
	dir := serverDir(t)
	killed := startServer(t, DevConfig{Dir: dir})
	execute(t, killed.URL, `CREATE TABLE kept AS SELECT 'committed' AS word`)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.Exited()
	if err := killed.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "data", "postmaster.pid")); err != nil {
		t.Fatalf("the killed server left no trace: %v", err)
	}
	server := startServer(t, DevConfig{Dir: dir})
	if got := query(t, server.URL, `SELECT word FROM kept`); got != "committed" {
		t.Errorf("the data is %q", got)
	}
}

func TestStartWhereTheNumberOfTheDeadServerWasGivenAway(t *testing.T) {
	dir := serverDir(t)
	killed := startServer(t, DevConfig{Dir: dir, NoFsync: true})
	_ = killed.cmd.Process.Kill()
	if err := killed.Stop(); err != nil {
		t.Fatal(err)
	}
	as, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	other := as.command(t.Context(), "/", "sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	_, rest, err := readPIDFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pidFile, fmt.Appendf(nil, "%d\n%s", other.Process.Pid, rest), 0o600); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, DevConfig{Dir: dir, NoFsync: true})
	query(t, server.URL, `SELECT 'it answers'`)
	if !alive(other.Process.Pid) {
		t.Error("the process that has the number now was ended")
	}
}

func TestAHalfMadeDataDirectoryIsMadeAnew(t *testing.T) {
	dir := serverDir(t)
	for _, half := range []string{"data.new/base", "data.new/global"} {
		if err := os.MkdirAll(filepath.Join(dir, half), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	server := startServer(t, DevConfig{Dir: dir, NoFsync: true})
	query(t, server.URL, `SELECT 'it answers'`)
}

func TestStartExplains(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, dir string)
		port    int
		want    string
	}{
		"a taken port": {
			port: busy.Addr().(*net.TCPAddr).Port,
			want: "choose another port",
		},
		"a directory of something else": {
			prepare: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "thesis.txt"), "mine") },
			want:    "holds no data of ours",
		},
		"data of another version": {
			prepare: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "password"), "x")
				write(t, filepath.Join(dir, "data", "PG_VERSION"), "9.6\n")
			},
			want: "was made by PostgreSQL 9.6",
		},
		"a lost password": {
			prepare: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "data", "PG_VERSION"), "15\n") },
			want:    "remove the directory to start anew",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := serverDir(t)
			if tt.prepare != nil {
				tt.prepare(t, dir)
			}
			server, err := Start(t.Context(), DevConfig{Dir: dir, Port: tt.port, NoFsync: true})
			if err == nil {
				server.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Start = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestStopWhileClientsAreConnected(t *testing.T) {
	server := startServer(t, DevConfig{Dir: serverDir(t), NoFsync: true, Remove: true})
	conn, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(server.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was not removed: %v", err)
	}
}

func TestTheAccountMustReachTheDirectory(t *testing.T) {
	closed := filepath.Join(serverDir(t), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	stranger := account{name: "user stranger", credential: &syscall.Credential{Uid: 4_000_000, Gid: 4_000_000}}
	err := stranger.canEnter(filepath.Join(closed, "data"))
	if err == nil || !strings.Contains(err.Error(), "user stranger cannot enter "+closed) {
		t.Errorf("canEnter = %v, want an error that names %s", err, closed)
	}
	if err := (account{}).canEnter(filepath.Join(closed, "data")); err != nil {
		t.Errorf("for the current user: %v", err)
	}
}
