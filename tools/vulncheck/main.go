// Vulncheck scans the project for known vulnerabilities that its code reaches,
// and the modules of the tools for any at all.
//
//	go -C tools run ./vulncheck file:///path/to/data/osv .. ./...
//
// It fails on every one that has no reason in allowed.txt, or one whose last day
// is over. An exception that nothing needs any more fails too, but for those of
// the standard library: which patch release of Go builds the program is for
// whoever builds it to choose.
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
	"time"

	"golang.org/x/vuln/scan"
)

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
	allowed, err := parseAllowed(allowedText)
	if err != nil {
		return err
	}
	product, err := scanFor(database, append([]string{"-C", dir}, packages...)...)
	if err != nil {
		return err
	}
	tools, err := scanFor(database, "-C", "vulncheck", "-scan", "module")
	if err != nil {
		return err
	}
	found := called(product)
	for id, v := range tools {
		if v.module != standardLibrary { // the program's scan knows which of its functions are called
			found[id] = v
		}
	}
	return judge(found, allowed, time.Now())
}

// scanFor runs govulncheck and reads what it found.
func scanFor(database string, args ...string) (map[string]vulnerability, error) {
	var out bytes.Buffer
	cmd := scan.Command(context.Background(), append([]string{"-format", "json", "-db", database}, args...)...)
	cmd.Stdout = &out
	if err := errors.Join(cmd.Start(), cmd.Wait()); err != nil {
		return nil, fmt.Errorf("scan: %w\n%s", err, out.String())
	}
	return read(&out)
}

// vulnerability is one that a module in use has.
type vulnerability struct {
	id, module, version, fixed, summary string
	called                              bool // a function that has it is reached
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

// read collects the vulnerabilities by ID.
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
		if f := m.Finding; f != nil && len(f.Trace) > 0 {
			called := found[f.OSV].called || f.Trace[0].Function != ""
			found[f.OSV] = vulnerability{f.OSV, f.Trace[0].Module, f.Trace[0].Version, f.FixedVersion, "", called}
		}
	}
	for id, v := range found {
		v.summary = summaries[id]
		found[id] = v
	}
	return found, nil
}

// called are those whose code is reached.
func called(found map[string]vulnerability) map[string]vulnerability {
	found = maps.Clone(found)
	maps.DeleteFunc(found, func(_ string, v vulnerability) bool { return !v.called })
	return found
}

// exception is a line of allowed.txt.
type exception struct {
	module string
	until  time.Time // its last day
	reason string
}

func parseAllowed(text string) (map[string]exception, error) {
	allowed := map[string]exception{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 4 {
			return nil, fmt.Errorf("allowed.txt: %q is not an ID, a module, a last day and a reason", line)
		}
		until, err := time.Parse(time.DateOnly, words[2])
		if err != nil {
			return nil, fmt.Errorf("allowed.txt: the last day of %s: %w", words[0], err)
		}
		allowed[words[0]] = exception{words[1], until, strings.Join(words[3:], " ")}
	}
	return allowed, nil
}

// judge prints what was found, with the reason why it passes or that it does
// not.
func judge(found map[string]vulnerability, allowed map[string]exception, now time.Time) error {
	var failed []string
	for _, id := range slices.Sorted(maps.Keys(found)) {
		v, e := found[id], allowed[id]
		verdict := "allowed: " + e.reason
		switch {
		case e.module != v.module:
			verdict = "NOT ALLOWED"
			failed = append(failed, id)
		case now.After(e.until.AddDate(0, 0, 1)):
			verdict = "NOT ALLOWED ANY MORE, look at it again: " + e.reason
			failed = append(failed, id+" (allowed until "+e.until.Format(time.DateOnly)+")")
		}
		fmt.Printf("%s %s@%s (fixed in %s) %s: %s\n", id, v.module, v.version, v.fixed, v.summary, verdict)
	}
	for _, id := range slices.Sorted(maps.Keys(allowed)) {
		if _, ok := found[id]; !ok && allowed[id].module != standardLibrary {
			failed = append(failed, id+" (in allowed.txt, but not found any more)")
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not allowed: %s", strings.Join(failed, ", "))
	}
	fmt.Printf("%d known vulnerabilities, none of them without a reason\n", len(found))
	return nil
}
