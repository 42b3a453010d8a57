//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
)

// impatient are the timeouts of an operation whose answer is not waited for long.
var impatient = settings{"timeouts": "{response_header: 4s}"}

// lostStories are about answers that never came. What follows depends on what the
// upstream promises about a repeat, never on what it really did.
func lostStories() []story {
	return []story{
		{name: "answer lost after the effect, keyed", kind: "keyed", meets: "commit,drop,times=1",
			attempts: []string{lost, created}, ends: "success applied applied", effects: 1},
		{name: "answer lost after the effect, no key", kind: "none", meets: "commit,drop",
			attempts: []string{lost}, ends: "unresolved no_response ambiguous", effects: 1},
		{name: "answer lost after the effect, natural", kind: "natural", meets: "commit,drop,times=1",
			attempts: []string{lost, done}, ends: "success applied applied", effects: 2},
		{name: "answer lost, safe", kind: "safe", meets: "drop,times=1",
			attempts: []string{lost, done}, ends: "success applied applied"},

		{name: "dropped before the effect, keyed", kind: "keyed", meets: "drop,times=1",
			attempts: []string{lost, created}, ends: "success applied applied", effects: 1},
		{name: "dropped before the effect, no key", kind: "none", meets: "drop",
			attempts: []string{lost}, ends: "unresolved no_response ambiguous"},
		{name: "dropped before the effect, natural", kind: "natural", meets: "drop,times=1",
			attempts: []string{lost, done}, ends: "success applied applied", effects: 1},

		{name: "reset after the effect, keyed", kind: "keyed", meets: "commit,reset,times=1",
			attempts: []string{lost, created}, ends: "success applied applied", effects: 1},
		{name: "reset after the effect, no key", kind: "none", meets: "commit,reset",
			attempts: []string{lost}, ends: "unresolved no_response ambiguous", effects: 1},

		{name: "every answer lost, keyed", kind: "keyed", meets: "commit,drop",
			attempts: []string{lost, lost, lost}, ends: "unresolved no_response max_attempts", effects: 1},
		{name: "every answer lost, natural", kind: "natural", meets: "drop",
			attempts: []string{lost, lost, lost}, ends: "unresolved no_response max_attempts"},
		{name: "every answer lost, safe", kind: "safe", meets: "drop",
			attempts: []string{lost, lost, lost}, ends: "cancelled no_effect max_attempts"},

		{name: "stalled after the effect, keyed", kind: "keyed", meets: "commit,stall,times=1", operation: impatient,
			attempts: []string{silence, created}, ends: "success applied applied", effects: 1, check: headersTimedOut},
		{name: "stalled after the effect, no key", kind: "none", meets: "commit,stall", operation: impatient,
			attempts: []string{silence}, ends: "unresolved no_response ambiguous", effects: 1, check: headersTimedOut},
		{name: "stalled before the effect, no key", kind: "none", meets: "stall", operation: impatient,
			attempts: []string{silence}, ends: "unresolved no_response ambiguous", check: headersTimedOut},
		{name: "stalled before the effect, keyed", kind: "keyed", operation: impatient,
			script:   answers(never, testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{silence, created}, ends: "success applied applied", check: headersTimedOut},
		{name: "stalled after the effect, natural", kind: "natural", meets: "commit,stall,times=1", operation: impatient,
			attempts: []string{silence, done}, ends: "success applied applied", effects: 2, check: headersTimedOut},
		{name: "stalled, safe", kind: "safe", meets: "stall,times=1", operation: impatient,
			attempts: []string{silence, done}, ends: "success applied applied", check: headersTimedOut},
		{name: "stalled beyond the whole attempt", kind: "none", meets: "commit,stall", operation: settings{"timeouts": "{total: 2s}"},
			attempts: []string{"sent_no_response attempt_timeout"}, ends: "unresolved no_response ambiguous", effects: 1,
			check: func(t *testing.T, o told) { o.timedOut(t, "total") }},
		// The attempt ends a little before the deadline: by as much as its beginning took.
		{name: "the deadline passes while the answer is waited for", kind: "none", meets: "commit,stall",
			operation: settings{"retry": "{min_attempt_window: 4s}"},
			change:    func(sub *client.Submission) { sub.Timeout = 8 * time.Second },
			attempts:  []string{"sent_no_response attempt_timeout"}, ends: "unresolved no_response deadline", effects: 1},

		// The upstream may have read all of it, or nothing.
		{name: "the upstream stops reading", kind: "none", listens: []testkit.RawOption{testkit.RawReadBuffer(4 << 10)}, change: largeBody,
			script:   func(p *peer) { p.ReadHead(); p.Reset() },
			attempts: []string{"sent_no_response write_failure"}, ends: "unresolved no_response ambiguous"},
	}
}

func headersTimedOut(t *testing.T, o told) {
	t.Helper()
	o.timedOut(t, "response_header")
}

// timedOut checks the last timeout on record.
func (o told) timedOut(t *testing.T, kind string) {
	t.Helper()
	if last := o.command.Record.LastTimeout; last == nil || last.Kind != kind {
		t.Errorf("last timeout %+v, want %s", last, kind)
	}
}
