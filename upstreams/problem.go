package upstreams

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Problem is one thing wrong with a profile. Line and Column count from 1.
type Problem struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`    // such as operations.create_payment.retry
	Message string `json:"message"` // what is wrong
	Help    string `json:"help"`    // what to do about it; may be empty
	Excerpt string `json:"excerpt"` // the line and a caret, secrets masked
}

// ParseError lists everything found wrong with a profile, in the order of the
// file.
type ParseError struct {
	File     string
	Problems []Problem
}

// Error shows every problem with its place, an excerpt and what to do.
func (e *ParseError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d:%d: ", e.File, p.Line, p.Column)
		if p.Path != "" {
			b.WriteString(p.Path + ": ")
		}
		b.WriteString(p.Message + "\n" + p.Excerpt)
		if p.Help != "" {
			b.WriteString("    " + p.Help + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Warning is something that a profile may say, but that is dishonest, incomplete
// or probably not meant.
type Warning struct {
	Code    string `json:"code"` // stable, such as no_lookup
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

// String shows the warning with its place in the file.
func (w Warning) String() string {
	return fmt.Sprintf("%d:%d: %s: %s", w.Line, w.Column, w.Path, w.Message)
}

// position is a place in a profile's source.
type position struct{ line, column int }

const (
	maxProblems    = 20  // the rest would only repeat themselves
	excerptColumns = 110 // a longer line is shown around the caret
)

// excerpt shows one line of the source and a caret under the column.
func excerpt(lines []string, at position) string {
	if at.line < 1 || at.line > len(lines) {
		return ""
	}
	text := maskSecrets(strings.TrimRight(lines[at.line-1], "\r\n"))
	if belongsToSecret(lines[:at.line-1]) {
		text = stars(text)
	}
	line := []rune(strings.ReplaceAll(text, "\t", " "))
	caret := min(max(at.column-1, 0), len(line))
	if from := caret - excerptColumns/2; len(line) > excerptColumns && from > 0 {
		line, caret = line[from:], caret-from
	}
	line = line[:min(len(line), excerptColumns)]
	number := fmt.Sprintf("%4d | ", at.line)
	return number + printable(string(line)) + "\n" + strings.Repeat(" ", len(number)+caret) + "^\n"
}

// belongsToSecret says whether what follows these lines is the value of a secret:
// the line after its name, or an entry of its list.
func belongsToSecret(before []string) bool {
	for i := len(before) - 1; i >= 0; i-- {
		if !listEntry.MatchString(before[i]) {
			return secretAhead.MatchString(before[i])
		}
	}
	return false
}

var (
	listEntry   = regexp.MustCompile(`^\s*-\s`)
	secretValue = regexp.MustCompile(`(?i)([\w-]*(?:token|password|passwd|secret|api[_-]?key|authorization|cookie|value)["']?\s*:\s*)("[^"]*"?|'[^']*'?|\[[^\]]*\]?|[^\s,}#][^,}#]*)`)
	secretAhead = regexp.MustCompile(`(?i)(?:token|password|passwd|secret|api[_-]?key|authorization|cookie|value)["']?\s*:\s*[|>]?[-+0-9]*\s*$`)
	userinfo    = regexp.MustCompile(`//[^/\s"'@]*@`)
)

// maskSecrets blanks what may be a credential, so that a profile with a literal
// one does not carry it into an error. References stay readable, and so do the
// columns.
func maskSecrets(line string) string {
	line = secretValue.ReplaceAllStringFunc(line, func(match string) string {
		parts := secretValue.FindStringSubmatch(match)
		if value := strings.Trim(parts[2], `"' `); value == "" || strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
			return match
		}
		return parts[1] + stars(parts[2])
	})
	return userinfo.ReplaceAllStringFunc(line, func(match string) string {
		return "//" + stars(match[2:len(match)-1]) + "@"
	})
}

func stars(s string) string { return strings.Repeat("*", len([]rune(s))) }

// printable replaces what would disturb a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0xfffd || r >= firstStandIn && r <= lastStandIn {
			return '?'
		}
		return r
	}, s)
}

// suggestion names the known word that is closest to a misspelt one.
func suggestion(word string, known []string) string {
	best, distance := "", len(word)/3+2
	for _, k := range known {
		if d := editDistance(word, k); d < distance {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements between two
// words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost = min(diagonal, row[j], row[j-1]) + 1
			}
			diagonal, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}

// oneOf lists words for a message.
func oneOf(words []string) string {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return strings.Join(sorted, ", ")
}
