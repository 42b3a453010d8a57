package attempts_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// TestPermitsAreShared: two processes keep one limit between them.
func TestPermitsAreShared(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var (
		now, most atomic.Int32
		release   = make(chan struct{})
	)
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		if hang(r, release) {
			reply(w, 201, paid)
		}
	})
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", up.URL, time.Minute, "limits: {max_in_flight: 4}"))
	a := startProcess(t, pool, options{})
	b := startProcess(t, pool, options{})
	if err := a.engine.Refresh(context.Background()); err != nil { // a has seen b
		t.Fatal(err)
	}
	var ids []uuid.UUID
	for i := range 16 {
		ids = append(ids, []*process{a, b, front}[i%3].submit(t, order(fmt.Sprintf("k%d", i), "pay")).ID)
	}
	eventually(t, "all permits in use", func() bool { return now.Load() == 4 })
	a.waitsFor(t, ids[len(ids)-1], commands.WaitPermit)
	close(release)
	for _, id := range ids {
		a.final(t, id)
	}
	if most.Load() > 4 {
		t.Errorf("%d in flight at once", most.Load())
	}
	up.verify(t, pool)
}

// TestRateIsShared: two processes share one rate. Each of them has one of the two
// sends that its burst allows; the rest waits until the deadline.
func TestRateIsShared(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, always(201, paid))
	front := startProcess(t, pool, options{idle: true})
	a := startProcess(t, pool, options{})
	b := startProcess(t, pool, options{})
	front.apply(t, brief("up", up.URL, ample, "limits: {rate: {per_second: 0.001, burst: 2}}"))
	var ids []uuid.UUID
	for _, p := range []*process{a, b} {
		if err := p.engine.Refresh(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 8 {
		s := order(fmt.Sprintf("k%d", i), "pay")
		s.Timeout = 4 * time.Second
		ids = append(ids, []*process{a, b}[i%2].submit(t, s).ID)
	}
	a.waitsFor(t, ids[len(ids)-1], commands.WaitRate)
	states := map[outcome.State]int{}
	for _, id := range ids {
		states[a.final(t, id).State]++
	}
	if states[outcome.StateSuccess] != 2 || states[outcome.StateCancelled] != 6 || len(up.all()) != 2 {
		t.Errorf("%d requests; ended %v", len(up.all()), states)
	}
	up.verify(t, pool)
}

// TestThrottle: a 429 with Retry-After holds back all commands of its upstream in
// all processes until then, and none of another.
func TestThrottle(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, func(w http.ResponseWriter, _ *http.Request, order string, n int) {
		if after := map[string]string{"brief-0": "2", "long-0": "600", "ended-0": "600"}[order]; after != "" && n == 1 {
			w.Header().Set("Retry-After", after)
			reply(w, 429, `{}`)
			return
		}
		reply(w, 201, paid)
	})
	a := startProcess(t, pool, options{})
	b := startProcess(t, pool, options{})
	submit := func(p *process, upstream string, i int, timeout time.Duration) uuid.UUID {
		s := order(fmt.Sprintf("%s-%d", upstream, i), "charge")
		s.Upstream, s.Timeout = upstream, timeout
		return p.submit(t, s).ID
	}
	until := map[string]time.Time{}
	for _, name := range []string{"brief", "long", "ended", "other"} {
		a.apply(t, brief(name, up.URL, ample, ""))
	}
	ids := map[string][]uuid.UUID{}
	for _, name := range []string{"brief", "long", "ended"} {
		ids[name] = append(ids[name], submit(a, name, 0, time.Minute))
		eventually(t, "the throttle", func() bool {
			at := query[struct{ ThrottledUntil *time.Time }](t, pool, `SELECT throttled_until FROM upstreams WHERE name = $1`, name)[0].ThrottledUntil
			if at != nil {
				until[name] = *at
			}
			return at != nil
		})
		for i := range 10 {
			ids[name] = append(ids[name], submit([]*process{a, b}[i%2], name, i+1, 4*time.Second+map[string]time.Duration{"brief": time.Minute, "ended": time.Minute}[name]))
		}
	}
	b.waitsFor(t, ids["long"][10], commands.WaitThrottle)
	b.waitsFor(t, ids["ended"][10], commands.WaitThrottle)
	a.apply(t, brief("ended", up.URL, ample, "  throttle_pauses_upstream: false"))
	if c := b.final(t, submit(b, "other", 0, time.Minute)); c.State != outcome.StateSuccess {
		t.Errorf("the other upstream's command ended %s", c.State)
	}
	for _, id := range slices.Concat(ids["brief"], ids["ended"][1:]) { // the first of these was told to wait itself
		if c := b.final(t, id); c.State != outcome.StateSuccess {
			t.Errorf("%s ended %s", c.Key, c.State)
		}
	}
	for _, id := range ids["long"] {
		if c := b.final(t, id); c.State != outcome.StateCancelled || c.Outcome.StoppedBy != outcome.ReasonDeadline {
			t.Errorf("%s ended %s, stopped by %s", c.Key, c.State, c.Outcome.StoppedBy)
		}
	}
	for i := 1; i <= 10; i++ {
		for _, arrived := range up.of(fmt.Sprintf("brief-%d", i)) {
			if arrived.At.Before(until["brief"]) {
				t.Errorf("%s arrived %s before the end of the throttle", arrived.Order, until["brief"].Sub(arrived.At))
			}
		}
	}
	up.verify(t, pool)
}

// TestRetryAfterBeyondDeadline: a pause that does not fit ends the command now.
func TestRetryAfterBeyondDeadline(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) {
		w.Header().Set("Retry-After", "3600")
		reply(w, 429, `{}`)
	})
	p := startProcess(t, pool, options{})
	p.apply(t, brief("up", up.URL, ample, ""))
	c := p.final(t, p.submit(t, order("k", "charge")).ID)
	if c.State != outcome.StateCancelled || c.Outcome.Reason != outcome.OutcomeReasonDeclined || c.Outcome.StoppedBy != outcome.ReasonDeadline || c.Outcome.DecidedBy != outcome.DecidedByAttempt {
		t.Errorf("ended %+v", c.Outcome)
	}
	if !p.engine.Idle(c.ID) {
		t.Error("what has ended passes for one that was tried")
	}
	up.verify(t, pool)
}
