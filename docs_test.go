package executor_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"executor/commands"
	"executor/internal/postgres"
	"executor/outcome"
	"executor/reconcile"
)

var update = flag.Bool("update", false, "rewrite what the documents take from the code")

// documents are the pages that people read, by their paths from the root.
func documents(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	more, err := filepath.Glob("docs/*.md")
	if err != nil || len(more) == 0 {
		t.Fatalf("no pages in docs: %v", err)
	}
	return append(pages, more...)
}

// between cuts out what stands between two marks that stand once each.
func between(t *testing.T, path, from, to string) (before, inside, after string) {
	t.Helper()
	before, rest, found := strings.Cut(readFile(t, path), from)
	inside, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", path, from, to)
	}
	return before, inside, after
}

func TestTheDrawingOfTheStates(t *testing.T) {
	const (
		path  = "docs/decisions.md"
		start = "-->\n```text\n" // of the comment that says how to make it
		end   = "```\n<!-- /transitions -->"
	)
	before, got, after := between(t, path, start, end)
	want := drawTransitions(outcome.Transitions())
	switch {
	case got == want:
	case *update:
		if err := os.WriteFile(path, []byte(before+start+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the drawing in %s is not the table of outcome; run go test . -run TestTheDrawingOfTheStates -update\nwant:\n%s", path, want)
	}
}

// drawTransitions writes a line for each state and each thing that moves a
// command out of it, in the order of the table.
func drawTransitions(table []outcome.Transition) string {
	var b strings.Builder
	for _, from := range outcome.States() {
		name := string(from)
		for _, by := range movers(table, from) {
			var to []string
			for _, t := range table {
				if t.From == from && t.By == by {
					to = append(to, string(t.To))
				}
			}
			fmt.Fprintf(&b, "%-12s%-12s──► %s\n", name, by, strings.Join(to, " | "))
			name = ""
		}
	}
	return b.String()
}

func movers(table []outcome.Transition, from outcome.State) []string {
	var list []string
	for _, t := range table {
		if t.From == from && !slices.Contains(list, t.By) {
			list = append(list, t.By)
		}
	}
	return list
}

// Words of the code that a page promises to explain stand in it, as code.
func TestThePagesKnowTheWordsOfTheCode(t *testing.T) {
	for path, lists := range map[string][][]string{
		"docs/decisions.md": {
			words(outcome.Evidences()), words(outcome.Answers()), words(outcome.Boundaries()), words(outcome.States()), words(outcome.Reasons()),
			words(outcome.OutcomeReasons()), words(outcome.Deciders()), words(outcome.Findings()), constantsOf(t, "commands", "WaitFor"), constantsOf(t, "commands", "CancelResult"),
		},
		"docs/profiles.md": {
			words(outcome.Idempotencies()), words(outcome.Answers()), words(outcome.Jitters()), words(outcome.WhenEmpties()), warningCodes(t),
		},
		"docs/integrators.md": {
			constantsOf(t, "api", "ProblemCode"), words([]outcome.State{outcome.StateSuccess, outcome.StateRejected, outcome.StateUnresolved, outcome.StateCancelled}),
		},
		"docs/operators.md": {metricNames(t), constantsOf(t, "reconcile", "ReportKind"), reconcile.ReviewKinds(), handedReasons(t)},
	} {
		known := wordsIn(readFile(t, path))
		for _, list := range lists {
			if len(list) == 0 {
				t.Errorf("%s: a list of words is empty: the test does not find them", path)
			}
			for _, word := range list {
				if !known[word] {
					t.Errorf("%s does not explain %s", path, word)
				}
			}
		}
	}
}

// Codes and names that the pages list are those of the code, and no others.
func TestThePagesNameNothingThatIsNotThere(t *testing.T) {
	for path, rows := range map[string]struct {
		heading string
		list    []string
	}{
		"docs/profiles.md":    {"## Warnings", warningCodes(t)},
		"docs/integrators.md": {"## Problems", constantsOf(t, "api", "ProblemCode")},
		"docs/operators.md":   {"## Metrics", metricNames(t)},
	} {
		_, part, _ := between(t, path, "\n"+rows.heading+"\n", "\n## ")
		for _, match := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(part, -1) {
			if !slices.Contains(rows.list, match[1]) {
				t.Errorf("%s lists %s under %q, which the code does not know", path, match[1], rows.heading)
			}
		}
	}
	named := regexp.MustCompile(`\bexecutor_[a-z_]+`)
	for _, path := range sourceFiles(t, ".yml") {
		for _, name := range named.FindAllString(readFile(t, path), -1) {
			if !slices.ContainsFunc(metricNames(t), func(metric string) bool { return strings.HasPrefix(name, metric) }) {
				t.Errorf("%s uses the metric %s, which the code does not have", path, name)
			}
		}
	}
}

// warningCodes lists the codes of the warnings about profiles.
func warningCodes(t *testing.T) []string {
	t.Helper()
	return matches(t, "upstreams/*.go", regexp.MustCompile(`\br\.warn\("([a-z_]+)"`))
}

// handedReasons lists why a doubt is handed to a person.
func handedReasons(t *testing.T) []string {
	t.Helper()
	return append(matches(t, "reconcile/doubt.go", regexp.MustCompile(`\bReview[A-Z]\w* += "([a-z_]+)"`)), commands.ReviewNoLookup)
}

// metricNames lists our own metrics.
func metricNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, file := range []string{"cmd/executor/metrics.go", "attempts/metrics.go", "commands/store.go", "commands/quota.go", "reconcile/store.go", "webhooks/metrics.go"} {
		names = append(names, matches(t, file, regexp.MustCompile(`"(executor_[a-z_]+)"`))...)
	}
	return names
}

// matches lists what the first group of a pattern finds in files, each once.
func matches(t *testing.T, glob string, pattern *regexp.Regexp) []string {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range files {
		if isTest(path) {
			continue
		}
		for _, match := range pattern.FindAllStringSubmatch(readFile(t, path), -1) {
			found[match[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// wordsIn lists the words in the code spans and code blocks of a page.
func wordsIn(page string) map[string]bool {
	found := map[string]bool{}
	for _, code := range regexp.MustCompile("(?s)```.*?```|`[^`\n]+`").FindAllString(page, -1) {
		for _, word := range regexp.MustCompile(`[a-z0-9_]+`).FindAllString(code, -1) {
			found[word] = true
		}
	}
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
)

func TestLinksBetweenThePagesLead(t *testing.T) {
	anchors := map[string][]string{} // of the pages with links to a place in them
	for _, page := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(readFile(t, page), ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
				continue
			}
			if anchor != "" && anchors[path] == nil {
				anchors[path] = anchorsOf(readFile(t, path))
			}
			if anchor != "" && !slices.Contains(anchors[path], anchor) {
				t.Errorf("%s links to %s, and %s has no such heading", page, match[1], path)
			}
		}
	}
}

// anchorsOf names the headings of a page as hosts of Markdown do: lower case,
// spaces to dashes, punctuation away.
func anchorsOf(page string) []string {
	var list []string
	for _, match := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		list = append(list, strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '-'
			case unicode.IsLetter(c), unicode.IsDigit(c), c == '-', c == '_':
				return unicode.ToLower(c)
			default:
				return -1
			}
		}, match[1]))
	}
	return list
}

func TestEveryPageIsLinkedFromTheReadme(t *testing.T) {
	readme := readFile(t, "README.md")
	for _, page := range documents(t) {
		if page != "README.md" && page != "CHANGELOG.md" && !strings.Contains(readme, "]("+filepath.ToSlash(page)+")") {
			t.Errorf("README.md does not lead to %s", page)
		}
	}
}

// The pages ask for the PostgreSQL that the program asks for.
func TestThePagesNameTheOldestPostgreSQL(t *testing.T) {
	asked := regexp.MustCompile(`PostgreSQL (\d+) or newer`)
	want, seen := strconv.Itoa(postgres.MinVersion/10_000), 0
	for _, page := range documents(t) {
		for _, match := range asked.FindAllStringSubmatch(readFile(t, page), -1) {
			if seen++; match[1] != want {
				t.Errorf("%s says %q, the program needs %s", page, match[0], want)
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d places name the version", seen)
	}
}
