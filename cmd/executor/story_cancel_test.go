//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"testing"

	"executor/client"
	"executor/internal/testkit"
	"executor/outcome"
)

func (s *stage) cancelledBefore(t *testing.T) {
	pl := s.one(t, story{name: "cancelled before", kind: "none", meets: "commit", ends: "cancelled cancelled_by_caller cancel_requested"})
	s.pause(t, pl.upstream)
	r := pl.submit(t)
	if c := r.again(t); c.State != client.StatePending || c.Waiting == nil || c.Waiting.For != "paused" {
		t.Errorf("submitted again while it waits: %s", c.JSON())
	}
	if c := r.cancel(t, client.CancelCancelled); c.State != client.StateCancelled {
		t.Errorf("it is not over in the same request: %s", c.JSON())
	}
	s.resume(t, pl.upstream)
	r.end(t)
}

// The request on the wire is not cut off, and its answer decides.
func (s *stage) cancelledDuring(t *testing.T) {
	for _, tt := range []struct {
		name          string
		kind          outcome.Idempotency
		answer        string
		ends, attempt string
	}{
		{"201", "none", testkit.Reply(201, `{"id":"p1"}`), "success applied applied", created},
		{"422", "keyed", testkit.Reply(422, `{}`), "rejected refused refused", refused},
		{"429", "keyed", testkit.Reply(429, `{}`), "cancelled cancelled_by_caller cancel_requested", throttled},
		{"503", "keyed", testkit.Reply(503, `{}`), "unresolved unclear_response cancel_requested", "response_received unclear 503"},
		{"nothing", "keyed", "", "unresolved no_response cancel_requested", lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHolding()
			r := s.one(t, story{name: "cancelled during " + tt.name, kind: tt.kind, script: h.script}).submit(t)
			r.onTheWire(t)
			if c := r.again(t); c.State != client.StateExecuting {
				t.Errorf("submitted again while it is on the wire: %s", c.JSON())
			}
			if c := r.cancel(t, client.CancelRequested); !c.CancelRequested || c.Final {
				t.Errorf("cancelled while it is on the wire: %s", c.JSON())
			}
			h.answer <- tt.answer
			r.endsAs(t, tt.ends, tt.attempt)
		})
	}
}

func (s *stage) cancelledBetween(t *testing.T) {
	for _, tt := range []struct {
		name          string
		kind          outcome.Idempotency
		meets         string
		result        client.CancelResult
		ends, attempt string
	}{
		{"after 429", "keyed", "status=429,retry_after=3600", client.CancelCancelled, "cancelled cancelled_by_caller cancel_requested", throttled},
		{"after 429 no key", "none", "status=429,retry_after=3600", client.CancelCancelled, "cancelled cancelled_by_caller cancel_requested", throttled},
		{"after a doubt", "keyed", "status=503,retry_after=3600", client.CancelInDoubt, "unresolved unclear_response cancel_requested", "response_received unclear 503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := s.one(t, story{
				name: "cancelled between " + tt.name, kind: tt.kind, meets: tt.meets, profile: settings{"deadline": "3h"},
			}).submit(t)
			if c := r.waitsFor(t, "backoff"); c.NextAttemptAt == nil || c.Record.Attempts != 1 {
				t.Errorf("between two attempts it is %s", c.JSON())
			}
			r.cancel(t, tt.result)
			r.endsAs(t, tt.ends, tt.attempt)
		})
	}
}

func (s *stage) cancelledAfter(t *testing.T) {
	for _, tt := range []struct {
		meets, ends, attempt string
		effects              int
		result               client.CancelResult
	}{
		{"commit", "success applied applied", created, 1, client.CancelTooLate},
		{"status=422", "rejected refused refused", refused, 0, client.CancelTooLate},
		{"status=429,retry_after=3600", "cancelled declined deadline", throttled, 0, client.CancelTooLate},
		{"commit,drop", "unresolved no_response ambiguous", lost, 1, client.CancelInDoubt},
	} {
		t.Run(tt.meets, func(t *testing.T) {
			r := s.one(t, story{name: "cancelled after " + tt.meets, kind: "none", meets: tt.meets, effects: tt.effects}).submit(t)
			before := r.endsAs(t, tt.ends, tt.attempt).command
			if after := r.cancel(t, tt.result); after.State != before.State {
				t.Errorf("a cancel changed %s to %s", before.State, after.State)
			}
			r.endsAs(t, tt.ends, tt.attempt)
		})
	}
}
