package web

import (
	"strings"
	"testing"
)

// TestDeepAnswersAreNotIndented: a small answer does not become a large page.
func TestDeepAnswersAreNotIndented(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for _, raw := range []string{nested(5000), nested(prettyDepth + 1), `{"a":` + nested(prettyDepth) + `}`, "{"} {
		if got := pretty([]byte(raw)); got != raw {
			t.Errorf("%.40s… of %d bytes became %d", raw, len(raw), len(got))
		}
	}
	for raw, want := range map[string]string{`{"a":[1]}`: "{\n  \"a\": [\n    1\n  ]\n}", `["\"` + strings.Repeat("[", 99) + `"]`: "[\n  \"\\\"" + strings.Repeat("[", 99) + "\"\n]"} {
		if got := pretty([]byte(raw)); got != want {
			t.Errorf("%s became %s", raw, got)
		}
	}
}
