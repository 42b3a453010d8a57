package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binaries is a directory with initdb and postgres of one version.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(program string) string { return filepath.Join(b.dir, program) }

// usualPlaces are where packages put the programs of the server, which most
// keep off PATH because several versions may be installed.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin",                          // Debian, Ubuntu
	"/usr/pgsql-*/bin",                                   // the PostgreSQL project's RPMs
	"/usr/libexec/postgresql*",                           // Alpine
	"/opt/homebrew/opt/postgresql*/bin",                  // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",                     // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin", // Postgres.app
	"/opt/local/lib/postgresql*/bin",                     // MacPorts
	"/usr/local/pgsql/bin",                               // built from source
	"/usr/bin", "/usr/local/bin",
}

// installed lists directories that have an initdb, best first: PATH, then the
// usual places, newest version first. Links are followed, since the server
// finds its other files beside the real program.
func installed(extra ...string) []string {
	var dirs []string
	add := func(initdb string) {
		real, err := filepath.EvalSymlinks(initdb)
		if err == nil && !slices.Contains(dirs, filepath.Dir(real)) {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, dir := range extra {
		add(filepath.Join(dir, "initdb"))
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		add(initdb)
	}
	for _, place := range usualPlaces {
		found, _ := filepath.Glob(filepath.Join(place, "initdb"))
		slices.SortFunc(found, newestFirst)
		for _, initdb := range found {
			add(initdb)
		}
	}
	return dirs
}

var numbers = regexp.MustCompile(`\d+`)

// newestFirst orders paths by the numbers in them, so that 17 comes before 9.6.
func newestFirst(a, b string) int {
	x, y := numbers.FindAllString(a, -1), numbers.FindAllString(b, -1)
	return slices.CompareFunc(y, x, func(m, n string) int {
		i, _ := strconv.Atoi(m)
		j, _ := strconv.Atoi(n)
		return cmp.Compare(i, j)
	})
}

// inspect asks initdb about itself. It finds out whether a postgres of exactly
// its version lies beside it, and where the files are that both need; packages
// of the client alone bring neither.
func inspect(ctx context.Context, as account, dir string) (binaries, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	initdb := filepath.Join(dir, "initdb")
	out, err := as.command(ctx, "/", initdb, "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("%s --version: %w", initdb, err)
	}
	major, err := majorVersion(string(out))
	if err != nil {
		return binaries{}, fmt.Errorf("%s: %w", initdb, err)
	}
	if major < MinVersion/10_000 {
		return binaries{}, fmt.Errorf("%s is version %d, which is too old: %d or newer is needed", initdb, major, MinVersion/10_000)
	}
	settings, err := as.command(ctx, "/", initdb, "--show", "-D", "/nonexistent").CombinedOutput()
	if err != nil {
		return binaries{}, fmt.Errorf("%s --show: %w: %s", initdb, err, oneLine(settings))
	}
	share := sharePath.FindSubmatch(settings)
	if share == nil {
		return binaries{}, fmt.Errorf("%s does not tell where its files are: %s", initdb, oneLine(settings))
	}
	if _, err := os.Stat(filepath.Join(string(share[1]), "postgres.bki")); err != nil {
		return binaries{}, fmt.Errorf("%s is incomplete: %w", initdb, err)
	}
	return binaries{dir: dir, major: major}, nil
}

var (
	sharePath   = regexp.MustCompile(`(?m)^share_path=(.+)$`)
	versionText = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)
)

// majorVersion reads "initdb (PostgreSQL) 15.18 …".
func majorVersion(text string) (int, error) {
	match := versionText.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("no PostgreSQL version in %q", strings.TrimSpace(text))
	}
	return strconv.Atoi(match[1])
}

// usable are the installed binaries that work. If there are none the error
// tells why each one was passed over.
func usable(ctx context.Context, as account, extra ...string) ([]binaries, error) {
	var good []binaries
	var bad []error
	for _, dir := range installed(extra...) {
		found, err := inspect(ctx, as, dir)
		if err != nil {
			bad = append(bad, err)
			continue
		}
		good = append(good, found)
	}
	if len(good) == 0 {
		return nil, errors.Join(append([]error{errNoBinaries}, bad...)...)
	}
	return good, nil
}

var errNoBinaries = errors.New("no PostgreSQL server is installed on this machine")

func oneLine(out []byte) string {
	return strings.Join(strings.Fields(string(out)), " ")
}
