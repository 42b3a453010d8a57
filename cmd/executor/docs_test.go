package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const repository = "../../"

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// listPages lists what people read, examples and their comments too.
func listPages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "examples/*.yaml", "examples/*/*"} {
		found, err := filepath.Glob(repository + pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing matches %s: %v", pattern, err)
		}
		for _, path := range found {
			list = append(list, strings.TrimPrefix(filepath.ToSlash(path), repository))
		}
	}
	return list
}

// pageSection is what stands on a page under a heading of the second level.
func pageSection(t *testing.T, path, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(readPage(t, path), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", path, heading)
	}
	part, _, _ := strings.Cut(rest, "\n## ")
	return part
}

// invocations finds the program in a console line, in a code span and in a unit.
var invocations = regexp.MustCompile("(?:\\$ (?:[A-Z_]+=\\S+ )*|`|ExecStart=\\S*/|\"|&& |^ {4})(?:go run \\./cmd/executor|executor) ([a-z][^`\"|<>\n]*)")

// What the pages tell people to type is there.
func TestCommandsAndFlagsInThePagesExist(t *testing.T) {
	program := newRootCommand(func(string) string { return "" })
	program.InitDefaultHelpCmd()
	program.InitDefaultCompletionCmd()
	seen := 0
	for _, path := range listPages(t) {
		for _, match := range invocations.FindAllStringSubmatch(readPage(t, path), -1) {
			seen++
			words := strings.Fields(match[1])
			command, _, err := program.Find(words)
			if err != nil || command == program {
				t.Errorf("%s: there is no command %q", path, "executor "+match[1])
				continue
			}
			for _, word := range words {
				name, isFlag := strings.CutPrefix(word, "--")
				name, _, _ = strings.Cut(name, "=")
				if isFlag && name != "help" && command.Flags().Lookup(name) == nil {
					t.Errorf("%s: %s has no flag --%s (%s)", path, command.CommandPath(), name, match[1])
				}
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d commands were found in the pages", seen)
	}
}

var settingRow = regexp.MustCompile("(?m)^\\| `(EXECUTOR_[A-Z_]+)` \\| `--([a-z-]+)` \\| ([^|]*)\\|")

// settingInManual is one row of the table of the configuration.
type settingInManual struct{ flag, standard string }

func TestTheTableOfTheConfigurationIsTheProgrammes(t *testing.T) {
	documented := map[string]settingInManual{}
	for _, match := range settingRow.FindAllStringSubmatch(pageSection(t, "docs/operators.md", "Configuration"), -1) {
		documented[match[1]] = settingInManual{match[2], canonicalDefault(strings.TrimSpace(match[3]))}
	}
	real := map[string]settingInManual{}
	newServeCommand(func(string) string { return "" }).Flags().VisitAll(func(f *pflag.Flag) {
		for _, variable := range f.Annotations[envAnnotation] {
			real[variable] = settingInManual{f.Name, canonicalDefault(f.DefValue)}
		}
	})
	for _, variable := range slices.Sorted(maps.Keys(real)) {
		if documented[variable] != real[variable] {
			t.Errorf("docs/operators.md has %s as %+v, it is %+v", variable, documented[variable], real[variable])
		}
	}
	for variable := range documented {
		if _, ok := real[variable]; !ok {
			t.Errorf("docs/operators.md has %s, which serve does not know", variable)
		}
	}
}

// canonicalDefault writes a default in one way: 15m and 15m0s are the same.
func canonicalDefault(s string) string {
	if d, err := time.ParseDuration(s); err == nil {
		return d.String()
	}
	return strings.Trim(s, "[]")
}

func TestEveryVariableStandsInTheManual(t *testing.T) {
	manual := readPage(t, "docs/operators.md")
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			for _, variable := range f.Annotations[envAnnotation] {
				if !strings.Contains(manual, "`"+variable+"`") {
					t.Errorf("docs/operators.md does not have %s, which %s reads", variable, c.CommandPath())
				}
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(func(string) string { return "" }))
}

func TestTheTableOfExitCodes(t *testing.T) {
	var documented []string
	for _, match := range regexp.MustCompile(`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(pageSection(t, "docs/integrators.md", "The command line"), -1) {
		documented = append(documented, match[1])
	}
	var real []string
	for _, code := range []int{
		exitSuccess, exitFailure, exitUsage, exitNotFound, exitAuthentication, exitRejected, exitUnresolved, exitCancelled, exitStillRunning, exitInterrupted,
	} {
		real = append(real, strconv.Itoa(code))
	}
	if !slices.Equal(documented, real) {
		t.Errorf("docs/integrators.md lists the exit codes %v, they are %v", documented, real)
	}
}

// What decide and explain print on the pages is what they print.
func TestTheOutputsOfThePages(t *testing.T) {
	decide := pageSection(t, "docs/decisions.md", "Ask it yourself")
	facts := linesWith(decide, `{"deadline"`)
	if got, want := printedBy(t, strings.Join(facts, "\n"), "decide"), linesWith(decide, `{"decision"`); !slices.Equal(got, want) {
		t.Errorf("decide prints\n%s\nthe page has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := printedBy(t, "", "decide", "--check", repository+"outcome/testdata/decide.jsonl"); !strings.Contains(decide, "\n"+got[0]+"\n") {
		t.Errorf("decide --check prints %q", got[0])
	}

	shop := filepath.Join(t.TempDir(), "shop.yaml")
	blocks := regexp.MustCompile("(?ms)^```yaml\n(version: 1\n.*?)^```$").FindAllStringSubmatch(readPage(t, "docs/profiles.md"), -1)
	if err := os.WriteFile(shop, []byte(blocks[1][1]), 0o600); err != nil {
		t.Fatal(err)
	}
	explained := printedBy(t, "", "profiles", "explain", shop)
	_, block, _ := strings.Cut(pageSection(t, "docs/profiles.md", "Read explain"), "explain shop.yaml\n")
	block, _, _ = strings.Cut(block, "```")
	for _, line := range strings.Split(strings.TrimSpace(block), "\n") {
		if !slices.Contains(explained, line) {
			t.Errorf("explain does not print %q", line)
		}
	}
}

// linesWith are those of a text that begin so.
func linesWith(text, prefix string) []string {
	var list []string
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, prefix) {
			list = append(list, line)
		}
	}
	return list
}

// printedBy runs the program and gives the lines of its output.
func printedBy(t *testing.T, in string, args ...string) []string {
	t.Helper()
	var out, complaints bytes.Buffer
	code := run(context.Background(), args, world{in: strings.NewReader(in), out: &out, err: &complaints, getenv: func(string) string { return "" }})
	if code != exitSuccess {
		t.Fatalf("executor %s: exit code %d: %s", strings.Join(args, " "), code, complaints.String())
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

// What validate says of the first profile of the page is what the page shows.
func TestTheWarningsOfThePage(t *testing.T) {
	page := readPage(t, "docs/profiles.md")
	_, profile, _ := strings.Cut(page, "```yaml\nversion: 1\n")
	profile, _, _ = strings.Cut(profile, "```")
	t.Chdir(t.TempDir())
	if err := os.WriteFile("shop.yaml", []byte("version: 1\n"+profile), 0o600); err != nil {
		t.Fatal(err)
	}
	r := execute(t, nil, "profiles", "validate", "shop.yaml").must(t, exitSuccess)
	if shown := "$ executor profiles validate shop.yaml\n" + r.stderr + r.stdout + "```"; !strings.Contains(page, shown) {
		t.Errorf("the page does not show:\n%s", shown)
	}
	if codes := linesWith(r.stderr, "warning no_lookup  shop.yaml:6:3: "); len(codes) != 1 {
		t.Errorf("a warning has no code: %q", r.stderr)
	}
}
