package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"executor/commands"
	"executor/outcome"
)

// hostileText is what an upstream may send to whoever looks at it: markup, script,
// escape sequences, marks that turn the direction of text, and bytes that are none.
const hostileText = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href=\"javascript:alert(3)\">x</a>" +
	"\x1b[31mred\x1b[0m \u202Etxt.exe\u2066 \u05e9\u05dc\u05d5\u05dd \x00 \xff\xfe =HYPERLINK(\"http://evil\") {{.Page}} </pre></details>"

// evilProfile is an upstream that answers whatever it likes.
const evilProfile = `
version: 1
upstream: evil
base_url: %s
egress: {allow: [127.0.0.0/8]}
timeouts: {connect: 1s, tls: 1s, response_header: 5s, total: 10s}
limits: {response_bytes: 2MiB, stored_response_bytes: 2MiB}
deadline: 10m
retry: {max_attempts: 1}
announce_unresolved_after: 0s
operations:
  stored: {method: PUT, path: /stored, body: raw}
  act:
    method: POST
    path: /act
    body: json
    rejection: {code: headers["x-code"][0], message: text}
  written:
    method: POST
    path: /act/{place}
    body: json
    caller_query: [mode]
    caller_headers: [X-Trace]
    idempotency: {kind: keyed, key: {in: body, name: /order/key}, retention: 24h}
  secret:
    method: POST
    path: /act
    body: json
    redact: {headers: [X-Inner], request: [/card], response: [/token]}
`

// evil serves an upstream "evil" that answers with what answer writes.
func (s *site) evil(t testing.TB, answer http.HandlerFunc) {
	t.Helper()
	up := httptest.NewServer(answer)
	t.Cleanup(up.Close)
	s.apply(t, fmt.Sprintf(evilProfile, up.URL))
}

// toEvil sends a command there.
func toEvil(operation, body string) func(*commands.Submission) {
	return func(sub *commands.Submission) {
		sub.Upstream, sub.Operation, sub.Body, sub.Headers = "evil", operation, []byte(body), nil
	}
}

func TestACommandPageShowsHostileTextInert(t *testing.T) {
	s := newSite(t)
	body := hostileText + strings.Repeat("A", 1<<20)
	var served atomic.Int32
	s.evil(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Code", "<b>bold</b>")
		w.Header().Set("X-Evil", "javascript:alert(4) <script>")
		w.WriteHeader(http.StatusUnprocessableEntity)
		if served.Add(1) == 1 {
			_, _ = w.Write([]byte(body))
			return
		}
		_, _ = w.Write([]byte(hostileText))
	})
	key := strings.Repeat("k<'\"&>", 42) + "end"
	c := s.ended(t, key, "act", "", outcome.StateRejected, toEvil("act", `{"note": "<script>alert(5)</script>"}`), func(sub *commands.Submission) {
		sub.Metadata = map[string]string{"<b>name</b>": "\u202Ebackwards <i>"}
	})
	p := s.as(t, "vera").get(pageOf(c.ID))
	p.has(t, "&lt;script&gt;alert(1)&lt;/script&gt;", `\u001B[31mred`, `\u202Etxt.exe\u2066`, "\u05e9\u05dc\u05d5\u05dd", `\u0000`, `\xFF\xFE`,
		"{{.Page}}", "&lt;/pre&gt;&lt;/details&gt;", "javascript:alert(4) &lt;script&gt;", "&lt;b&gt;name&lt;/b&gt;", `\u202Ebackwards`, "16\u202f3")
	p.lacks(t, "<script>alert", "<img src=x", "<b>bold", "<b>name", "backwards <i>", "\x1b", "\u202E", "\u2066", "\x00", "\xff", `href="javascript:`)
	if active := regexp.MustCompile(`(?i)<[^>]*\s(on[a-z]+|style)=`).FindString(p.body); active != "" {
		t.Errorf("the page has an active attribute: %s", active)
	}
	small := s.as(t, "vera").get(pageOf(s.ended(t, "small", "act", "", outcome.StateRejected, toEvil("act", "{}")).ID))
	small.has(t, `<blockquote class="text">&lt;b&gt;bold&lt;/b&gt; &lt;script&gt;alert(1)`)
	if len(p.body) > 200<<10 {
		t.Errorf("the page has %d bytes for a body of 1 MB", len(p.body))
	}
	down := s.as(t, "vera").get(pageOf(c.ID) + "/attempts/1/body")
	if down.body != body {
		t.Errorf("the download has %d bytes that are not those that came", len(down.body))
	}
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'",
		"Content-Disposition": `attachment; filename="command-` + c.ID.String() + `-attempt-1.bin"`,
	} {
		if got := down.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestACommandPageShowsNothingThatTheProfileRedacts(t *testing.T) {
	s := newSite(t)
	s.evil(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Inner", "inner-secret")
		w.Header().Set("Set-Cookie", "session=cookie-secret")
		_, _ = w.Write([]byte(`{"id": 1, "token": "token-secret"}`))
	})
	c := s.ended(t, "hidden", "secret", "", outcome.StateSuccess, toEvil("secret", `{"card": "card-secret", "amount": 1}`))
	p := s.as(t, "vera").get(pageOf(c.ID))
	p.has(t, `<span class="redacted">[redacted]</span>`, "you need your own copy of its body")
	p.lacks(t, "inner-secret", "cookie-secret", "token-secret", "card-secret")
}
