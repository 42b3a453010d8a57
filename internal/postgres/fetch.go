package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	embedded "github.com/fergusstrange/embedded-postgres"
)

// fetchVersion is the PostgreSQL that is fetched where none is installed.
const fetchVersion = embedded.V17

// findBinaries returns the server programs of this machine, or fetches some.
func findBinaries(ctx context.Context, as account, config DevConfig) ([]binaries, error) {
	fetched := filepath.Join(config.Dir, "fetched", "bin")
	found, err := usable(ctx, as, fetched)
	if err == nil {
		return found, nil
	}
	if !errors.Is(err, errNoBinaries) {
		return nil, err
	}
	if fetchErr := obtain(ctx, as, config, ""); fetchErr != nil {
		return nil, fmt.Errorf("%w\n%w\n%s", err, fetchErr, installAdvice)
	}
	return usable(ctx, as, fetched)
}

// obtain fetches programs, unless we are root: whoever runs as root installs
// what it runs from a packager that it trusts, and the library cannot start a
// server for root.
func obtain(ctx context.Context, as account, config DevConfig, repository string) error {
	if as.credential != nil {
		return errors.New("it is not fetched either when root asks")
	}
	config.Log.Info("no PostgreSQL is installed; fetching one", "version", string(fetchVersion), "dir", config.Dir)
	if err := fetch(ctx, config.Dir, repository); err != nil {
		return errors.Join(fmt.Errorf("fetch PostgreSQL %s: %w", fetchVersion, err),
			os.RemoveAll(filepath.Join(config.Dir, "fetched")))
	}
	return nil
}

const installAdvice = "install the server programs, for example with: " +
	"apt-get install postgresql (Debian, Ubuntu), dnf install postgresql-server (Fedora), " +
	"apk add postgresql (Alpine) or brew install postgresql (macOS); " +
	"or name a running server in EXECUTOR_DATABASE_URL"

// fetch brings the programs into dir/fetched. The library knows fetching only
// as a part of starting, so it starts a throw-away server and stops it again.
// repository is where from; empty means the library's own choice.
func fetch(ctx context.Context, dir, repository string) error {
	port, err := choosePort(0)
	if err != nil {
		return err
	}
	scratch := filepath.Join(dir, "fetch")
	defer os.RemoveAll(scratch)
	config := embedded.DefaultConfig().
		Version(fetchVersion).
		Port(uint32(port)).
		CachePath(filepath.Join(scratch, "cache")).
		RuntimePath(filepath.Join(scratch, "run")).
		BinariesPath(filepath.Join(dir, "fetched")).
		StartParameters(map[string]string{"listen_addresses": "127.0.0.1", "unix_socket_directories": ""}).
		StartTimeout(time.Minute).
		Logger(io.Discard)
	if repository != "" {
		config = config.BinaryRepositoryURL(repository)
	}
	server := embedded.NewDatabase(config)
	started := make(chan error, 1)
	go func() {
		err := server.Start()
		if err == nil {
			err = server.Stop()
		}
		started <- err
	}()
	select {
	case err := <-started:
		return err
	case <-ctx.Done():
		return ctx.Err() // the library cannot be interrupted
	}
}
