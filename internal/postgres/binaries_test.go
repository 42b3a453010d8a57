package postgres

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// fakePrograms makes a directory with an initdb that is a script.
func fakePrograms(t *testing.T, script string) string {
	t.Helper()
	dir := serverDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "initdb"), "#!/bin/sh\n"+script)
	return dir
}

const sayVersion = `[ "$1" = --version ] && echo "initdb (PostgreSQL) 15.1" && exit 0` + "\n"

func TestInspectPassesOverIncompletePrograms(t *testing.T) {
	as, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ script, want string }{
		"it cannot run":   {"exit 126", "--version"},
		"no version":      {"echo hello", "no PostgreSQL version"},
		"too old":         {"echo 'initdb (PostgreSQL) 9.6.24'", "too old"},
		"no postgres":     {sayVersion + `echo 'program "postgres" is needed by initdb' >&2; exit 1`, "is needed by initdb"},
		"no other files":  {sayVersion + `echo share_path=/nonexistent/share >&2`, "incomplete"},
		"says nothing":    {sayVersion + `exit 0`, "does not tell where its files are"},
		"wrong file type": {sayVersion + `echo share_path=/etc/passwd >&2`, "incomplete"},
	} {
		dir := fakePrograms(t, tt.script)
		if _, err := inspect(t.Context(), as, dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.want)
		}
	}
}

func TestUsableFallsBackToTheNextPrograms(t *testing.T) {
	as, err := serverAccount()
	if err != nil {
		t.Fatal(err)
	}
	broken := fakePrograms(t, "exit 1")
	t.Setenv("PATH", broken+":"+os.Getenv("PATH"))
	found, err := usable(t.Context(), as)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(found, func(b binaries) bool { return b.dir == broken }) {
		t.Errorf("the broken programs in %s count as usable", broken)
	}
}

func TestNewestFirst(t *testing.T) {
	got := []string{"/usr/lib/postgresql/9.6/bin", "/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/15/bin"}
	slices.SortFunc(got, newestFirst)
	want := []string{"/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/9.6/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestMajorVersion(t *testing.T) {
	for text, want := range map[string]int{
		"initdb (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 19devel\n":                      19,
		"postgres (PostgreSQL) 18beta1":                        18,
	} {
		if got, err := majorVersion(text); err != nil || got != want {
			t.Errorf("majorVersion(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestFetchingSaysWhyItIsImpossible(t *testing.T) {
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	root := account{name: "user postgres", credential: &syscall.Credential{Uid: 1, Gid: 1}}
	for name, tt := range map[string]struct {
		as         account
		repository string
		want       string
	}{
		"as root":                {root, empty.URL, "not fetched either when root asks"},
		"no such version":        {account{}, empty.URL, "fetch PostgreSQL"},
		"no way to where it is":  {account{}, away.URL, "unable to connect"},
		"a repository of no use": {account{}, "http://127.0.0.1:0", "unable to connect"},
	} {
		dir := serverDir(t)
		config := DevConfig{Dir: dir, Log: discard()}
		if err := obtain(t.Context(), tt.as, config, tt.repository); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "fetched")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: remains were left behind", name)
		}
	}
}
