//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package attempts

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"testing"

	"executor/internal/testkit"
	"executor/upstreams"
)

// hostileOperation has one parameter and lets callers set one header; line is
// another member of it.
func hostileOperation(line string) (*upstreams.Operation, error) {
	p, err := upstreams.Parse("test.yaml", fmt.Appendf(nil, `version: 1
upstream: up
base_url: https://api.example
auth: {type: bearer, token: env:EXECUTOR_SECRET_A}
operations: {pay: {method: POST, path: '/v1/accounts/{account}/pay', body: none, %s}}
`, line))
	if err != nil {
		return nil, err
	}
	o, _ := p.Operation("pay")
	return o, nil
}

// readings are what servers and proxies make of a path before they look whose it is.
var readings = map[string]func(string) string{
	"as it is":          func(p string) string { return path.Clean(p) },
	"decoded":           func(p string) string { return path.Clean(decoded(p)) },
	"decoded twice":     func(p string) string { return path.Clean(decoded(decoded(p))) },
	"backslashes":       func(p string) string { return path.Clean(strings.ReplaceAll(decoded(p), `\`, "/")) },
	"path parameters":   func(p string) string { return path.Clean(withoutParameters(decoded(p))) },
	"parameters before": func(p string) string { return path.Clean(decoded(withoutParameters(p))) },
}

func decoded(p string) string {
	if d, err := url.PathUnescape(p); err == nil {
		return d
	}
	return p
}

func withoutParameters(p string) string {
	segments := strings.Split(p, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

// TestNoParameterLeavesItsSegment: what a caller gives for a parameter is refused,
// or reaches the operation's own path, however the path is read on its way.
func TestNoParameterLeavesItsSegment(t *testing.T) {
	server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		c.Serve(func(testkit.RawRequest) string { return testkit.Reply(200, `{}`) })
	})
	o, err := hostileOperation("caller_headers: [X-Trace]")
	if err != nil {
		t.Fatal(err)
	}
	s, sent := newSender(t), 0
	for _, value := range []string{
		"..", ".", "../..", "../admin", "../../admin", "../../../../etc/passwd", "..\\admin", "a/../../admin", "a/..", "./a", "a/./b", "/..", "//", "/admin", "//evil.example",
		"%2e%2e", "%2e%2e%2fadmin", "%2E%2E/admin", "..%2fadmin", "..%2Fadmin", "%2e%2e/admin", "..%5cadmin", "%252e%252e%252fadmin", "..%252fadmin", "%25252e%25252e",
		"..;/admin", "..;", "..;a=b/admin", ".;/admin", "a;/../admin", "..%3b/admin", "%2e%2e%3badmin", "..%00/admin", "..\x00", "..%0d%0a",
		"a?x=1", "a#f", "a?x=/../..", "a%3fx", "a%23f", "a b", "a\tb", "a\r\nHost: evil.example", "a HTTP/1.1\r\nX: y", "\u2025/admin", "\uff0e\uff0e/admin", "\uff0e\uff0e\u2215admin",
		"..\u2215admin", "%c0%ae%c0%ae/admin", "%u002e%u002e/admin", "@evil.example", ":80", "https://evil.example", "~root", "*", "", " ", "a/b", "é", "a%zz", "..%",
	} {
		got, err := o.Render(upstreams.Input{Params: map[string]string{"account": value}})
		var refused *upstreams.InputError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		received.check(t, attempt(t, s, transport{}.target(server.Address()), WireRequest{Method: got.Method, Path: got.Path, Headers: got.Headers}))
		sent++
		arrived := server.Requests()[sent-1]
		for how, read := range readings {
			if p := read(arrived.Target); !strings.HasPrefix(p, "/v1/accounts/") || strings.Contains(p, "/../") || strings.HasPrefix(p, "/v1/accounts/pay") {
				t.Errorf("%q arrived as %s, which is %s, read %s", value, arrived.Target, p, how)
			}
		}
		if strings.ContainsAny(arrived.Target, "?#") || arrived.Header.Get("Host") != server.Address() {
			t.Errorf("%q arrived as %s at %s", value, arrived.Target, arrived.Header.Get("Host"))
		}
	}
	if sent < 10 || len(server.Requests()) != sent {
		t.Errorf("%d were sent, %d arrived", sent, len(server.Requests()))
	}
}

// TestNoHeaderOfACallerReachesTheWire that belongs to the connection, to the next
// hop or to the credential: a profile cannot let callers set it, a caller who
// sends it anyway is refused, and what frames the message is refused once more
// where the message is written.
func TestNoHeaderOfACallerReachesTheWire(t *testing.T) {
	framing := []string{
		"Host", "Content-Length", "Transfer-Encoding", "Connection", "Expect", "TE", "Trailer", "Upgrade", "Keep-Alive", "HTTP2-Settings",
		"Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Proxy-Authentication-Info", "X-Executor-Hop",
	}
	others := []string{
		"Authorization", "Cookie", "Cookie2", "X-Api-Key", "Api-Key", "X-Auth-Token", "X-Amz-Security-Token", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host",
		"X-Forwarded-Proto", "X-Real-Ip", "Via", "X-Original-Url", "X-Rewrite-Url", "X-Http-Method-Override", "X-Method-Override", "Content-Type", "Accept-Encoding",
	}
	o, err := hostileOperation("caller_headers: [X-Trace]")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(append([]string{}, framing...), others...) {
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if _, err := hostileOperation("caller_headers: ['" + spelling + "']"); err == nil {
				t.Errorf("a profile may let callers set %s", spelling)
			}
			var refused *upstreams.InputError
			if _, err := o.Render(upstreams.Input{Params: map[string]string{"account": "a"}, Headers: map[string]string{spelling: "evil"}}); !errors.As(err, &refused) {
				t.Errorf("a caller may set %s: %v", spelling, err)
			}
		}
	}
	for _, name := range framing {
		r := payment()
		r.Headers = append(r.Headers, upstreams.Header{Name: strings.ToLower(name), Value: "evil"})
		if _, err := Encode(r, transport{}.target("127.0.0.1:80")); !errors.Is(err, ErrRequestInvalid) {
			t.Errorf("%s is written: %v", name, err)
		}
	}
}

// TestTheMethodIsTheProfiles: one of six, in capitals.
func TestTheMethodIsTheProfiles(t *testing.T) {
	for _, method := range []string{"post", "PoST", "CONNECT", "TRACE", "OPTIONS", "PRI", "PURGE", "DEBUG", "TRACK", "GET /", "GET\r\nX: y", "POST ", "", "ＰＯＳＴ"} {
		text := fmt.Sprintf("version: 1\nupstream: up\nbase_url: https://api.example\noperations: {pay: {method: %q, path: /pay}}\n", method)
		if _, err := upstreams.Parse("test.yaml", []byte(text)); err == nil {
			t.Errorf("%q is a method", method)
		}
	}
}
