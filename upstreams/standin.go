package upstreams

import (
	"errors"
	"regexp"
	"strings"
	"unicode/utf8"
)

// YAML does not allow , [ ] { } in plain text inside {…}. Expressions need them,
// and `{when: json.items[0].state == "done", finding: applied}` is how one wants
// to write a rule. So in the expressions of such mappings they are replaced, rune
// for rune, by characters of the private use area before parsing, and put back
// when a text is read. Columns stay what they are.
const (
	standIns     = "\uE0B0\uE0B1\uE0B2\uE0B3\uE0B4"
	structural   = ",[]{}"
	firstStandIn = '\uE0B0'
	lastStandIn  = '\uE0B4'
)

var (
	flowExpression = regexp.MustCompile(`[{,][ ]*(?:when|reference|link|code|message|event_id|command)[ ]*:[ ]+`)
	toStandIn      = pairs(structural, standIns)
	fromStandIn    = pairs(standIns, structural)
)

func pairs(from, to string) *strings.Replacer {
	var list []string
	target := []rune(to)
	for i, r := range []rune(from) {
		list = append(list, string(r), string(target[i]))
	}
	return strings.NewReplacer(list...)
}

// standIn prepares a source for the YAML parser. It refuses what is no UTF-8 and
// what holds the replacements already.
func standIn(src string) (string, error) {
	switch {
	case !utf8.ValidString(src):
		return "", errors.New("the profile is not valid UTF-8")
	case strings.ContainsAny(src, standIns) || strings.ContainsRune(src, 0):
		return "", errors.New("the profile holds characters that no text has (NUL or U+E0B0 to U+E0B4)")
	}
	lines := strings.SplitAfter(src, "\n")
	for i, line := range lines {
		if strings.ContainsAny(line, "{") {
			lines[i] = standInLine(line)
		}
	}
	return strings.Join(lines, ""), nil
}

func standInLine(line string) string {
	var b strings.Builder
	for {
		match := flowExpression.FindStringIndex(line)
		if match == nil {
			b.WriteString(line)
			return b.String()
		}
		b.WriteString(line[:match[1]])
		line = line[match[1]:]
		end := plainEnd(line)
		b.WriteString(toStandIn.Replace(line[:end]))
		line = line[end:]
	}
}

// plainEnd finds where a plain expression ends: at a comma or a closing brace
// outside its own brackets and quotes. Text that is quoted as a whole is left to
// the parser, and so is an expression that does not end on its line.
func plainEnd(s string) int {
	if strings.HasPrefix(s, `"`) || strings.HasPrefix(s, "'") {
		return 0
	}
	depth, quote := 0, byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case depth == 0 && (c == ',' || c == '}' || c == ']'):
			return i
		case c == '[' || c == '(' || c == '{':
			depth++
		case c == ']' || c == ')' || c == '}':
			depth--
		}
	}
	return 0
}
