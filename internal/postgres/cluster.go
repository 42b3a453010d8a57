package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ensureCluster returns the programs that fit the data in the directory and the
// superuser's password. Where there is no data yet it creates it with the first
// programs that can.
func ensureCluster(ctx context.Context, as account, found []binaries, config DevConfig) (binaries, string, error) {
	data, secret := filepath.Join(config.Dir, "data"), filepath.Join(config.Dir, "password")
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err == nil {
		return existing(found, strings.TrimSpace(string(version)), data, secret)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return binaries{}, "", err
	}
	password, err := ensurePassword(secret, as)
	if err != nil {
		return binaries{}, "", err
	}
	var failed []error
	for _, programs := range found {
		err := initialise(ctx, as, programs, config)
		if err == nil {
			return programs, password, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	return binaries{}, "", errors.Join(failed...)
}

// existing opens data that is there already.
func existing(found []binaries, version, data, secret string) (binaries, string, error) {
	password, err := os.ReadFile(secret)
	if err != nil {
		return binaries{}, "", fmt.Errorf("read the password that belongs to %s: %w; without it, remove the directory to start anew", data, err)
	}
	programs, err := matching(found, version, data)
	return programs, strings.TrimSpace(string(password)), err
}

// matching finds programs of the version that made the data: another major
// version cannot read it.
func matching(found []binaries, version, data string) (binaries, error) {
	var have []string
	for _, programs := range found {
		if strconv.Itoa(programs.major) == version {
			return programs, nil
		}
		have = append(have, strconv.Itoa(programs.major))
	}
	return binaries{}, fmt.Errorf("%s was made by PostgreSQL %s, and installed is %s: install that version, or remove the directory to start anew",
		data, version, strings.Join(have, ", "))
}

// initialise makes the data directory under another name first, so that one cut
// short is never taken for a whole one.
func initialise(ctx context.Context, as account, programs binaries, config DevConfig) error {
	draft := filepath.Join(config.Dir, "data.new")
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	args := []string{"-D", draft, "--username", superuser, "--pwfile", filepath.Join(config.Dir, "password"),
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C"}
	if config.NoFsync {
		args = append(args, "--no-sync")
	}
	out, err := as.command(ctx, config.Dir, programs.path("initdb"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", programs.path("initdb"), err, tail(string(out), 10))
	}
	return os.Rename(draft, filepath.Join(config.Dir, "data"))
}

// ensurePassword reads the superuser's password or makes one. It is written
// before the data that it opens.
func ensurePassword(path string, as account) (string, error) {
	text, err := os.ReadFile(path)
	if password := strings.TrimSpace(string(text)); err == nil && password != "" {
		return password, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	password := rand.Text()
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return "", err
	}
	return password, as.chown(path)
}
