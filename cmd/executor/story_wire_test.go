//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"strings"
	"testing"

	"executor/internal/testkit"
)

// wireStories are about what happens on the connection itself.
func wireStories() []story {
	return []story{
		{name: "201 before the body was sent, no key", kind: "none", listens: tight(), change: largeBody, script: early(testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied", check: cutShort},
		{name: "201 before the body was sent, keyed", kind: "keyed", listens: tight(), change: largeBody, script: early(testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied", check: cutShort},
		{name: "200 before the body was sent, natural", kind: "natural", listens: tight(), change: largeBody, script: early(testkit.Reply(200, `{"id":"p1"}`)),
			attempts: []string{"response_received unclear 200"}, ends: "unresolved unclear_response status_denied", check: cutShort},
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
			attempts: []string{lost}, ends: "unresolved no_response ambiguous", check: begunToAnswer},
		{name: "a sign of life every few seconds", kind: "none", script: answers(strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", 100) + testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{created}, ends: "success applied applied"},
		{name: "another protocol that nobody asked for", kind: "none", script: answers("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
			attempts: []string{"response_received unclear 101"}, ends: "unresolved unclear_response status_denied"},
		{name: "a body in chunks with trailers", kind: "none", script: answers("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n6\r\n:\"p1\"}\r\n0\r\nX-Sum: 1\r\n\r\n"),
			attempts: []string{created}, ends: "success applied applied", check: func(t *testing.T, o told) { o.reference(t, "p1") }},
		{name: "a body with two lengths", kind: "none", script: answers("HTTP/1.1 201 Created\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n{\"id\":\"p1\"}\r\n0\r\n\r\n"),
			attempts: []string{created}, ends: "success applied applied", check: func(t *testing.T, o told) { o.reference(t, "p1") }},
	}
}

// begunToAnswer: the record tells that there was a beginning.
func begunToAnswer(t *testing.T, o told) {
	t.Helper()
	if notes := o.record[0].Notes; len(notes) != 1 || !strings.Contains(notes[0], "11 bytes of an answer") {
		t.Errorf("notes %q", notes)
	}
}

// cutShort: not all of the request was handed over.
func cutShort(t *testing.T, o told) {
	t.Helper()
	if q := o.record[0].Request; q.BytesHandedOver >= q.BytesTotal {
		t.Errorf("handed over %d of %d bytes", q.BytesHandedOver, q.BytesTotal)
	}
}
