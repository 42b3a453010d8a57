package upstreams

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
)

const anyFinding = "findings: [{when: status == 200, finding: applied}]"

// asked parses a lookup of an operation with the parameter {account}.
func asked(t testing.TB, lines string, top ...string) (*Operation, Lookup) {
	t.Helper()
	o := operation(t, "path: /accounts/{account}/payments\nlookup:\n"+indent(lines+"\n"+anyFinding), top...)
	return o, o.Lookups[0]
}

// odd is a reference with everything that means something somewhere.
const odd = `O'Neil "+%_ ü/..?a=b&c#d\;{key}`

func TestAsk(t *testing.T) {
	id := uuid.MustParse("0193a5b0-0000-7000-8000-000000000001")
	q := Question{Key: "k1", CommandID: id, Params: map[string]string{"account": "a/1"}, Reference: odd, Link: "/v2/ops/7?t=a%20b"}
	const oddEscaped = "O%27Neil%20%22%2B%25_%20%C3%BC%2F..%3Fa%3Db%26c%23d%5C%3B%7Bkey%7D"
	tests := []struct{ lines, method, target string }{
		{"path: /payments\nquery: {key: '{key}'}", "GET", "/v2/payments?key=k1"},
		{"path: /payments\nquery: {key: '{key}', limit: 2}", "GET", "/v2/payments?key=k1&limit=2"},
		{"path: /p/{command_id}", "GET", "/v2/p/" + id.String()},
		{"path: /accounts/{account}/payments", "GET", "/v2/accounts/a%2F1/payments"},
		{"path: /p/{reference}", "GET", "/v2/p/" + oddEscaped},
		{"method: HEAD\npath: /p\nquery: {q: 'ref:{reference}!'}", "HEAD", "/v2/p?q=ref%3A" + oddEscaped + "%21"},
		{"method: POST\npath: /search", "POST", "/v2/search"},
		{"path: '{link}'", "GET", "/v2/ops/7?t=a%20b"},
		{"path: '{link}'\nquery: {full: true}", "GET", "/v2/ops/7?t=a%20b&full=true"},
		{"path: /ops\nquery: {at: '{link}'}", "GET", "/v2/ops?at=%2Fv2%2Fops%2F7%3Ft%3Da%2520b"},
	}
	for _, tt := range tests {
		o, l := asked(t, tt.lines, "headers: {X-Version: '7'}")
		got, err := o.Ask(l, q)
		if err != nil || got.Method != tt.method || got.Path != tt.target {
			t.Errorf("%s: %s %s, %v, want %s", tt.lines, got.Method, got.Path, err, tt.target)
		}
		same(t, "headers", got.Headers, []Header{{"X-Version", "7"}, {"Cache-Control", "no-cache"}})
	}
	o, l := asked(t, "path: /p/{key}", "headers: {cache-control: max-age=0}")
	got, err := o.Ask(l, q)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "headers of a profile that says how", got.Headers, []Header{{"Cache-Control", "max-age=0"}})
}

// TestAskInQuotes: a value cannot end the quotes of a search language.
func TestAskInQuotes(t *testing.T) {
	tests := []struct{ query, quoting, key, want string }{
		{`ref:"{key}"`, "refuse", "k 1", `ref:"k 1"`},
		{`ref:"{key}"`, "refuse", `it's`, `ref:"it's"`},
		{`ref:"{key}"`, "refuse", `x" OR "1`, ""},
		{`ref:"{key}"`, "refuse", `x\`, ""},
		{`ref:"{key}"`, "backslash", `x" OR \"1`, `ref:"x\" OR \\\"1"`},
		{`name eq '{key}'`, "doubled", `O'Neil "x"`, `name eq 'O''Neil "x"'`},
		{`name eq 'pay-{key}'`, "refuse", `O'Neil`, ""},
		{`name eq '{key}'`, "doubled", `O\'Neil`, ""},
		{`path eq 'C:\' and name eq '{key}'`, "doubled", `O'Neil`, `path eq 'C:\' and name eq 'O''Neil'`},
		{`a:"b" AND ref:{key}`, "refuse", `x"`, ""},
		{`a:"b" AND ref:{key}`, "refuse", `x`, `a:"b" AND ref:x`},
		{`a:"say \"hi\" to {key}"`, "backslash", `x"`, `a:"say \"hi\" to x\""`},
	}
	for _, tt := range tests {
		o, l := asked(t, "path: /search\nquoting: "+tt.quoting+"\nquery: {q: "+yamlText(tt.query)+"}")
		got, err := o.Ask(l, Question{Key: tt.key})
		var not *NotAskable
		if tt.want == "" {
			if !errors.As(err, &not) || not.Missing != "key" {
				t.Errorf("%s with %s: %q, %v", tt.query, tt.key, got.Path, err)
			}
			continue
		}
		_, query, _ := strings.Cut(got.Path, "?q=")
		if value, bad := url.QueryUnescape(query); err != nil || bad != nil || value != tt.want {
			t.Errorf("%s with %s: %s, %v, want %s", tt.query, tt.key, value, err, tt.want)
		}
	}
}

// yamlText writes a text in the single quotes of YAML.
func yamlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func TestAskRefuses(t *testing.T) {
	tests := []struct {
		lines    string
		question Question
		missing  string
		why      string
	}{
		{"path: /p/{reference}", Question{}, "reference", "is not known"},
		{"path: /p/{key}", Question{}, "key", "is not known"},
		{"path: /p/{account}", Question{}, "account", "is not known"},
		{"path: '{link}'", Question{}, "link", "is not known"},
		{"path: /p\nquery: {r: '{reference}'}", Question{}, "reference", "is not known"},
		{"path: /p/{reference}", Question{Reference: ".."}, "reference", "change the path"},
		{"path: /p/{reference}/x", Question{Reference: "."}, "reference", "change the path"},
		{"path: /p/.{reference}", Question{Reference: "."}, "reference", "change the path"},
		{"path: /p/{reference}", Question{Reference: "a\r\nX: y"}, "reference", "control characters"},
		{"path: /p/{reference}", Question{Reference: "\xff"}, "reference", "broken UTF-8"},
		{"path: /p/{reference}", Question{Reference: strings.Repeat("ü", 2000)}, "reference", "bytes"},
		{"path: '{link}'", Question{Link: "//evil.example/x"}, "link", "own origin"},
		{"path: '{link}'", Question{Link: "https://evil.example/x"}, "link", "own origin"},
		{"path: '{link}'", Question{Link: "/a b"}, "link", "own origin"},
		{"path: '{link}'", Question{Link: "/a\r\nHost: evil"}, "link", "own origin"},
	}
	for _, tt := range tests {
		o, l := asked(t, tt.lines)
		got, err := o.Ask(l, tt.question)
		var not *NotAskable
		if !errors.As(err, &not) || not.Missing != tt.missing || !strings.Contains(not.Why, tt.why) || got.Path != "" {
			t.Errorf("%s: %q, %v, want {%s} %s", tt.lines, got.Path, err, tt.missing, tt.why)
		}
	}
}

// FuzzAsk: whatever a reference holds, the request line stays one, and the
// segment gives the reference back.
func FuzzAsk(f *testing.F) {
	for _, s := range []string{odd, "..", "a", "%2e%2e", "\u202e", "a\x00b", `\"`, "'"} {
		f.Add(s)
	}
	o, l := asked(f, "path: /p/{reference}/x\nquoting: backslash\nquery: {q: 'r:\"{reference}\"'}")
	f.Fuzz(func(t *testing.T, reference string) {
		got, err := o.Ask(l, Question{Reference: reference})
		if err != nil {
			return
		}
		if strings.IndexFunc(got.Path, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			t.Fatalf("%q", got.Path)
		}
		u, err := url.ParseRequestURI(got.Path)
		if err != nil || strings.Count(u.EscapedPath(), "/") != 4 {
			t.Fatalf("%q: %v", got.Path, err)
		}
		segment, _ := url.PathUnescape(strings.Split(u.EscapedPath(), "/")[3])
		if segment != reference {
			t.Errorf("%q became %q", reference, segment)
		}
		query := u.Query().Get("q")
		open := quotes{escapes: true}
		open.read(query)
		if open.mark != 0 || open.skip || !strings.HasSuffix(query, `"`) {
			t.Errorf("the quotes of %q are open", query)
		}
	})
}
