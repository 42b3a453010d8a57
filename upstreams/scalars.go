package upstreams

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// textNode reads a node that is text.
func textNode(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return textOf(v.Value), true
	case *ast.LiteralNode:
		return textOf(v.Value.Value), true
	default:
		return "", false
	}
}

// scalarNode reads a node that is text, a number or a boolean, as it is written.
func scalarNode(n ast.Node) (string, bool) {
	if s, ok := textNode(n); ok {
		return s, true
	}
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}

// text reads a text. Numbers and booleans have to be quoted.
func (m *mapping) text(name, fallback string) string {
	found, ok := m.get(name)
	if !ok {
		return fallback
	}
	s, ok := textNode(found.value)
	if !ok {
		m.fail(name, "has to be text, not "+kindOf(found.value), "Put it in quotes if it is meant as text.")
		return fallback
	}
	return s
}

// required reads a text that has to be there.
func (m *mapping) required(name, help string) string {
	if !m.has(name) {
		m.missing(name, help)
	}
	return m.text(name, "")
}

// missing reports a member that has to be there, unless the whole mapping is not
// one, which was reported already.
func (m *mapping) missing(name, help string) {
	m.asked = append(m.asked, name)
	if !m.broken {
		m.fail(name, "is required", help)
	}
}

// choice reads one of a few words.
func (m *mapping) choice(name, fallback string, words ...string) string {
	s := m.text(name, fallback)
	if slices.Contains(words, s) {
		return s
	}
	help := "Write one of " + strings.Join(words, ", ") + "."
	if near := suggestion(s, words); near != "" {
		help = fmt.Sprintf("Did you mean %q? ", near) + help
	}
	m.fail(name, fmt.Sprintf("%q is not a word known here", clip(s, 40)), help)
	return fallback
}

func (m *mapping) boolean(name string, fallback bool) bool {
	found, ok := m.get(name)
	if !ok {
		return fallback
	}
	if b, ok := found.value.(*ast.BoolNode); ok {
		return b.Value
	}
	m.fail(name, "has to be true or false, not "+kindOf(found.value), "Write true or false without quotes.")
	return fallback
}

// integer reads a whole number between two bounds, both included.
func (m *mapping) integer(name string, fallback, low, high int) int {
	found, ok := m.get(name)
	if !ok {
		return fallback
	}
	n, ok := integerNode(found.value)
	if !ok || n < low || n > high {
		message := fmt.Sprintf("has to be a whole number from %d to %d", low, high)
		if low == high {
			message = fmt.Sprintf("has to be %d", low)
		}
		m.fail(name, message, "")
		return fallback
	}
	return n
}

func integerNode(n ast.Node) (int, bool) {
	v, ok := n.(*ast.IntegerNode)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(v.GetToken().Value)
	return i, err == nil
}

// fraction reads a number that may have a fraction, between two bounds.
func (m *mapping) fraction(name string, fallback, low, high float64) float64 {
	found, ok := m.get(name)
	if !ok {
		return fallback
	}
	f, err := strconv.ParseFloat(found.value.GetToken().Value, 64)
	if kindOf(found.value) != "a number" {
		err = strconv.ErrSyntax
	}
	if err != nil || math.IsNaN(f) || f < low || f > high {
		m.fail(name, fmt.Sprintf("has to be a number from %v to %v", low, high), "")
		return fallback
	}
	return f
}

// duration reads a Go duration between two bounds.
func (m *mapping) duration(name string, fallback, low, high time.Duration) time.Duration {
	found, ok := m.get(name)
	if !ok {
		return fallback
	}
	s, _ := scalarNode(found.value)
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		m.fail(name, fmt.Sprintf("%q is not a duration", clip(s, 40)), "Write a number and a unit, such as 500ms, 15s, 5m or 24h (a day is 24h).")
		return fallback
	case d < low:
		m.fail(name, fmt.Sprintf("%s is too short", s), "At least "+short(low)+".")
		return fallback
	case d > high:
		m.fail(name, fmt.Sprintf("%s is too long", s), "At most "+short(high)+".")
		return fallback
	}
	return d
}

// optionalDuration reads a duration where "" means that it is not known.
func (m *mapping) optionalDuration(name string, low, high time.Duration) time.Duration {
	if found, ok := m.members[name]; ok && found.value != nil {
		if s, isText := textNode(found.value); isText && s == "" {
			m.get(name)
			return 0
		}
	}
	return m.duration(name, 0, low, high)
}

var sizePattern = regexp.MustCompile(`^([0-9]{1,12})(B|KiB|MiB)?$`)

// size reads a number of bytes: 65536, 64KiB or 1MiB.
func (m *mapping) size(name string, fallback, low, high int64) int64 {
	found, ok := m.get(name)
	if !ok {
		return fallback
	}
	s, _ := scalarNode(found.value)
	parts := sizePattern.FindStringSubmatch(s)
	if parts == nil {
		m.fail(name, fmt.Sprintf("%q is not a size", clip(s, 40)), "Write a whole number with KiB or MiB, such as 64KiB.")
		return fallback
	}
	n, _ := strconv.ParseInt(parts[1], 10, 64)
	switch parts[2] {
	case "KiB":
		n <<= 10
	case "MiB":
		n <<= 20
	}
	if n < low || n > high {
		m.fail(name, fmt.Sprintf("%s is out of bounds", s), fmt.Sprintf("From %s to %s.", formatSize(low), formatSize(high)))
		return fallback
	}
	return n
}

func formatSize(n int64) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	default:
		return strconv.FormatInt(n, 10)
	}
}

// short writes a duration without its zero parts: 24h, not 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// texts reads a list of texts.
func (m *mapping) texts(name string) []string {
	var out []string
	for _, i := range m.list(name) {
		s, ok := textNode(i.value)
		if !ok {
			i.fail("has to be text, not "+kindOf(i.value), "Put it in quotes if it is meant as text.")
			continue
		}
		out = append(out, s)
	}
	return out
}

// statuses reads a list of HTTP statuses between two bounds.
func (m *mapping) statuses(name string, fallback []int, low, high int) []int {
	if !m.has(name) {
		m.get(name)
		return fallback
	}
	var out []int
	for _, i := range m.list(name) {
		n, ok := integerNode(i.value)
		if !ok || n < low || n > high {
			i.fail(fmt.Sprintf("has to be an HTTP status from %d to %d", low, high), "")
			continue
		}
		out = append(out, n)
	}
	return out
}

// pairs reads a mapping of names to texts, numbers or booleans, sorted by name.
func (m *mapping) pairs(name string) []pair {
	inner := m.mapping(name)
	var out []pair
	for key, found := range inner.members {
		inner.asked = append(inner.asked, key)
		s, ok := scalarNode(found.value)
		if !ok {
			inner.fail(key, "has to be text, not "+kindOf(found.value), "")
			continue
		}
		out = append(out, pair{key, s, inner})
	}
	slices.SortFunc(out, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	return out
}

// pair is a member of a mapping of texts; from knows where it stands.
type pair struct {
	name, value string
	from        *mapping
}

func (p pair) fail(message, help string) { p.from.fail(p.name, message, help) }

// failKey reports a problem of the name, whose value may be a secret.
func (p pair) failKey(message, help string) {
	p.from.doc.problem(p.from.members[p.name].key, p.from.join(p.name), message, help)
}
