package executor_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// permissive are the licences that a module may have. At most they ask that their
// notice, and changes to their own files, be passed on with the program.
var permissive = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "public domain"}

// TestLicencesOfTheModules looks at the licence file of every module that the
// program or a test is made of, and compares licences.txt with what it found.
func TestLicencesOfTheModules(t *testing.T) {
	program := moduleDirs(t, "./cmd/executor")
	all := moduleDirs(t, "-test", "./...")
	maps.DeleteFunc(all, func(path, _ string) bool { _, linked := program[path]; return linked })
	if len(program) < 20 || len(all) < 3 {
		t.Fatalf("%d and %d modules: go list is read wrongly", len(program), len(all))
	}
	const path = "licences.txt"
	want := "# The modules that the program is made of, and their licences. Made by:\n" +
		"#   go test . -run TestLicencesOfTheModules -update\n" +
		"# Copied into the project: web/static/htmx.min.js (0BSD); for tests, axe.min.js (MPL-2.0).\n" +
		licencesOf(t, program) + "\n# In tests only.\n" + licencesOf(t, all)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := readFile(t, path); got != want {
		t.Errorf("%s is not what the modules say; run go test . -run TestLicencesOfTheModules -update\nwant:\n%s", path, want)
	}
}

// moduleDirs maps the modules behind packages to where their source is. It asks
// for Linux, so that the answer is the same everywhere.
func moduleDirs(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}"}
	list := exec.Command("go", append(args, patterns...)...)
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, dir, found := strings.Cut(strings.TrimSpace(line), "\t"); found {
			dirs[path] = dir
		}
	}
	return dirs
}

// licencesOf writes a line for each module.
func licencesOf(t *testing.T, dirs map[string]string) string {
	t.Helper()
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(dirs)) {
		licences := licencesIn(t, dirs[path])
		if len(licences) == 0 {
			t.Errorf("%s has no licence that is known here, look at %s", path, dirs[path])
		}
		for _, licence := range licences {
			if !slices.Contains(permissive, licence) {
				t.Errorf("%s is under %s, which is not permissive", path, licence)
			}
		}
		fmt.Fprintf(&b, "%-60s%s\n", path, strings.Join(licences, " and "))
	}
	return b.String()
}

func licencesIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "[LlCcUu][IiOoNn]*"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		name := strings.ToLower(filepath.Base(file))
		if startsWithAny(name, []string{"licen", "copying", "unlicense"}) {
			for _, licence := range recognise(readFile(t, file)) {
				found[licence] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// recognise names the licences in a text by a phrase that each has, the strong
// ones among them, so that they are seen where they come in.
func recognise(text string) []string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(phrase string) bool { return strings.Contains(text, phrase) }
	bsd := has("redistributions of source code must retain")
	endorse := has("endorse or promote products")
	var found []string
	for _, l := range []struct {
		licence string
		is      bool
	}{
		{"Apache-2.0", has("apache license version 2.0") || has("apache license, version 2.0")},
		{"MIT", has("permission is hereby granted, free of charge, to any person obtaining a copy")},
		{"BSD-3-Clause", bsd && endorse},
		{"BSD-2-Clause", bsd && !endorse},
		{"ISC", has("permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted, provided")},
		{"0BSD", has("for any purpose with or without fee is hereby granted. the software")},
		{"MPL-2.0", has("mozilla public license version 2.0") || has("mozilla public license, version 2.0")},
		{"public domain", has("put into the public domain") || has("this is free and unencumbered software")},
		{"GPL", has("gnu general public license") && !has("mozilla public license")},
		{"LGPL", has("gnu lesser general public license") && !has("mozilla public license")},
		{"AGPL", has("gnu affero general public license") && !has("mozilla public license")},
		{"SSPL", has("server side public license")},
		{"BUSL", has("business source license")},
	} {
		if l.is {
			found = append(found, l.licence)
		}
	}
	return found
}

// Files of others that were copied into the project have the sum that the page
// beside them names, which is the one of the package they came from.
func TestCopiedFilesAreUnchanged(t *testing.T) {
	sum := regexp.MustCompile("SHA-256 of `([a-z.]+)`:\\s+`([0-9a-f]{64})`")
	for _, page := range []string{"web/static/README.md", "internal/testkit/browser/testdata/axe/README.md"} {
		found := sum.FindStringSubmatch(readFile(t, page))
		if found == nil {
			t.Errorf("%s names no sum", page)
			continue
		}
		is := sha256.Sum256([]byte(readFile(t, filepath.Join(filepath.Dir(page), found[1]))))
		if got := hex.EncodeToString(is[:]); got != found[2] {
			t.Errorf("%s has the sum %s, and %s says %s", found[1], got, page, found[2])
		}
	}
}

// A copied file that nobody listed would have no sum.
func TestEveryCopiedScriptIsListed(t *testing.T) {
	for _, path := range sourceFiles(t, ".js", ".wasm") {
		copied := strings.HasSuffix(path, ".min.js") || strings.HasSuffix(path, ".wasm")
		if copied && !slices.Contains([]string{"htmx.min.js", "axe.min.js"}, filepath.Base(path)) {
			t.Errorf("%s is not ours: say where it comes from, and its sum, as for the others", path)
		}
	}
}

// Modules come from the proxy with the sums of go.sum; none is replaced by
// something else.
func TestNoModuleIsReplaced(t *testing.T) {
	for _, path := range []string{"go.mod", "tools/go.mod"} {
		if regexp.MustCompile(`(?m)^replace\b|=>`).MatchString(readFile(t, path)) {
			t.Errorf("%s replaces a module", path)
		}
	}
}
