package executor_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "executor"

// levels is the direction of imports: a package may import those on lower
// levels, never one beside it or above.
var levels = map[string]int{
	"outcome":   0,
	"upstreams": 1,
	"commands":  2,
	"attempts":  3, "reconcile": 3, "webhooks": 3,
	"api": 4, "web": 4,
	"cmd":   5,
	"bench": 6, // uses everything, nothing uses it
}

// apart are the packages outside of the levels. They know nothing of the
// levelled ones, and of each other only what is listed.
var apart = map[string][]string{
	"":                     {},
	"client":               {}, // no types of api: the wire format is tested twice
	"migrations":           {},
	"examples":             {}, // profiles
	"internal/postgres":    {},
	"internal/apikeys":     {"internal/audit", "internal/groupcommit", "internal/postgres"},
	"internal/audit":       {"internal/postgres"},
	"internal/bodyfiles":   {},
	"internal/clientaddr":  {},
	"internal/due":         {},
	"internal/egress":      {},
	"internal/groupcommit": {"internal/postgres"},
	"internal/operators":   {"internal/audit", "internal/clientaddr", "internal/groupcommit", "internal/postgres"},
	"internal/seal":        {},
	"internal/seats":       {},
	"internal/simulator":   {},
	"internal/upload":      {},
	"internal/testkit":     {"internal/postgres", "migrations"},

	"internal/testkit/tenants": {
		"attempts", "commands", "outcome", "reconcile", "upstreams", "webhooks",
		"internal/apikeys", "internal/audit", "internal/egress", "internal/operators", "internal/seal", "internal/testkit",
	},
	"internal/testkit/hostile": {},
	"internal/testkit/browser": {}, // apart from testkit too: tests without a database use it
}

// testOnly are packages that no product code imports, but for the named files
// of cmd/executor.
var testOnly = map[string][]string{
	"internal/testkit":         nil,
	"internal/testkit/browser": nil,
	"internal/testkit/tenants": nil,
	"internal/testkit/hostile": nil,
	"internal/simulator":       {"dev", "demo", "simulator"},
}

// goPackage is what go list tells of a package, without its tests.
type goPackage struct {
	ImportPath string
	Imports    []string
}

// listPackages asks for every package, also those that do not compile.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-e", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// room is the part of the project that a package belongs to: the first element
// of its path, or the first two below internal, unless it is set apart by
// itself. Foreign packages have none.
func room(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	rest, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return "", false
	}
	if _, byItself := apart[rest]; byItself {
		return rest, true
	}
	elements := strings.SplitN(rest, "/", 3)
	if elements[0] == "internal" && len(elements) > 1 {
		return "internal/" + elements[1], true
	}
	return elements[0], true
}

func TestEveryPackageHasItsPlace(t *testing.T) {
	for _, p := range listPackages(t) {
		from, _ := room(p.ImportPath)
		_, levelled := levels[from]
		_, outside := apart[from]
		if !levelled && !outside {
			t.Errorf("%s has no place: give it a level, or set it apart", p.ImportPath)
		}
	}
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, path := range p.Imports {
			if to, ours := room(path); ours && !mayImport(p.ImportPath, to) {
				t.Errorf("%s imports %s: imports point down", p.ImportPath, path)
			}
		}
	}
}

// mayImport tells whether the arrow from a package to another room is allowed.
func mayImport(importer, to string) bool {
	from, _ := room(importer)
	if from == to {
		return true
	}
	fromLevel, levelled := levels[from]
	toLevel, toLevelled := levels[to]
	switch {
	case levelled && toLevelled:
		return fromLevel > toLevel
	case levelled:
		return from != "outcome"
	default:
		return slices.Contains(apart[from], to)
	}
}

func TestOutcomeImportsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range listPackages(t) {
		if from, _ := room(p.ImportPath); from != "outcome" {
			continue
		}
		for _, path := range p.Imports {
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") || first == module {
				t.Errorf("%s imports %s", p.ImportPath, path)
			}
		}
	}
}

// Only direct imports matter: what would bring a test package in by a detour is
// product code that imports it.
func TestTestPackagesStayOutOfTheProduct(t *testing.T) {
	for _, path := range sourceFiles(t, ".go") {
		dir := filepath.ToSlash(filepath.Dir(path))
		if isTest(path) || strings.HasPrefix(dir, "tools") || strings.HasPrefix(dir, "bench") {
			continue
		}
		from, _ := room(module + "/" + dir)
		if _, forTests := testOnly[from]; forTests {
			continue
		}
		for _, importPath := range imported(parseFile(t, path)) {
			to, ours := room(importPath)
			files, restricted := testOnly[to]
			if !ours || !restricted || from == to {
				continue
			}
			if dir != "cmd/executor" || !startsWithAny(filepath.Base(path), files) {
				t.Errorf("%s imports %s, which is for tests", path, importPath)
			}
		}
	}
}

func startsWithAny(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func TestMayImport(t *testing.T) {
	for _, tt := range []struct {
		importer, to string
		want         bool
	}{
		{"executor/cmd/executor", "api", true},
		{"executor/api", "commands", true},
		{"executor/api", "web", false},
		{"executor/attempts", "reconcile", false},
		{"executor/commands", "attempts", false},
		{"executor/outcome", "internal/postgres", false},
		{"executor/attempts", "internal/egress", true},
		{"executor/internal/egress", "upstreams", false},
		{"executor/client", "api", false},
		{"executor/internal/testkit/withpg", "internal/postgres", true},
		{"executor/internal/testkit/browser", "internal/testkit", false},
	} {
		if got := mayImport(tt.importer, tt.to); got != tt.want {
			t.Errorf("mayImport(%s, %s) = %v, want %v", tt.importer, tt.to, got, tt.want)
		}
	}
}
