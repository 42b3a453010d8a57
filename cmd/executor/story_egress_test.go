//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
)

const toNobody = "http://127.0.0.9:1999"

// egressStories are about requests that never left, and about where they may go.
func egressStories() []story {
	return []story{
		{name: "connection refused to the end, keyed", kind: "keyed", base: toNobody,
			attempts: []string{noConnection, noConnection, noConnection}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused to the end, no key", kind: "none", base: toNobody,
			attempts: []string{noConnection, noConnection, noConnection}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused to the end, natural", kind: "natural", base: toNobody,
			attempts: []string{noConnection, noConnection, noConnection}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused to the end, safe", kind: "safe", base: toNobody,
			attempts: []string{noConnection, noConnection, noConnection}, ends: "cancelled never_sent max_attempts"},
		{name: "connection refused until the deadline", kind: "none", base: toNobody, operation: settings{"retry": "{max_attempts: 1000}"},
			change:   func(sub *client.Submission) { sub.Timeout = 8 * time.Second },
			attempts: []string{noConnection + " +"}, ends: "cancelled never_sent deadline"},
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

func (s *stage) throughProxy(t *testing.T) {
	for _, tt := range []struct {
		name     string
		proxy    func(*testkit.RawConn)
		ends     string
		attempts []string
		asked    int
	}{
		{"that relays", relay, "success applied applied", []string{created}, 1},
		{"that refuses", func(c *testkit.RawConn) { c.ReadRequest(); c.Send(testkit.Reply(502, `{}`)) },
			"cancelled never_sent max_attempts", []string{"not_sent connect_failure", "not_sent connect_failure", "not_sent connect_failure"}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := testkit.NewRawServer(t, tt.proxy)
			pl := s.one(t, story{
				name: "a proxy " + tt.name, kind: "none", script: answers(testkit.Reply(201, `{"id":"p1"}`)), attempts: tt.attempts, ends: tt.ends,
				profile: settings{"egress": "{allow: [127.0.0.0/8], proxy: 'http://" + proxy.Address() + "'}"},
			})
			pl.submit(t).end(t)
			asked := proxy.Requests()
			if len(asked) != tt.asked || asked[0].Method != http.MethodConnect || asked[0].Target != pl.made.server.Address() {
				t.Errorf("the proxy was asked %+v", asked)
			}
		})
	}
}

// relay is an honest proxy.
func relay(c *testkit.RawConn) {
	q, ok := c.ReadRequest()
	if !ok {
		return
	}
	far, err := net.Dial("tcp", q.Target)
	if err != nil {
		return
	}
	defer far.Close()
	c.Send("HTTP/1.1 200 Connected\r\n\r\n")
	go func() { _, _ = io.Copy(far, c) }()
	_, _ = io.Copy(c.Conn, far)
}
