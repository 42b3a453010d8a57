// Vulncheck scans the project for known vulnerabilities that its code reaches.
//
//	go -C tools run ./vulncheck file:///path/to/data/osv .. ./...
//
// It fails on every one that is not in allowed.txt. Those of the standard
// library are reported only: which patch release of Go builds the program is
// for whoever builds it to choose.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/vuln/scan"
)

// allowedText has one vulnerability a line: its ID, and why it does not matter
// here.
//
//go:embed allowed.txt
var allowedText string

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: vulncheck DATABASE-URL DIRECTORY PACKAGE…")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

func run(database, dir string, packages []string) error {
	var out bytes.Buffer
	cmd := scan.Command(context.Background(), append([]string{"-format", "json", "-db", database, "-C", dir}, packages...)...)
	cmd.Stdout = &out
	if err := errors.Join(cmd.Start(), cmd.Wait()); err != nil {
		return fmt.Errorf("scan: %w\n%s", err, out.String())
	}
	found, err := read(&out)
	if err != nil {
		return err
	}
	allowed, err := parseAllowed(allowedText)
	if err != nil {
		return err
	}
	return judge(found, allowed)
}

// vulnerability is one that the code reaches.
type vulnerability struct {
	id, module, version, fixed, summary string
}

const standardLibrary = "stdlib"

// message is one value of govulncheck's JSON stream.
type message struct {
	OSV *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
	} `json:"osv"`
	Finding *struct {
		OSV          string `json:"osv"`
		FixedVersion string `json:"fixed_version"`
		Trace        []struct {
			Module   string `json:"module"`
			Version  string `json:"version"`
			Function string `json:"function"`
		} `json:"trace"`
	} `json:"finding"`
}

// read collects the vulnerabilities whose code is called, by ID.
func read(r io.Reader) (map[string]vulnerability, error) {
	found, summaries := map[string]vulnerability{}, map[string]string{}
	decoder := json.NewDecoder(r)
	for {
		var m message
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the scan's result: %w", err)
		}
		if m.OSV != nil {
			summaries[m.OSV.ID] = m.OSV.Summary
		}
		if f := m.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Function != "" {
			found[f.OSV] = vulnerability{f.OSV, f.Trace[0].Module, f.Trace[0].Version, f.FixedVersion, ""}
		}
	}
	for id, v := range found {
		v.summary = summaries[id]
		found[id] = v
	}
	return found, nil
}

func parseAllowed(text string) (map[string]string, error) {
	allowed := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("allowed.txt: %s has no reason", id)
		}
		allowed[id] = strings.TrimSpace(reason)
	}
	return allowed, nil
}

// judge prints what was found, with the reason why it passes or that it does
// not. An exception that nothing needs any more fails too.
func judge(found map[string]vulnerability, allowed map[string]string) error {
	var failed []string
	for _, id := range slices.Sorted(maps.Keys(found)) {
		v := found[id]
		verdict := "NOT ALLOWED"
		switch reason, ok := allowed[id]; {
		case v.module == standardLibrary:
			verdict = "fixed by building with a newer patch release of Go"
		case ok:
			verdict = "allowed: " + reason
		default:
			failed = append(failed, id)
		}
		fmt.Printf("%s %s@%s (fixed in %s) %s: %s\n", id, v.module, v.version, v.fixed, v.summary, verdict)
	}
	for id := range allowed {
		if _, ok := found[id]; !ok {
			failed = append(failed, id+" (in allowed.txt, but not found any more)")
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not allowed: %s", strings.Join(failed, ", "))
	}
	fmt.Printf("%d known vulnerabilities are reached, none of them without a reason\n", len(found))
	return nil
}
