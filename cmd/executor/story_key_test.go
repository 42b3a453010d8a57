//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"testing"

	"executor/client"
	"executor/internal/testkit"
)

const (
	exists     = `{"code":"already_exists","id":"p7"}`
	inProgress = `{"code":"in_progress"}`

	existsIsOurs    = `{when: status == 409 && json.code == "already_exists" && in_doubt, answer: applied, reference: json.id}`
	progressIsOurs  = `{when: status == 409 && json.code == "in_progress" && in_doubt, answer: declined}`
	progressIsAlien = `{when: status == 409 && json.code == "in_progress", answer: unclear}`
)

// keyStories are about what an upstream promises of idempotency keys: how long it
// knows them, what it stores under them, and what it says when one comes again.
func keyStories() []story {
	return []story{
		{name: "a repeat is told that it exists already", kind: "keyed", operation: ruled(existsIsOurs),
			script:   answers("", testkit.Reply(409, exists)),
			attempts: []string{lost, "response_received applied 409"}, ends: "success applied applied",
			check: func(t *testing.T, o told) { o.reference(t, "p7") }},
		{name: "the first request is told that it exists already", kind: "keyed", operation: ruled(existsIsOurs),
			script:   answers(testkit.Reply(409, exists)),
			attempts: []string{"response_received refused 409"}, ends: "rejected refused refused"},
		{name: "it exists already, and nothing of ours was done", kind: "keyed", operation: ruled(existsIsOurs),
			script:   answers(testkit.Reply(429, `{}`), testkit.Reply(409, exists)),
			attempts: []string{throttled, "response_received refused 409"}, ends: "rejected refused refused"},
		{name: "a repeat is told that it is in progress", kind: "keyed", operation: ruled(progressIsOurs + "," + progressIsAlien),
			script:   answers("", testkit.Reply(409, inProgress), testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{lost, "response_received declined 409", created}, ends: "success applied applied"},
		{name: "the first request is told that it is in progress", kind: "keyed", operation: ruled(progressIsOurs + "," + progressIsAlien),
			script:   answers(testkit.Reply(409, inProgress)),
			attempts: []string{"response_received unclear 409"}, ends: "unresolved unclear_response status_denied"},

		// A refusal speaks for its own attempt, unless the upstream promises more.
		{name: "refused after a doubt", kind: "keyed", script: answers("", testkit.Reply(422, `{}`)),
			attempts: []string{lost, refused}, ends: "unresolved no_response refused"},
		{name: "refused after an unclear answer", kind: "keyed", script: answers(testkit.Reply(502, `{}`), testkit.Reply(422, `{}`)),
			attempts: []string{"response_received unclear 502", refused}, ends: "unresolved unclear_response refused"},
		{name: "refused after a doubt, natural", kind: "natural", script: answers("", testkit.Reply(422, `{}`)),
			attempts: []string{lost, refused}, ends: "unresolved no_response refused"},
		{name: "refused after a lost answer, safe", kind: "safe", script: answers("", testkit.Reply(422, `{}`)),
			attempts: []string{lost, refused}, ends: "rejected refused refused"},
		{name: "refused with authority after a doubt", kind: "keyed", operation: settings{"idempotency": keyed("authoritative_refusals: [422]")},
			script:   answers("", testkit.Reply(422, `{"error":{"code":"no_funds","message":"No."}}`)),
			attempts: []string{lost, refused}, ends: "rejected refused refused",
			check: func(t *testing.T, o told) { o.rejection(t, 422, "no_funds", "No.") }},
		{name: "refused with another status than those of authority", kind: "keyed", operation: settings{"idempotency": keyed("authoritative_refusals: [422]")},
			script:   answers("", testkit.Reply(400, `{}`)),
			attempts: []string{lost, "response_received refused 400"}, ends: "unresolved no_response refused"},
		{name: "throttled beyond the deadline after a doubt", kind: "keyed",
			script:   answers("", response("429 Too Many Requests", "Retry-After: 3600\r\n", "{}")),
			attempts: []string{lost, throttled}, ends: "unresolved no_response deadline"},
		{name: "accepted after a doubt", kind: "keyed", script: answers("", testkit.Reply(202, `{}`)),
			attempts: []string{lost, "response_received pending 202"}, ends: "unresolved remote_pending pending"},

		{name: "a stored error comes back, without the effect", kind: "keyed", meets: "status=500,store_errors",
			operation: settings{"idempotency": keyed("stores_errors: true"), "retry": "{transient_statuses: [500], max_attempts: 9}"},
			attempts:  []string{"response_received unclear 500", "response_received unclear 500"}, ends: "unresolved unclear_response stored_error"},
		{name: "a stored error comes back, with the effect", kind: "keyed", meets: "status=500,store_errors,commit",
			operation: settings{"idempotency": keyed("stores_errors: true"), "retry": "{transient_statuses: [500], max_attempts: 9}"},
			attempts:  []string{"response_received unclear 500", "response_received unclear 500"}, ends: "unresolved unclear_response stored_error", effects: 1},

		{name: "an old doubt, and refused until the key has died", kind: "keyed",
			script: takeOneAndGo, listens: []testkit.RawOption{testkit.RawAddress("127.0.0.9:0")},
			operation: settings{
				"idempotency": "{kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 6s, margin: 0s}",
				"retry":       "{max_attempts: 1000}",
			},
			attempts: []string{lost, noConnection + " +"}, ends: "unresolved no_response ambiguous"},
		{name: "nobody knows how long the key lives", kind: "keyed", meets: "commit,drop",
			operation: settings{"idempotency": "{kind: keyed, key: {in: header, name: Idempotency-Key}}"},
			attempts:  []string{lost}, ends: "unresolved no_response ambiguous", effects: 1},
		{name: "nobody knows how long the key lives, and nothing was done", kind: "keyed", meets: "status=429,times=1",
			operation: settings{"idempotency": "{kind: keyed, key: {in: header, name: Idempotency-Key}}"},
			attempts:  []string{throttled, created}, ends: "success applied applied", effects: 1},
		{name: "only successes are stored under the key", kind: "keyed", meets: "commit,drop", operation: settings{"idempotency": keyed("preserves: success")},
			attempts: []string{lost}, ends: "unresolved no_response ambiguous", effects: 1},
		{name: "only successes are stored, and failures leave nothing", kind: "keyed", meets: "commit,drop,times=1",
			operation: settings{"idempotency": keyed("preserves: success, failures_leave_no_effect: true")},
			attempts:  []string{lost, created}, ends: "success applied applied", effects: 1},

		{name: "the key in the query", kind: "keyed", meets: "commit,drop,times=1",
			operation: settings{"idempotency": "{kind: keyed, key: {in: query, name: idempotency_key}, retention: 24h}"},
			attempts:  []string{lost, created}, ends: "success applied applied", effects: 1},
		{name: "the key in the body", kind: "keyed", meets: "commit,drop,times=1",
			operation: settings{"idempotency": "{kind: keyed, key: {in: body, name: /idempotency_key}, retention: 24h}"},
			change:    func(sub *client.Submission) { sub.Body = []byte(`{ "amount":1.00, "of" : {} }`) },
			arrives:   `{ "amount":1.00, "of" : {},"idempotency_key":"{key}" }`,
			attempts:  []string{lost, created}, ends: "success applied applied", effects: 1},
		{name: "the key from the command", kind: "keyed", meets: "commit,drop,times=1",
			operation: settings{"idempotency": "{kind: keyed, key: {in: header, name: Idempotency-Key, from: command_id}, retention: 24h}"},
			attempts:  []string{lost, created}, ends: "success applied applied", effects: 1,
			check: func(t *testing.T, o told) {
				if key := o.command.Record.Identity.Key; key != o.command.ID {
					t.Errorf("key %q, want the command's id %s", key, o.command.ID)
				}
			}},
		{name: "a mark on repeats", kind: "keyed", operation: settings{"idempotency": keyed(`retry_headers: {X-Repeat: "true"}`)},
			script:   answers("", "", testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{lost, lost, created}, ends: "success applied applied",
			check: func(t *testing.T, o told) {
				for i, want := range []string{"", "true", "true"} {
					if got := o.wire[i].header.Get("X-Repeat"); got != want {
						t.Errorf("request %d carries X-Repeat %q, want %q", i+1, got, want)
					}
				}
			}},
	}
}

// takeOneAndGo reads one request, says nothing and is gone: the listener first, so
// that nobody gets in once this connection has ended.
func takeOneAndGo(p *peer) {
	p.ReadRequest()
	go p.of.server.Close()
	p.Drain()
}
