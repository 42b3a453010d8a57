package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Backup takes a base backup of the running server into dir, which becomes a
// directory that Start can run: as a standby that follows this server, or as a
// server of its own if the file standby.signal in its data is removed first.
func (s *Server) Backup(ctx context.Context, dir string) error {
	as, err := serverAccount()
	if err != nil {
		return err
	}
	if dir, err = prepareDir(dir, as); err != nil {
		return err
	}
	config := s.config
	found, err := findBinaries(ctx, as, config)
	if err != nil {
		return err
	}
	programs, password, err := ensureCluster(ctx, as, found, config)
	if err != nil {
		return err
	}
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password+"\n"), 0o600); err != nil {
		return err
	}
	if err := as.chown(secret); err != nil {
		return err
	}
	from := loopbackURL(s.Port, password, "postgres") + "&application_name=standby"
	cmd := as.command(ctx, dir, programs.path("pg_basebackup"), "--dbname", from, "--pgdata", filepath.Join(dir, "data"),
		"--wal-method", "stream", "--checkpoint", "fast", "--write-recovery-conf")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup (it comes with PostgreSQL's client programs): %w\n%s", err, tail(string(out), 10))
	}
	return nil
}

// Kill ends the server as a failure of its machine would: none of its processes
// does anything more.
func (s *Server) Kill() error {
	pid := s.cmd.Process.Pid
	children := childrenOf(pid)
	err := syscall.Kill(pid, syscall.SIGKILL)
	for _, child := range children {
		if gone := syscall.Kill(child, syscall.SIGKILL); gone != nil && !errors.Is(gone, syscall.ESRCH) {
			err = errors.Join(err, gone)
		}
	}
	return errors.Join(err, s.Stop())
}

// childrenOf are the processes that a process started; none where the system does
// not tell, and then they end by themselves, at their next step.
func childrenOf(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var list []int
	for _, word := range strings.Fields(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			list = append(list, child)
		}
	}
	return list
}
