//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"executor/internal/testkit"
	"executor/outcome"
)

// reusing keeps connections for the next command.
var reusing = settings{"connection": "{fresh: auto, idle: 1m}"}

// What comes after the first response is nobody's answer.
func (s *stage) leftover(t *testing.T) {
	for _, kind := range []outcome.Idempotency{"keyed", "natural"} {
		t.Run(string(kind), func(t *testing.T) {
			pl := s.one(t, story{
				name: "leftover " + string(kind), kind: kind, profile: reusing, attempts: []string{created}, ends: "success applied applied",
				script: func(p *peer) {
					p.Serve(func(testkit.RawRequest) string {
						return testkit.Reply(201, fmt.Sprintf(`{"id":"own-%d"}`, p.Number)) + testkit.Reply(201, `{"id":"leftover"}`)
					})
				},
			})
			for n := 1; n <= 3; n++ {
				o := pl.submit(t).end(t)
				o.reference(t, fmt.Sprintf("own-%d", n))
				if c := o.record[0].Connection; c.Reused || len(o.record[0].Notes) == 0 {
					t.Errorf("reused %t, notes %q", c.Reused, o.record[0].Notes)
				}
			}
		})
	}
}

// noSilentRepeat: some HTTP clients send a request anew by themselves when a
// connection dies that was idle before, if there is a key or if the method allows
// it. Here each request is an attempt.
func (s *stage) noSilentRepeat(t *testing.T) {
	for _, kind := range []outcome.Idempotency{"keyed", "natural"} {
		t.Run(string(kind), func(t *testing.T) {
			u := &dying{idle: 3, together: make(chan struct{})}
			pl := s.one(t, story{name: "no silent repeat " + string(kind), kind: kind, profile: reusing, script: u.script, ends: "success applied applied"})
			var warm []*running
			for range u.idle {
				warm = append(warm, pl.submit(t))
			}
			for _, r := range warm {
				r.endsAs(t, pl.ends, created)
			}
			o := pl.submit(t).endsAs(t, pl.ends, lost, created)
			if c := o.record[0].Connection; !c.Reused {
				t.Error("the first attempt was not made on a connection that was idle before")
			}
			if n := len(pl.made.server.Requests()); n != u.idle+2 {
				t.Errorf("the upstream saw %d requests, want %d", n, u.idle+2)
			}
		})
	}
}

// dying is an upstream that gets its first requests at the same time, each on a
// connection of its own, and ends the connection of the next one unanswered.
type dying struct {
	idle     int
	together chan struct{}

	mu sync.Mutex
	n  int
}

func (d *dying) script(p *peer) {
	p.Serve(func(testkit.RawRequest) string {
		d.mu.Lock()
		d.n++
		n := d.n
		if n == d.idle {
			close(d.together)
		}
		d.mu.Unlock()
		if n == d.idle+1 {
			return ""
		}
		<-d.together
		return testkit.Reply(201, `{"id":"p1"}`)
	})
}

// timeoutOnReused: a 408 on a connection that was idle may have been sent before
// the request came, and says nothing about it.
func (s *stage) timeoutOnReused(t *testing.T) {
	for _, kind := range []outcome.Idempotency{"keyed", "natural"} {
		t.Run(string(kind), func(t *testing.T) {
			var n atomic.Int32
			pl := s.one(t, story{
				name: "timeout on reused " + string(kind), kind: kind, profile: reusing, ends: "success applied applied",
				script: func(p *peer) {
					p.Serve(func(testkit.RawRequest) string {
						if n.Add(1) == 2 {
							return response("408 Request Timeout", "Connection: close\r\n", "")
						}
						return testkit.Reply(201, `{"id":"p1"}`)
					})
				},
			})
			pl.submit(t).endsAs(t, pl.ends, created)
			pl.submit(t).endsAs(t, pl.ends, "response_received unclear 408", created)
		})
	}
}
