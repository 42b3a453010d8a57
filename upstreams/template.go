package upstreams

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// template is a path or a query value, cut into fixed text and parameters.
type template []templatePart

// templatePart is fixed text, or a parameter if name is set.
type templatePart struct{ text, name string }

// queryTemplate is a query parameter whose value may hold parameters.
type queryTemplate struct {
	name  string
	value template
}

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

// parseTemplate cuts text at {name}.
func parseTemplate(s string) (template, *refusal) {
	var t template
	for s != "" {
		open := strings.IndexAny(s, "{}")
		if open < 0 {
			return append(t, templatePart{text: s}), nil
		}
		closing := strings.IndexByte(s, '}')
		if s[open] == '}' || closing < 0 {
			return nil, &refusal{"has a brace without its partner", "A parameter is written {name}."}
		}
		name := s[open+1 : closing]
		if !parameterName.MatchString(name) {
			return nil, &refusal{fmt.Sprintf("%q is not a parameter name", clip(name, 40)), "Use letters, digits and _, not beginning with a digit."}
		}
		if open > 0 {
			t = append(t, templatePart{text: s[:open]})
		} else if len(t) > 0 && t[len(t)-1].name != "" {
			return nil, &refusal{"two parameters touch", "Put fixed text between them, or two pairs of values could give one request."}
		}
		t = append(t, templatePart{name: name})
		s = s[closing+1:]
	}
	return t, nil
}

// parsePath parses a path template. Its fixed parts go on the wire as written.
func parsePath(s string) (template, *refusal) {
	if s == "" {
		return nil, &refusal{"is empty", "Write at least /."}
	}
	t, bad := parseTemplate(s)
	if bad != nil {
		return nil, bad
	}
	sample := t.expand(func(string) string { return "x" })
	if err := checkLiteralPath(sample); err != nil {
		return nil, err.(*refusal)
	}
	return t, nil
}

// parameters lists the names, each once.
func (t template) parameters() []string {
	var names []string
	for _, p := range t {
		if p.name != "" && !slices.Contains(names, p.name) {
			names = append(names, p.name)
		}
	}
	return names
}

// expand puts values in the places of the parameters.
func (t template) expand(value func(name string) string) string {
	var b strings.Builder
	for _, p := range t {
		if p.name == "" {
			b.WriteString(p.text)
		} else {
			b.WriteString(value(p.name))
		}
	}
	return b.String()
}

// escape writes text so that it is one path segment, or one query name or value,
// and nothing in it acts as a delimiter: all but the unreserved characters of
// RFC 3986 become % and two hex digits.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// parsePointer cuts a JSON pointer (RFC 6901) into its reference tokens.
func parsePointer(s string) ([]string, *refusal) {
	if !strings.HasPrefix(s, "/") || s == "/" {
		return nil, &refusal{fmt.Sprintf("%q is not a JSON pointer to a member", clip(s, 60)), "Write it as /name or /outer/name."}
	}
	tokens := strings.Split(s[1:], "/")
	for i, t := range tokens {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(t), "~") {
			return nil, &refusal{fmt.Sprintf("%q has a ~ that is no escape", clip(s, 60)), "In a JSON pointer ~ is written ~0 and / is written ~1."}
		}
		tokens[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(t)
	}
	return tokens, nil
}

// pointer writes a JSON pointer.
func pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(t))
	}
	return b.String()
}
