package api

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// scan reads a whole document and returns what is wrong with it.
func scan(src string) *malformed {
	r := newJSONReader([]byte(src))
	var bad *malformed
	errors.As(r.document(r.skip), &bad)
	return bad
}

// members writes n members with names of their own.
func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"k%d":0,`, i)
	}
	return b.String()
}

func TestStrictJSONAccepts(t *testing.T) {
	for _, src := range []string{
		`null`, `true`, `false`, `0`, `-0`, `1e400`, `-12.50E+3`, `9007199254740993`, `""`, `[]`, `{}`, " \t\r\n{ } \n",
		`{"a":1,"A":2,"b":{"a":1}}`, `[{"a":1},{"a":1}]`, `{"":1}`, `"\u0000\ud800\"\\\/\b\f\n\r\t"`, `"é\u00e9😀\ud83d\ude00"`,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth),
		`{"x":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`,
		`[{` + members(40) + `"a":1},{` + members(40) + `"a":1}]`,
	} {
		if bad := scan(src); bad != nil {
			t.Errorf("%.60s: %v", src, bad)
		}
	}
}

func TestStrictJSONRefuses(t *testing.T) {
	tests := []struct {
		src, code, pointer string
	}{
		{``, "syntax", ""},
		{`  `, "syntax", ""},
		{`nul`, "syntax", ""},
		{`{} {}`, "syntax", ""},
		{"\ufeff{}", "syntax", ""},
		{`{"a":1,}`, "syntax", ""},
		{`[1,]`, "syntax", ""},
		{`[,1]`, "syntax", "/0"},
		{`[1 2]`, "syntax", ""},
		{`{"a" 1}`, "syntax", "/a"},
		{`{"a":}`, "syntax", "/a"},
		{`{a:1}`, "syntax", ""},
		{`{'a':1}`, "syntax", ""},
		{`{"a":1`, "syntax", ""},
		{`["x`, "syntax", "/0"},
		{`[01]`, "syntax", ""},
		{`[1.]`, "syntax", "/0"},
		{`[.5]`, "syntax", "/0"},
		{`[+1]`, "syntax", "/0"},
		{`[-]`, "syntax", "/0"},
		{`[1e]`, "syntax", "/0"},
		{`[NaN]`, "syntax", "/0"},
		{`["\x"]`, "syntax", "/0"},
		{`["\u12g4"]`, "syntax", "/0"},
		{`["\u12`, "syntax", "/0"},
		{"[\"a\nb\"]", "syntax", "/0"},
		{"[\"a\x00b\"]", "syntax", "/0"},
		{"// c\n{}", "syntax", ""},
		{"{\"a\":\"\xff\"}", "invalid_utf8", "/a"},
		{"{\"a\":\"\xc3\"}", "invalid_utf8", "/a"},
		{"{\"a\":\"\xed\xa0\x80\"}", "invalid_utf8", "/a"},
		{"{\"\xff\":1}", "invalid_utf8", ""},
		{`{"a":1,"b":2,"a":3}`, "duplicate_key", "/a"},
		{`{"a":1,"\u0061":2}`, "duplicate_key", "/a"},
		{`{"\ud800":1,"\ud800":2}`, "duplicate_key", "/\uFFFD"},
		{`{"body":[0,{"x/y~z":{"amount":1,"amount":2}}]}`, "duplicate_key", "/body/1/x~1y~0z/amount"},
		{`{` + members(fewMembers) + `"k0":1}`, "duplicate_key", "/k0"},
		{`{` + members(40) + `"k39":1}`, "duplicate_key", "/k39"},
		{`{"x":{` + members(40) + `"last":{"a":1,"b":1,"a":2}}}`, "duplicate_key", "/x/last/a"},
		{`{"a":{"b":1},"a":2}`, "duplicate_key", "/a"},
		{`{` + members(maxMembers) + `"a":1}`, "too_many_members", "/a"},
		{strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), "too_deep", strings.Repeat("/0", maxDepth)},
		{strings.Repeat("[", 100_000), "too_deep", strings.Repeat("/0", maxDepth)},
		{strings.Repeat(`{"a":`, 100_000), "too_deep", strings.Repeat("/a", maxDepth)},
	}
	for _, tt := range tests {
		bad := scan(tt.src)
		if bad == nil {
			t.Errorf("%.60q: accepted", tt.src)
			continue
		}
		if bad.code != tt.code || bad.pointer != tt.pointer {
			t.Errorf("%.60q: %s at %q (%s), want %s at %q", tt.src, bad.code, bad.pointer, bad.detail, tt.code, tt.pointer)
		}
	}
}

func TestMalformedCountsLinesAndColumns(t *testing.T) {
	bad := scan("{\n  \"a\": 1,\n  \"a\": 2\n}")
	if bad == nil || bad.line != 3 || bad.column != 3 {
		t.Errorf("got %v, want line 3, column 3", bad)
	}
}

func TestText(t *testing.T) {
	tests := []struct{ src, want, bad string }{
		{`"plain"`, "plain", ""},
		{`"a\"\\\/\b\f\n\r\tz"`, "a\"\\/\b\f\n\r\tz", ""},
		{`"\u00e9\ud83d\ude00"`, "é😀", ""},
		{`"a\u0000"`, "", "nul_character"},
		{`"\ud800"`, "", "lone_surrogate"},
		{`"\udc00\ud800"`, "", "lone_surrogate"},
		{`"\ud83dx"`, "", "lone_surrogate"},
		{`"\ud83d\u0041"`, "", "lone_surrogate"},
	}
	for _, tt := range tests {
		s, bad, err := newJSONReader([]byte(tt.src)).text()
		if err != nil || bad != tt.bad || bad == "" && s != tt.want {
			t.Errorf("text of %s = %q, %q, %v; want %q, %q", tt.src, s, bad, err, tt.want, tt.bad)
		}
	}
}

func TestIsJSONShowsWhatOthersWrote(t *testing.T) {
	deep := strings.Repeat("[", shownDepth+1) + strings.Repeat("]", shownDepth+1)
	for src, want := range map[string]bool{
		`{"a":1,"a":2}`: true, `{"x":"\u0000"}`: true, ` [1e400] `: true, "{\"a\":\"\xff\"}": false, `<html>`: false, `{"a":`: false, deep: false,
	} {
		if got := isJSON([]byte(src)); got != want {
			t.Errorf("isJSON(%.40q) = %v", src, got)
		}
	}
}
