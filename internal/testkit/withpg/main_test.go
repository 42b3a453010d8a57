package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// awaitFile returns what the command wrote, as soon as it has.
func awaitFile(t *testing.T, path string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if text, err := os.ReadFile(path); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s was never written", path)
		}
	}
}

func TestRunGivesTheCommandAServerAndKeepsItsCode(t *testing.T) {
	said := filepath.Join(t.TempDir(), "url")
	code, err := run([]string{"sh", "-c", `echo "$EXECUTOR_TEST_DATABASE_URL" > "$0"; exit 7`, said}, nil)
	if err != nil || code != 7 {
		t.Errorf("run = %d, %v; want 7", code, err)
	}
	url := awaitFile(t, said)
	if !strings.HasPrefix(url, "postgres://") {
		t.Errorf("the command was given %q", url)
	}
	if conn, err := pgx.Connect(context.Background(), url); err == nil {
		conn.Close(context.Background())
		t.Error("the server still runs")
	}
}

func TestSignalsReachTheCommandAndNothingOfItIsLeft(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	signals := make(chan os.Signal)
	ended := make(chan int)
	go func() {
		code, err := supervise([]string{"sh", "-c",
			`trap 'exit 5' TERM; (trap '' TERM; exec sleep 600) & echo $! > "$0"; wait`, file}, os.Environ(), signals)
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	child, err := strconv.Atoi(awaitFile(t, file))
	if err != nil {
		t.Fatal(err)
	}
	signals <- syscall.SIGTERM
	if code := <-ended; code != 5 {
		t.Errorf("exit code %d, want the command's own 5", code)
	}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for running(child) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("a process that the command left still runs")
		}
	}
}

// running tells whether the process does anything any more: where nobody
// collects the dead they keep their number.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func TestExitCodes(t *testing.T) {
	for name, tt := range map[string]struct {
		command []string
		want    int
		fails   bool
	}{
		"success":           {[]string{"true"}, 0, false},
		"failure":           {[]string{"sh", "-c", "exit 3"}, 3, false},
		"killed":            {[]string{"sh", "-c", "kill -KILL $$"}, 137, false},
		"no such command":   {[]string{"/nonexistent"}, 127, true},
		"no command at all": {nil, 2, true},
	} {
		code, err := 0, error(nil)
		if tt.command == nil {
			code, err = run(nil, nil)
		} else {
			code, err = supervise(tt.command, os.Environ(), nil)
		}
		if code != tt.want || (err != nil) != tt.fails {
			t.Errorf("%s: %d, %v; want %d", name, code, err, tt.want)
		}
	}
}
