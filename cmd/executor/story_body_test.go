//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"fmt"
	"testing"

	"executor/client"
	"executor/internal/testkit"
)

// bodyStories are about what stands in requests and answers: it arrives, is kept
// and is shown byte for byte, and whatever it is, no command gets stuck on it.
func bodyStories() []story {
	const great = `{"id":9007199254740993,"amount":12345678901234567890.10,"nothing":-0,"much":1e400}`
	return []story{
		{name: "201 cut in its body, keyed", kind: "keyed", meets: "truncate=10",
			attempts: []string{"partial_response body_truncated applied 201"}, ends: "success applied applied", effects: 1, check: incomplete},
		{name: "201 cut in its body, no key", kind: "none", meets: "truncate=10",
			attempts: []string{"partial_response body_truncated applied 201"}, ends: "success applied applied", effects: 1, check: incomplete},
		{name: "201 cut in the body that is needed, keyed", kind: "keyed", meets: "truncate=10,times=1", operation: strict,
			attempts: []string{"partial_response body_truncated unclear 201", created}, ends: "success applied applied", effects: 1},
		{name: "201 cut in the body that is needed, no key", kind: "none", meets: "truncate=10", operation: strict,
			attempts: []string{"partial_response body_truncated unclear 201"}, ends: "unresolved partial_response ambiguous", effects: 1},
		{name: "200 cut in the body that is needed, natural", kind: "natural", meets: "truncate=10,times=1", operation: strict,
			attempts: []string{"partial_response body_truncated unclear 200", done}, ends: "success applied applied", effects: 2},
		{name: "200 cut in the body that is needed, safe", kind: "safe", meets: "truncate=10,times=1", operation: settings{"result": "{require: [has(json.items)]}"},
			attempts: []string{"partial_response body_truncated unclear 200", done}, ends: "success applied applied"},
		{name: "422 cut in its body", kind: "none", meets: "status=422,truncate=10",
			attempts: []string{"partial_response body_truncated refused 422"}, ends: "rejected refused refused"},
		{name: "502 cut in its body, keyed", kind: "keyed", meets: "status=502,truncate=10,times=1",
			attempts: []string{"partial_response body_truncated unclear 502", created}, ends: "success applied applied", effects: 1},
		{name: "201 that stalls in its body", kind: "none", operation: settings{"timeouts": "{total: 4s}"},
			script: func(p *peer) {
				p.ReadRequest()
				p.Send("HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{")
				p.Drain()
			},
			attempts: []string{"partial_response body_timeout applied 201"}, ends: "success applied applied",
			check: func(t *testing.T, o told) { incomplete(t, o); o.timedOut(t, "body") }},
		{name: "201 that ends with the connection, whole", kind: "none", script: answers("HTTP/1.1 201 Created\r\n\r\n{\"id\":\"p1\"}"), operation: strict,
			attempts: []string{created}, ends: "success applied applied", check: func(t *testing.T, o told) { o.reference(t, "p1") }},
		{name: "201 that ends with the connection, cut", kind: "none", script: answers("HTTP/1.1 201 Created\r\n\r\n{\"id\":\"p1\""), operation: strict,
			attempts: []string{"partial_response body_truncated unclear 201"}, ends: "unresolved partial_response ambiguous"},
		{name: "201 without the promised id", kind: "none", script: answers(testkit.Reply(201, `{}`)), operation: strict,
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied"},

		{name: "201 in gzip that nobody asked for", kind: "none", meets: "gzip", operation: strict,
			attempts: []string{created}, ends: "success applied applied", effects: 1,
			check: func(t *testing.T, o told) { o.reference(t, o.took[0]) }},
		{name: "201 in broken gzip, and it is needed", kind: "keyed", meets: "gzip=broken", operation: strict,
			attempts: []string{"response_received body_undecodable unclear 201"}, ends: "unresolved unclear_response status_denied", effects: 1},
		{name: "201 in broken gzip, and it is not needed", kind: "none", meets: "gzip=broken",
			attempts: []string{"response_received body_undecodable applied 201"}, ends: "success applied applied", effects: 1},
		{name: "201 that says gzip and is plain", kind: "none", operation: strict,
			script:   answers(response("201 Created", "Content-Encoding: gzip\r\n", `{"id":"p1"}`)),
			attempts: []string{"response_received body_undecodable unclear 201"}, ends: "unresolved unclear_response status_denied"},

		{name: "a small answer that unpacks to three megabytes", kind: "none", script: answers(response("201 Created", "Content-Encoding: gzip\r\n", zipped(padded(3<<20)))),
			attempts: []string{created}, ends: "success applied applied", check: incomplete},
		{name: "it unpacks to three megabytes, and it is needed", kind: "none", operation: strict,
			script:   answers(response("201 Created", "Content-Encoding: gzip\r\n", zipped(padded(3<<20)))),
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied"},

		{name: "great numbers there and back", kind: "keyed", change: func(sub *client.Submission) { sub.Body = []byte(great) },
			script: func(p *peer) {
				p.Serve(func(q testkit.RawRequest) string { return testkit.Reply(201, string(q.Body)) })
			},
			attempts: []string{created}, ends: "success applied applied",
			check: func(t *testing.T, o told) {
				o.reference(t, "9007199254740993")
				if !bytes.Contains(o.command.JSON(), []byte(`"body":`+great)) {
					t.Errorf("the body is not shown as it came: %s", o.command.JSON())
				}
			}},
		{name: "an answer that names a member twice", kind: "none", script: answers(testkit.Reply(201, `{"id":"p1","id":"p2"}`)),
			attempts: []string{created}, ends: "success applied applied", check: answeredWith(`{"id":"p1","id":"p2"}`, "")},
		{name: "an answer that names a member twice, and it is needed", kind: "none", script: answers(testkit.Reply(201, `{"id":"p1","id":"p2"}`)), operation: strict,
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied"},
		{name: "an answer that is not UTF-8", kind: "none", script: answers(testkit.Reply(201, "{\"id\":\"p\xff\"}")),
			attempts: []string{created}, ends: "success applied applied", check: answeredWith("{\"id\":\"p\xff\"}", "")},
		{name: "an answer with an escaped NUL", kind: "none", script: answers(testkit.Reply(201, `{"id":"p1","note":"a\u0000b"}`)),
			attempts: []string{created}, ends: "success applied applied", check: answeredWith(`{"id":"p1","note":"a\u0000b"}`, "p1")},
		{name: "an answer with a NUL byte", kind: "none", script: answers(testkit.Reply(201, "a\x00b")),
			attempts: []string{created}, ends: "success applied applied", check: answeredWith("a\x00b", "")},
		{name: "a reference with a NUL", kind: "none", script: answers(testkit.Reply(201, `{"id":"p\u00001"}`)),
			attempts: []string{created}, ends: "success applied applied", check: answeredWith(`{"id":"p\u00001"}`, "")},
		{name: "a refusal with a NUL", kind: "none", script: answers(testkit.Reply(422, `{"error":{"code":"no\u0000","message":"a\u0000b\ud800"}}`)),
			attempts: []string{refused}, ends: "rejected refused refused"},
		{name: "a header that is not ASCII", kind: "none", script: answers(response("201 Created", "X-Odd: a\xffb\r\n", `{"id":"p1"}`)),
			attempts: []string{created}, ends: "success applied applied", check: func(t *testing.T, o told) { o.reference(t, "p1") }},
		{name: "a header that no header may be", kind: "none", script: answers(response("201 Created", "X-Odd: a\x01b\r\n", `{"id":"p1"}`)),
			attempts: []string{lost}, ends: "unresolved no_response ambiguous"},
		{name: "an empty answer", kind: "none", script: answers(response("201 Created", "", "")),
			attempts: []string{created}, ends: "success applied applied", check: answeredWith("", "")},
		{name: "an answer nested a thousand times", kind: "none", script: answers(testkit.Reply(201, nested(1000))),
			attempts: []string{created}, ends: "success applied applied", check: answeredWith(nested(1000), "")},

		{name: "an answer of three megabytes", kind: "none", script: answers(testkit.Reply(201, padded(3<<20))),
			attempts: []string{created}, ends: "success applied applied", check: incomplete},
		{name: "an answer of three megabytes, and it is needed", kind: "none", script: answers(testkit.Reply(201, padded(3<<20))), operation: strict,
			attempts: []string{"response_received unclear 201"}, ends: "unresolved unclear_response status_denied"},
		{name: "a refusal of three megabytes", kind: "none", script: answers(testkit.Reply(400, padded(3<<20))),
			attempts: []string{"response_received refused 400"}, ends: "rejected refused refused"},
		{name: "an answer that is more than is kept", kind: "none", script: answers(testkit.Reply(201, padded(100<<10))), operation: strict,
			attempts: []string{created}, ends: "success applied applied",
			check: func(t *testing.T, o told) { o.reference(t, "p1"); incomplete(t, o) }},

		{name: "a form", kind: "keyed", meets: "commit,drop,times=1", operation: settings{"body": "form"},
			change: func(sub *client.Submission) {
				sub.Body = []byte(`{"amount": 1.50, "note": "a b&c", "tags": ["x", "y"]}`)
			},
			arrives:  "amount=1.50&note=a+b%26c&tags=x&tags=y",
			attempts: []string{lost, created}, ends: "success applied applied", effects: 1},
		{name: "a form that is encoded already", kind: "keyed", meets: "commit,drop,times=1",
			operation: settings{"body": "form", "idempotency": "{kind: keyed, key: {in: body, name: /idempotency_key}, retention: 24h}"},
			change: func(sub *client.Submission) {
				sub.Body, sub.BodyBytes, sub.ContentType = nil, []byte("amount=%31&x=%20"), "application/x-www-form-urlencoded"
			},
			arrives:  "amount=%31&x=%20&idempotency_key={key}",
			attempts: []string{lost, created}, ends: "success applied applied", effects: 1},
		{name: "bytes that are no text", kind: "keyed", operation: settings{"body": "raw"}, script: answers("", testkit.Reply(201, `{"id":"p1"}`)),
			change: func(sub *client.Submission) {
				sub.Body, sub.BodyBytes = nil, []byte("\x00\xff\r\n\r\nGET / HTTP/1.1\r\n\r\n")
			},
			attempts: []string{lost, created}, ends: "success applied applied"},
		{name: "a one-shot body", kind: "keyed", meets: "commit,drop,times=1", change: func(sub *client.Submission) { sub.OneShot = true },
			attempts: []string{lost}, ends: "unresolved no_response body_not_replayable", effects: 1},
		{name: "a one-shot body that was not sent", kind: "keyed", base: toNobody, change: func(sub *client.Submission) { sub.OneShot = true },
			attempts: []string{noConnection}, ends: "cancelled never_sent body_not_replayable"},
		{name: "a file that is the body", kind: "keyed", operation: settings{"body": "raw"}, script: answers("", testkit.Reply(201, `{"id":"p1"}`)),
			change: func(sub *client.Submission) {
				sub.Body, sub.BodyFile = nil, &client.BodyFile{Path: "in/a", Size: int64(len(fileContent)), SHA256: fileDigest}
			},
			arrives: fileContent, attempts: []string{lost, created}, ends: "success applied applied",
			check: func(t *testing.T, o told) {
				if o.command.BodyKind != client.BodyReopenable {
					t.Errorf("the body is %s", o.command.BodyKind)
				}
			}},
		{name: "a parameter that looks like a path", kind: "keyed", script: answers("", testkit.Reply(201, `{"id":"p1"}`)),
			change:   func(sub *client.Submission) { sub.Params["account"] += "/b?x=1#f %2e" },
			attempts: []string{lost, created}, ends: "success applied applied",
			check: func(t *testing.T, o told) {
				if want := fmt.Sprintf("/v1/accounts/%s%%2Fb%%3Fx%%3D1%%23f%%20%%252e/payments", o.token); o.wire[0].target != want {
					t.Errorf("asked for %s, want %s", o.wire[0].target, want)
				}
			}},
	}
}

// fileContent stands in the file in/a of the tenant.
const (
	fileContent = "\x00\xff--\r\n from a file"
	fileDigest  = "33b12c5469c874128d5ef71182346e9703f411b1f613ebfca85c8e058812ecbd"
)

// incomplete: it was done for certain, and not all of the answer is there.
func incomplete(t *testing.T, o told) {
	t.Helper()
	if r := o.result(t); !r.Incomplete || r.Status != o.record[len(o.record)-1].Status {
		t.Errorf("the result is said to be complete: %d %.100q", r.Status, r.Body)
	}
}

// answeredWith: the answer is kept and shown as it came.
func answeredWith(body, reference string) func(*testing.T, told) {
	return func(t *testing.T, o told) {
		t.Helper()
		if r := o.result(t); string(r.Body) != body || r.Incomplete || r.Reference != reference {
			t.Errorf("result %q of %q, incomplete %t, want %q of %q", r.Body, r.Reference, r.Incomplete, body, reference)
		}
		if got := o.record[len(o.record)-1].Response; string(got.Body) != body || got.Truncated {
			t.Errorf("on record is %q, truncated %t, want %q", got.Body, got.Truncated, body)
		}
	}
}
