package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// noProcess is above every number that a kernel gives to a process.
const noProcess = 99_999_999

// stopLeftover ends a server that outlived the process that started it. We hold
// the directory's lock, so a server that runs on the data has no owner any more.
func stopLeftover(ctx context.Context, data string, log *slog.Logger) error {
	pidFile := filepath.Join(data, "postmaster.pid")
	pid, rest, err := readPIDFile(pidFile)
	if err != nil || pid <= 0 {
		return err
	}
	if !alive(pid) {
		return nil // the server removes the file itself, after it looked for surviving children
	}
	if !serves(ctx, pid, data) {
		// The number was given to another process since. The server would take that one
		// for its predecessor and refuse to start; a number that nobody has makes it go
		// by the shared memory instead, which is the check that protects the data.
		return os.WriteFile(pidFile, []byte(strconv.Itoa(noProcess)+"\n"+rest), 0o600)
	}
	log.Warn("stopping a PostgreSQL that an earlier process left running", "pid", pid, "data", data)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the PostgreSQL left running as process %d: %w", pid, err)
		}
		if gone(ctx, pid, stopBound) {
			return nil
		}
	}
	return fmt.Errorf("the PostgreSQL left running as process %d does not end: stop it by hand", pid)
}

// readPIDFile returns the number in the first line and what follows it; 0 where
// there is no file.
func readPIDFile(path string) (pid int, rest string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0, "", nil // cut short; the server knows what to do with it
	}
	return max(pid, -pid), rest, nil // negative: a server in single-user mode
}

// alive tells whether the process exists, ours or another user's. One that has
// ended and that nobody has collected yet is not alive: in a container without an
// init process the dead keep their number.
func alive(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // Linux only
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ") // behind the name in brackets
	return !strings.HasPrefix(state, "Z")
}

// serves tells whether the process is a PostgreSQL on the data directory, by
// its command line.
func serves(ctx context.Context, pid int, data string) bool {
	var line []byte
	var err error
	if runtime.GOOS == "linux" {
		line, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	} else {
		line, err = exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	}
	return err == nil && strings.Contains(string(line), "postgres") && strings.Contains(string(line), data)
}

// gone waits for the end of a process that is not our child.
func gone(ctx context.Context, pid int, bound time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return !alive(pid)
		}
	}
	return true
}
