//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
)

// interference is a story in which somebody does more than submit and wait.
type interference struct {
	name string
	tell func(*testing.T)
}

func (s *stage) interferences() []interference {
	return []interference{
		{"cancelled before the first attempt", s.cancelledBefore},
		{"cancelled while the answer is on its way", s.cancelledDuring},
		{"cancelled between attempts", s.cancelledBetween},
		{"cancelled after the end", s.cancelledAfter},
		{"the deadline passes in a paused upstream", s.deadlineInPause},
		{"pause and resume", s.pauseAndResume},
		{"not before a moment", s.notBefore},
		{"a throttle holds back the others", s.throttleHoldsBack},
		{"one at a time", s.oneAtATime},
		{"a second response is left over", s.leftover},
		{"the connection dies under a repeatable request", s.noSilentRepeat},
		{"408 on a connection that was idle", s.timeoutOnReused},
		{"the profile's own proxy", s.throughProxy},
		{"fifty identical submits at once", s.fiftyAtOnce},
		{"another request under a known key", s.keyReused},
		{"a new profile while a command waits", s.pinned},
		{"a token that is rotated between attempts", s.rotated},
		{"what is never accepted", s.refusedAtTheDoor},
		{"where no profile may lead", s.nowhere},
	}
}

func (s *stage) pause(t *testing.T, upstream string) {
	t.Helper()
	u, err := s.api.PauseUpstream(bounded(t), upstream, "a story")
	if err != nil || u.Paused == nil {
		t.Fatalf("pause: %+v, %v", u, err)
	}
}

func (s *stage) resume(t *testing.T, upstream string) {
	t.Helper()
	u, err := s.api.ResumeUpstream(bounded(t), upstream)
	if err != nil || u.Paused != nil {
		t.Fatalf("resume: %+v, %v", u, err)
	}
}

func (s *stage) pauseAndResume(t *testing.T) {
	pl := s.one(t, story{name: "pause and resume", kind: "none", meets: "commit", attempts: []string{created}, ends: "success applied applied", effects: 1})
	s.pause(t, pl.upstream)
	r := pl.submit(t)
	r.waitsFor(t, "paused")
	s.resume(t, pl.upstream)
	r.end(t)
}

// shortly is a deadline that comes soon.
func shortly(sub *client.Submission) { sub.Timeout = 2 * time.Second }

func (s *stage) deadlineInPause(t *testing.T) {
	pl := s.one(t, story{name: "deadline in pause", kind: "keyed", meets: "commit", change: shortly, ends: "cancelled never_sent deadline"})
	s.pause(t, pl.upstream)
	r := pl.submit(t)
	r.end(t)
	s.resume(t, pl.upstream)
}

func (s *stage) notBefore(t *testing.T) {
	pl := s.one(t, story{name: "not before", kind: "none", meets: "commit", attempts: []string{created}, ends: "success applied applied", effects: 1})
	soon, late := time.Now().Add(time.Second).Truncate(time.Microsecond), time.Now().Add(time.Hour)
	first := pl.submitWith(t, func(sub *client.Submission) { sub.NotBefore = soon })
	second := pl.submitWith(t, func(sub *client.Submission) { sub.NotBefore = late })
	if c := second.waitsFor(t, "not_before"); c.NextAttemptAt == nil || c.NextAttemptAt.Before(late.Truncate(time.Microsecond)) {
		t.Errorf("accepted as %s", c.JSON())
	}
	if o := first.end(t); o.record[0].StartedAt.Before(soon) {
		t.Errorf("started at %s, not before %s", o.record[0].StartedAt, soon)
	}
	second.cancel(t, client.CancelCancelled)
	second.neverSent(t)
}

// One command is told to come back, and the others need not ask.
func (s *stage) throttleHoldsBack(t *testing.T) {
	pl := s.one(t, story{
		name: "throttle holds back", kind: "none", profile: settings{"retry": "{backoff: {initial: 20ms}}", "deadline": "3h"}, // and the pause, by default
		meets: "status=429,retry_after=3600",
	})
	first := pl.submit(t)
	first.waitsFor(t, "backoff")
	second := pl.submit(t)
	second.waitsFor(t, "throttle")
	if u, err := s.api.Upstream(bounded(t), pl.upstream); err != nil || u.ThrottledUntil == nil {
		t.Errorf("throttled until %v, %v", u.ThrottledUntil, err)
	}
	first.cancel(t, client.CancelCancelled)
	second.cancel(t, client.CancelCancelled)
	first.endsAs(t, "cancelled cancelled_by_caller cancel_requested", throttled)
	second.neverSent(t)
}

// The second one waits for its turn, and says so.
func (s *stage) oneAtATime(t *testing.T) {
	for name, limits := range map[string]string{"permit": "{max_in_flight: 1}", "rate": "{rate: {per_second: 0.001, burst: 1}}"} {
		t.Run(name, func(t *testing.T) {
			h := newHolding()
			pl := s.one(t, story{name: "one at a time by " + name, kind: "none", profile: settings{"limits": limits}, script: h.script})
			first := pl.submit(t)
			first.onTheWire(t)
			second := pl.submit(t)
			second.waitsFor(t, name)
			h.answer <- testkit.Reply(201, `{"id":"p1"}`)
			first.endsAs(t, "success applied applied", created)
			if name == "rate" {
				second.cancel(t, client.CancelCancelled)
				second.neverSent(t)
				return
			}
			h.answer <- testkit.Reply(201, `{"id":"p1"}`)
			second.endsAs(t, "success applied applied", created)
		})
	}
}

// pinned: a command keeps the contract and the place under which it was accepted.
func (s *stage) pinned(t *testing.T) {
	pl := s.one(t, story{
		name: "pinned", kind: "keyed", script: answers("", testkit.Reply(201, `{"id":"p1"}`)),
		attempts: []string{lost, created}, ends: "success applied applied",
	})
	s.pause(t, pl.upstream)
	r := pl.submit(t)
	s.apply(t, pl.upstream, toNobody, nil, map[string]settings{pl.operation: {"method": "DELETE", "path": "/other"}})
	s.resume(t, pl.upstream)
	if o := r.end(t); o.command.ProfileVersion != 1 {
		t.Errorf("it ended under version %d", o.command.ProfileVersion)
	}
}
