package executor_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// threats is how many there are to answer for.
const threats = 40

// TestEveryThreatIsAnswered: the page on security names each threat once, what stands
// against it and what shows it; and every test and file that it names exists.
func TestEveryThreatIsAnswered(t *testing.T) {
	_, part, _ := between(t, "docs/security.md", "\n## Threats\n", "\n## What the database has to hold\n")
	var numbers []int
	for _, section := range strings.Split(part, "\n#### ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		digits, _, _ := strings.Cut(title, ". ")
		number, err := strconv.Atoi(digits)
		if err != nil {
			t.Errorf("%q has no number", title)
		}
		numbers = append(numbers, number)
		control, tests, shown := strings.Cut(text, "**Tests.**")
		if !shown || !strings.Contains(control, "**Control.**") {
			t.Errorf("threat %q has no control or no tests", title)
		}
		if checkTests(t, title, tests) == 0 {
			t.Errorf("threat %q names no test", title)
		}
		checkFiles(t, title, section)
	}
	checkTests(t, "of the rest", readFile(t, "docs/security.md"))
	slices.Sort(numbers)
	want := make([]int, threats)
	for i := range want {
		want[i] = i + 1
	}
	if !slices.Equal(numbers, want) {
		t.Errorf("the page answers the threats %v, want 1 to %d once each", numbers, threats)
	}
}

var (
	spans    = regexp.MustCompile("`([^`]+)`")
	testName = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
)

// checkTests counts the tests that a text names. Each stands after the folder of its
// package.
func checkTests(t *testing.T, title, text string) (count int) {
	t.Helper()
	folder := ""
	for _, span := range spans.FindAllStringSubmatch(text, -1) {
		if !testName.MatchString(span[1]) {
			if info, err := os.Stat(span[1]); err == nil && info.IsDir() {
				folder = span[1]
			}
			continue
		}
		count++
		if folder == "" || !hasTest(t, folder, span[1]) {
			t.Errorf("threat %q: the package %q has no %s", title, folder, span[1])
		}
	}
	return count
}

// hasTest reports whether a test of the folder's package has the name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ` + name + `\([tf] `)
	return slices.ContainsFunc(files, func(file string) bool { return declared.MatchString(readFile(t, file)) })
}

// checkFiles: what looks like a path of the project is one.
func checkFiles(t *testing.T, title, text string) {
	t.Helper()
	path := regexp.MustCompile(`^\.?[a-z][a-z_]*(/[a-z_.]+)+$|^[a-z]+\.(go|mod|sum|txt|md)$`)
	for _, span := range spans.FindAllStringSubmatch(text, -1) {
		if !path.MatchString(span[1]) {
			continue
		}
		if _, err := os.Stat(span[1]); err != nil {
			t.Errorf("threat %q names %s: %v", title, span[1], err)
		}
	}
}
