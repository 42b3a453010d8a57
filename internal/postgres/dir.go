package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// rootDir is where the data lies by default when root starts the server: the
// homes of users are closed to the user that it then runs as.
const rootDir = "/var/lib/executor"

// DefaultDir is where Start keeps its data if it is not told.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return rootDir, nil
	}
	if data := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return filepath.Join(data, "executor"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the data: %w; name a directory", err)
	}
	return filepath.Join(home, ".local", "share", "executor"), nil
}

// prepareDir creates the directory for the account and returns its real path.
func prepareDir(dir string, as account) (string, error) {
	var err error
	if dir == "" {
		if dir, err = DefaultDir(); err != nil {
			return "", err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	if err := refuseForeign(dir); err != nil {
		return "", err
	}
	if err := as.own(dir); err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	return dir, as.canEnter(dir)
}

// refuseForeign keeps us from taking over a directory that holds something
// else, since it changes hands to the server's user.
func refuseForeign(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch entry.Name() {
		case "lock", "password", "data": // ours
			return nil
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty and holds no data of ours: choose a new directory", dir)
	}
	return nil
}

// lockDir reserves the directory for this process. The lock ends with the
// process, so it never goes stale.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(lock.Name())
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s is in use by process %s: stop that one, or choose another directory",
				dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := lock.Truncate(0); err != nil {
		lock.Close()
		return nil, err
	}
	if _, err := fmt.Fprintf(lock, "%d\n", os.Getpid()); err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}
