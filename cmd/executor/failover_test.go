//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
	"executor/outcome"
)

// commandsAtFailover is how many commands each of these tests is in the middle of.
const commandsAtFailover = 120

// quickLease lets processes notice soon that the database is another one.
const quickLease = "6s"

// noteTaken is longer than a process takes from one renewal of that lease to the next.
const noteTaken = 3 * time.Second

// standstill is what is on record of a deployment that froze by itself.
type standstill struct {
	Died     time.Time // the primary, from here on
	Promoted time.Time
	FrozenAt time.Time
	Reason   string
}

// freezes waits until the deployment has noticed what happened to its database.
func (f *fleet) freezes(died, promoted time.Time) standstill {
	f.t.Helper()
	now := standstill{Died: died, Promoted: promoted}
	f.until(time.Now().Add(aMinute), "the deployment is frozen in doubt", func() (bool, string) {
		var doubtful bool
		err := f.pool.QueryRow(context.Background(), `SELECT doubtful, frozen_at, frozen_reason FROM deployment`).
			Scan(&doubtful, &now.FrozenAt, &now.Reason)
		return err == nil && doubtful, fmt.Sprintf("doubtful %t, %v", doubtful, err)
	})
	if f.t.Failed() {
		f.t.FailNow()
	}
	return now
}

// goesOn waits until lookups are made while nothing is sent.
func (f *fleet) goesOn(since time.Time) {
	f.t.Helper()
	f.until(time.Now().Add(aMinute), "lookups go on during the freeze", func() (bool, string) {
		var n int
		err := f.pool.QueryRow(context.Background(), `SELECT count(*) FROM lookups WHERE started_at > $1`, since).Scan(&n)
		return err == nil && n > 0, fmt.Sprintf("%d made, %v", n, err)
	})
}

// resume lets the deployment send again, as an operator would: once more where a process
// noticed only after it that its lease is gone, and froze the deployment again. By now
// each has renewed its lease, and had the time to act on what that told.
func (f *fleet) resume() (at time.Time) {
	f.t.Helper()
	at = time.Now()
	again := func() {
		execute(f.t, f.env, "resume", "--reason", "the old primary is gone").must(f.t, exitSuccess)
	}
	again()
	f.until(at.Add(aMinute), "every process knows the new database", func() (bool, string) {
		var frozen bool
		var n int
		err := f.pool.QueryRow(context.Background(), `
			SELECT frozen_at IS NOT NULL, (SELECT count(*) FROM leases WHERE ended_at IS NULL AND renewed_at > $1) FROM deployment`,
			at.Add(noteTaken)).Scan(&frozen, &n)
		if err == nil && frozen {
			again()
		}
		return err == nil && !frozen && n == len(f.nodes), fmt.Sprintf("%d renewed, frozen %t, %v", n, frozen, err)
	})
	return at
}

// stoodStill says that no attempt began between the freeze and the resume, and that
// what was not settled by then counts as possibly sent.
func (s standstill) stoodStill(t *testing.T, list []account, resumed time.Time) {
	t.Helper()
	crossed := 0
	for _, a := range list {
		open := a.FirstOutcome == nil || a.FirstOutcome.After(resumed)
		counted := false
		for _, one := range a.attempts {
			switch {
			case one.Synthetic:
				counted = true
			case one.StartedAt.After(s.Promoted) && one.StartedAt.Before(resumed):
				t.Errorf("attempt %d began after the promotion and before the resume: %s", one.Number, a)
			case one.StartedAt.Before(s.FrozenAt) && one.EndedAt.After(s.Died):
				counted = true // it was on the wire, or its end could be told to no database
			}
		}
		if open && !a.CreatedAt.After(s.FrozenAt) {
			if crossed++; !counted {
				t.Errorf("it was open at the freeze, and does not count as possibly sent: %s", a)
			}
		}
	}
	t.Logf("%d commands were open at the freeze (%s)", crossed, s.Reason)
	if crossed == 0 {
		t.Error("no command was open at the freeze, so nothing was seen of it")
	}
}

// TestASynchronousStandbyTakesOver: the primary's machine dies under load. What was
// accepted is there, nothing is sent before somebody resumes, and nothing that is
// not safe to repeat is sent twice.
func TestASynchronousStandbyTakesOver(t *testing.T) {
	t.Parallel()
	servers := testkit.NewReplication(t, true)
	f := startFleet(t, servers.Database(), conditions{doubts: true, lease: quickLease})
	l := f.load(commandsAtFailover, 25*time.Millisecond)
	l.reached(commandsAtFailover / 3)
	for i := range f.nodes {
		l.onTheWire(f.node(i), "commit,stall=3s", outcome.IdempotencyNone, outcome.IdempotencyKeyed)
	}
	died := time.Now()
	servers.Primary.Kill()
	servers.Promote()
	promoted := time.Now()
	f.pool.Reset()
	frozen := f.freezes(died, promoted)
	l.reached(commandsAtFailover) // the API goes on
	f.goesOn(frozen.FrozenAt)
	resumed := f.resume()
	l.settled(resumed)
	f.allSettled(resumed.Add(aMinute))
	list := accounts(t, l.intents, recordsIn(t, f.pool), f.upstream)
	t.Logf("states: %v", check(t, list))
	frozen.stoodStill(t, list, resumed)
}

// TestAnAsynchronousStandbyTakesOver: with the last seconds of the primary the
// record of commands and of what was sent is lost. Of the commands that are left,
// none that is not safe to repeat is sent twice.
func TestAnAsynchronousStandbyTakesOver(t *testing.T) {
	t.Parallel()
	servers := testkit.NewReplication(t, false)
	f := startFleet(t, servers.Database(), conditions{lease: quickLease})
	l := f.load(commandsAtFailover/2, 10*time.Millisecond)
	l.all.Wait()
	late := l.dueIn(3*time.Second, 8)
	servers.Follows()
	servers.Detach()
	tail := f.load(commandsAtFailover/3, 10*time.Millisecond)
	tail.all.Wait()
	for i := range f.nodes {
		tail.onTheWire(f.node(i), "commit,stall=3s", outcome.IdempotencyNone, outcome.IdempotencyKeyed)
	}
	l.arrived(late)
	died := time.Now()
	servers.Primary.Kill()
	servers.Promote()
	promoted := time.Now()
	f.pool.Reset()
	frozen := f.freezes(died, promoted)
	resumed := f.resume()
	tail.submitAgain()
	l.intents = append(l.intents, tail.intents...)
	l.settled(resumed)
	list := accounts(t, l.intents, recordsIn(t, f.pool), f.upstream)
	for i := range list {
		list[i].tail = promoted
	}
	t.Logf("states: %v", check(t, list))
	frozen.stoodStill(t, list, resumed)
	if n := unrecorded(list); n == 0 {
		t.Error("no attempt was lost with the primary, so nothing was seen of that")
	}
}

// dueIn submits commands of each kind that are sent only after a while.
func (l *load) dueIn(wait time.Duration, n int) (list []*intent) {
	l.f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kinds := outcome.Idempotencies()
	for i := range n {
		in := newIntent(fmt.Sprintf("due-%d", i), kinds[i%len(kinds)], "")
		in.submission.NotBefore = time.Now().Add(wait)
		a, err := l.f.node(i).client.Submit(ctx, in.submission)
		if err != nil {
			l.f.t.Fatalf("submit %s: %v", in.token, err)
		}
		in.ids = append(in.ids, a.Command.ID)
		list = append(list, in)
	}
	l.intents = append(l.intents, list...)
	return list
}

// arrived waits until the requests of the commands are at the upstream.
func (l *load) arrived(list []*intent) {
	l.f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, in := range list {
		if err := l.f.upstream.Wait(ctx, func() bool { return len(l.f.upstream.Requests(in.path)) > 0 }); err != nil {
			l.f.t.Fatalf("the request of %s did not arrive: %v", in.token, err)
		}
	}
}

// submitAgain is what callers do of whose commands nothing is known any more. The
// upstream knows the key of a keyed one; another has to be asked about first.
func (l *load) submitAgain() {
	l.f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, in := range l.intents {
		c, err := l.f.living(i).client.Get(ctx, in.ids[0])
		if !errors.Is(err, client.ErrNotFound) {
			l.f.t.Errorf("%s is %s (%v), though it was accepted after the standby was cut off", in.token, c.State, err)
		}
		if in.lost = in.kind != outcome.IdempotencyKeyed; in.lost {
			continue
		}
		a, err := l.f.living(i).client.Submit(ctx, in.submission)
		if err != nil || a.Replayed {
			l.f.t.Errorf("submit %s again: replayed %t, %v", in.token, a.Replayed, err)
		}
		in.ids = []string{a.Command.ID}
	}
}

// unrecorded counts the commands of which more arrived than is on record.
func unrecorded(list []account) (n int) {
	for _, a := range list {
		before := 0
		for _, r := range a.arrivals {
			if r.Time.Before(a.tail) {
				before++
			}
		}
		for _, one := range a.real() {
			if one.StartedAt.Before(a.tail) {
				before--
			}
		}
		if before > 0 {
			n++
		}
	}
	return n
}
