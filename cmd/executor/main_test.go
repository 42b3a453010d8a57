package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// runMain makes the test binary be the executor.
const runMain = "EXECUTOR_TEST_RUN_MAIN"

// demandDurable has the executor that the test binary is refuse a database that may
// forget. Those of the tests may: they live in memory, and no machine of theirs fails.
const demandDurable = "EXECUTOR_TEST_DEMAND_DURABLE"

func TestMain(m *testing.M) {
	if os.Getenv(demandDurable) == "" {
		onlyDurable = func(context.Context, *pgxpool.Pool) error { return nil }
	}
	if os.Getenv(runMain) != "" {
		main()
		return
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set(strconv.Itoa(max(parallel, runtime.GOMAXPROCS(0))))
	}
	os.Exit(m.Run())
}

// parallel is how many tests run at once: they mostly wait for the trouble they
// make to take its time.
const parallel = 4

// patience bounds every wait for something that must happen. It is generous: a
// test fails for what happened, not for how long it took.
const patience = 2 * time.Minute

// Process is an executor of its own, a child of the test.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *transcript
	stderr *transcript
	ended  chan struct{}
	code   int // once ended; -1 = by a signal
}

// startExecutor starts the program as a child, with the given variables added
// to a bare environment. It is killed at the end of the test if it still runs.
func startExecutor(t testing.TB, args []string, env map[string]string) *Process {
	t.Helper()
	p := &Process{t: t, stdout: newTranscript(), stderr: newTranscript(), ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = []string{runMain + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	for name, value := range env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr = p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.reap()
	t.Cleanup(p.cleanup)
	return p
}

func (p *Process) reap() {
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		p.code = exit.ExitCode()
	}
	close(p.ended)
	p.stdout.close()
	p.stderr.close()
}

func (p *Process) cleanup() {
	select {
	case <-p.ended:
	default:
		p.Kill()
	}
	if p.t.Failed() {
		p.t.Logf("executor %s\nstdout:\n%s\nstderr:\n%s", strings.Join(p.cmd.Args[1:], " "), p.stdout, p.stderr)
	}
}

// Signal sends sig to the process.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatalf("signal %v: %v", sig, err)
	}
}

// Kill ends the process as a crash would, and waits until it is gone.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Wait waits for the end of the process and returns its exit code.
func (p *Process) Wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
		return p.code
	case <-time.After(patience):
		p.t.Fatal("the process did not end")
		return -1
	}
}

// Log waits for the first line of the JSON log whose message is msg.
func (p *Process) Log(msg string) map[string]any {
	p.t.Helper()
	var found map[string]any
	ok := p.stderr.await(func(text string) bool {
		for line := range strings.Lines(text) {
			var entry map[string]any
			if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == msg {
				found = entry
				return true
			}
		}
		return false
	})
	if !ok {
		p.t.Fatalf("no log line %q; stderr:\n%s", msg, p.stderr)
	}
	return found
}

// URL is where the process serves its API, once it does.
func (p *Process) URL() string {
	p.t.Helper()
	return p.Log("serving")["url"].(string)
}

// MetricsURL is where the process serves its metrics.
func (p *Process) MetricsURL() string {
	p.t.Helper()
	return p.Log("serving")["metrics_url"].(string)
}

// Stdout waits until what the process printed contains text, and returns all of it.
func (p *Process) Stdout(text string) string {
	p.t.Helper()
	if !p.stdout.await(func(s string) bool { return strings.Contains(s, text) }) {
		p.t.Fatalf("stdout has no %q:\n%s\nstderr:\n%s", text, p.stdout, p.stderr)
	}
	return p.stdout.String()
}

// transcript is a growing text that one can wait on.
type transcript struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed and replaced at each write
	done    bool
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changed)
	t.changed = make(chan struct{})
	return t.text.Write(b)
}

func (t *transcript) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = true
	close(t.changed)
	t.changed = make(chan struct{})
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// await waits until ok holds of the text, the text is complete, or patience ends.
func (t *transcript) await(ok func(string) bool) bool {
	deadline := time.After(patience)
	for {
		t.mu.Lock()
		text, changed, done := t.text.String(), t.changed, t.done
		t.mu.Unlock()
		if ok(text) {
			return true
		}
		if done {
			return false
		}
		select {
		case <-changed:
		case <-deadline:
			return false
		}
	}
}

// result is what one command line gave.
type result struct {
	code           int
	stdout, stderr string
}

// execute runs a command line inside the test, in an environment of its own.
func execute(t testing.TB, env map[string]string, args ...string) result {
	t.Helper()
	return executeIn(t, env, "", args...)
}

// executeIn is execute with something on stdin.
func executeIn(t testing.TB, env map[string]string, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, world{
		in: io.NopCloser(strings.NewReader(stdin)), out: &stdout, err: &stderr,
		getenv: func(name string) string { return env[name] },
	})
	return result{code, stdout.String(), stderr.String()}
}

// must fails the test unless the command line ended with code.
func (r result) must(t testing.TB, code int) result {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, r.stdout, r.stderr)
	}
	return r
}

// decode reads what was printed as JSON.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return v
}
