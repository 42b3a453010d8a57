//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"syscall"
	"testing"

	"executor/client"
	"executor/internal/testkit"
)

// twoProcesses: what one process accepts the other one sends, too. The upstream
// answers nobody until it hears from both.
func (s *stage) twoProcesses(t *testing.T) {
	other := s.serve()
	both := make(chan struct{})
	pl := s.one(t, story{
		name: "two processes", kind: "none", profile: settings{"limits": "{max_in_flight: 4}"}, attempts: []string{created}, ends: "success applied applied",
		script: func(p *peer) {
			if _, ok := p.ReadRequest(); !ok {
				return
			}
			select {
			case <-both:
				p.Send(testkit.Reply(201, `{"id":"p1"}`))
			case <-p.of.over:
			}
		},
	})
	var list []*running
	for range 12 {
		list = append(list, pl.submit(t))
	}
	list[0].until(t, "an attempt of each process", func(client.Command) bool { return len(instances(t, list)) == 2 })
	close(both)
	for _, r := range list {
		r.end(t)
	}
	other.Signal(syscall.SIGTERM)
	if code := other.Wait(); code != exitSuccess {
		t.Errorf("the second process ended with code %d", code)
	}
}

// instances are the processes that made the attempts of some commands.
func instances(t *testing.T, list []*running) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, r := range list {
		attempts, err := r.api.Attempts(bounded(t), r.command.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range attempts {
			found[a.Instance] = true
		}
	}
	return found
}

// freezeAndResume: nothing is sent any more, what is on the wire ends by itself, and
// everything else goes on.
func (s *stage) freezeAndResume(t *testing.T) {
	h := newHolding()
	pl := s.one(t, story{name: "freeze and resume", kind: "none", script: h.script, attempts: []string{created}, ends: "success applied applied"})
	first := pl.submit(t)
	first.onTheWire(t)
	if d, err := s.api.Freeze(bounded(t), "a story"); err != nil || !d.Frozen {
		t.Fatalf("freeze: %+v, %v", d, err)
	}
	second := pl.submit(t)
	second.waitsFor(t, "frozen")
	h.answer <- testkit.Reply(201, `{"id":"p1"}`)
	first.end(t)
	if c := second.now(t); c.State != client.StatePending || c.Record.Attempts != 0 {
		t.Errorf("while all is frozen it is %s", c.JSON())
	}
	if d, err := s.api.Resume(bounded(t)); err != nil || d.Frozen {
		t.Fatalf("resume: %+v, %v", d, err)
	}
	h.answer <- testkit.Reply(201, `{"id":"p1"}`)
	second.end(t)
}
