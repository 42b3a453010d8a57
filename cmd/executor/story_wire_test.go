//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
)

// never is an answer that does not come while the client waits.
const never = "\x00never"

// answers gives each connection's request its answer, the last one to all that
// follow. The empty answer ends the connection without a word.
func answers(texts ...string) func(*peer) {
	return func(p *peer) {
		if _, ok := p.ReadRequest(); !ok {
			return
		}
		switch text := texts[min(p.Number, len(texts))-1]; text {
		case never:
			p.Drain()
		default:
			p.Send(text)
		}
	}
}

// response is one with headers of its own, each with its line end.
func response(status, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, headers, len(body), body)
}

// largeBody is more than the buffers between two ends take in.
func largeBody(sub *client.Submission) {
	sub.Body = fmt.Appendf(nil, `{"of":%q,"pad":"%s"}`, sub.Key, bytes.Repeat([]byte("x"), 900<<10))
}

// padded is a JSON object of about that many bytes, with an id.
func padded(size int) string {
	return `{"id":"p1","pad":"` + strings.Repeat("x", size) + `"}`
}

// nested is a JSON list in a list in a list.
func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

// early answers a large request once its head is there, and reads no more of it.
func early(text string) func(*peer) {
	return func(p *peer) {
		p.ReadHead()
		p.Send(text)
		<-p.of.over
	}
}

// tight are the buffers in which a large request does not vanish.
func tight() []testkit.RawOption { return []testkit.RawOption{testkit.RawReadBuffer(4 << 10)} }

// wireStories are about what happens on the connection itself.
func wireStories() []story {
	return []story{
		{name: "201 before the body was sent, no key", kind: "none", listens: tight(), change: largeBody, script: early(testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied", check: cutShort},
		{name: "201 before the body was sent, keyed", kind: "keyed", listens: tight(), change: largeBody, script: early(testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied", check: cutShort},
		{name: "202 before the body was sent, no key", kind: "none", listens: tight(), change: largeBody, script: early(testkit.Reply(202, `{}`)),
			attempts: []string{"response_received unclear 202"}, ends: "unresolved unclear_response status_denied", check: cutShort},
		{name: "413 before the body was sent, no key", kind: "none", listens: tight(), change: largeBody, script: early(testkit.Reply(413, `{}`)),
			attempts: []string{"response_received refused 413"}, ends: "rejected refused refused", check: cutShort},

		{name: "early hints before the answer", kind: "none", script: answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 3) + testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{created}, ends: "success applied applied"},
		{name: "early hints without end", kind: "none", script: answers(strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000)),
			attempts: []string{lost}, ends: "unresolved no_response ambiguous"},
		{name: "headers without end", kind: "none", script: answers("HTTP/1.1 201 Created\r\n" + strings.Repeat("X-Flood: abcdefgh\r\n", 50_000) + "\r\n"),
			attempts: []string{lost}, ends: "unresolved no_response ambiguous"},
		{name: "headers without end, keyed", kind: "keyed",
			script:   answers("HTTP/1.1 201 Created\r\n"+strings.Repeat("X-Flood: abcdefgh\r\n", 50_000)+"\r\n", testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{lost, created}, ends: "success applied applied"},
		{name: "an answer that is not HTTP", kind: "none", script: answers("SSH-2.0-OpenSSH_9.7\r\n"),
			attempts: []string{lost}, ends: "unresolved no_response ambiguous"},
		{name: "half a status line", kind: "none", script: answers("HTTP/1.1 20"),
			attempts: []string{lost}, ends: "unresolved no_response ambiguous"},
		{name: "another protocol that nobody asked for", kind: "none", script: answers("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
			attempts: []string{"response_received unclear 101"}, ends: "unresolved unclear_response status_denied"},
		{name: "a body with two lengths", kind: "none", script: answers("HTTP/1.1 201 Created\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{\"id\":\"p1\"}\r\n0\r\n\r\n"),
			attempts: []string{created}, ends: "success applied applied", check: func(t *testing.T, o told) { o.reference(t, "p1") }},
	}
}

// cutShort: not all of the request was handed over.
func cutShort(t *testing.T, o told) {
	t.Helper()
	if q := o.record[0].Request; q.BytesHandedOver >= q.BytesTotal {
		t.Errorf("handed over %d of %d bytes", q.BytesHandedOver, q.BytesTotal)
	}
}

const toNobody = "http://127.0.0.9:1999"

// egressStories are about requests that never left, and about where they may go.
func egressStories() []story {
	return []story{
		{name: "connection refused to the end, keyed", kind: "keyed", base: toNobody,
			attempts: []string{nobodyIn, nobodyIn, nobodyIn}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused to the end, no key", kind: "none", base: toNobody,
			attempts: []string{nobodyIn, nobodyIn, nobodyIn}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused to the end, natural", kind: "natural", base: toNobody,
			attempts: []string{nobodyIn, nobodyIn, nobodyIn}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused to the end, safe", kind: "safe", base: toNobody,
			attempts: []string{nobodyIn, nobodyIn, nobodyIn}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused until the deadline", kind: "none", base: toNobody, operation: settings{"retry": "{max_attempts: 1000}"},
			change:   func(sub *client.Submission) { sub.Timeout = 2 * time.Second },
			attempts: []string{nobodyIn + " +"}, ends: "cancelled never_sent deadline"},
		{name: "a name that nobody has", kind: "none", base: "http://nobody.invalid", profile: settings{"timeouts": "{connect: 300ms}"},
			attempts: []string{"not_sent dns_failure", "not_sent dns_failure", "not_sent dns_failure"}, ends: "cancelled never_sent max_attempts"},

		{name: "an authority that nobody trusts", kind: "none", script: answers(testkit.Reply(201, `{}`)), secure: serving("127.0.0.1"),
			attempts: []string{"not_sent certificate_invalid"}, ends: "cancelled never_sent permanent_failure", check: addressFailed},
		{name: "a certificate for another name", kind: "none", script: answers(testkit.Reply(201, `{}`)), secure: serving("other.example"),
			profile:  settings{"tls": "{ca_file: file:ca.pem}"},
			attempts: []string{"not_sent certificate_invalid"}, ends: "cancelled never_sent permanent_failure", check: addressFailed},
		{name: "a certificate that has expired", kind: "keyed", script: answers(testkit.Reply(201, `{}`)),
			secure: func(ca *testkit.Authority) *tls.Config {
				return &tls.Config{Certificates: []tls.Certificate{ca.IssueUntil(time.Now().Add(-time.Minute), "127.0.0.1")}}
			},
			profile:  settings{"tls": "{ca_file: file:ca.pem}"},
			attempts: []string{"not_sent certificate_invalid"}, ends: "cancelled never_sent permanent_failure", check: addressFailed},
		{name: "a certificate that is good", kind: "none", script: answers(testkit.Reply(201, `{"id":"p1"}`)), secure: serving("127.0.0.1"),
			profile:  settings{"tls": "{ca_file: file:ca.pem}"},
			attempts: []string{created}, ends: "success applied applied"},
		{name: "an answer lost over TLS, keyed", kind: "keyed", script: answers("", testkit.Reply(201, `{"id":"p1"}`)), secure: serving("127.0.0.1"),
			profile:  settings{"tls": "{ca_file: file:ca.pem}"},
			attempts: []string{lost, created}, ends: "success applied applied"},
	}
}

// serving is the TLS of a server by that name.
func serving(name string) func(*testkit.Authority) *tls.Config {
	return func(ca *testkit.Authority) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ca.Issue(name)}}
	}
}

// addressFailed: the record names the address and what was wrong with it, and
// nothing got there.
func addressFailed(t *testing.T, o told) {
	t.Helper()
	first := o.record[0]
	if len(first.Addresses) != 1 || first.Addresses[0].Category != first.Category || first.Addresses[0].Address == "" {
		t.Errorf("addresses %+v", first.Addresses)
	}
	if o.made != nil && o.made.server.Received() > 0 {
		t.Errorf("%d bytes arrived", o.made.server.Received())
	}
}
