//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"executor/client"
	"executor/outcome"
)

// running is one command of a plot.
type running struct {
	*plot
	submission client.Submission
	command    client.Command // as accepted
}

// submission is the next command, with a key of its own.
func (pl *plot) submission() client.Submission {
	pl.commands++
	sub := client.Submission{
		Key: fmt.Sprintf("key-%s-%02d", pl.token, pl.commands), Upstream: pl.upstream, Operation: pl.operation,
		Params: map[string]string{"account": pl.token},
	}
	if pl.meets != "" {
		sub.Headers = map[string]string{"Sim-Behavior": strings.ReplaceAll(pl.meets, "{token}", pl.token)}
	}
	if pl.kind != outcome.IdempotencySafe {
		// Written as no encoder would, to see that it arrives byte for byte.
		sub.Body = fmt.Appendf(nil, `{"amount" : 12345678901234567890.10,"of":%q }`, sub.Key)
	}
	if pl.change != nil {
		pl.change(&sub)
	}
	return sub
}

// submit has the next command accepted.
func (pl *plot) submit(t testing.TB) *running {
	t.Helper()
	return pl.submitWith(t, func(*client.Submission) {})
}

// submitWith has the next command accepted, with a change.
func (pl *plot) submitWith(t testing.TB, change func(*client.Submission)) *running {
	t.Helper()
	r := &running{plot: pl, submission: pl.submission()}
	change(&r.submission)
	accepted, err := pl.api.Submit(bounded(t), r.submission)
	if err != nil || accepted.Replayed {
		t.Fatalf("submit: replayed %t, %v", accepted.Replayed, err)
	}
	r.command = accepted.Command
	return r
}

// submitting is how many submits are under way at a time.
const submitting = 16

// submitAll has a command of each plot accepted, many at a time.
func (s *stage) submitAll(t testing.TB, plots []*plot) []*running {
	t.Helper()
	list, room := make([]*running, len(plots)), make(chan struct{}, submitting)
	var all sync.WaitGroup
	for i, pl := range plots {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			r := &running{plot: pl, submission: pl.submission()}
			accepted, err := s.api.Submit(bounded(t), r.submission)
			if err != nil {
				t.Errorf("%s: %v", pl.name, err)
				return
			}
			r.command, list[i] = accepted.Command, r
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return list
}

// now reads a command as it is.
func (r *running) now(t testing.TB) client.Command {
	t.Helper()
	c, err := r.api.Get(bounded(t), r.command.ID)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// until waits until something holds of the command.
func (r *running) until(t testing.TB, what string, ok func(client.Command) bool) client.Command {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := bounded(t)
	for {
		c := r.now(t)
		if ok(c) {
			return c
		}
		if c.Final {
			t.Fatalf("%s did not come: %s", what, c.JSON())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not come: %s", what, c.JSON())
		}
	}
}

// waitsFor waits until the command says that it waits for something.
func (r *running) waitsFor(t testing.TB, what string) client.Command {
	t.Helper()
	return r.until(t, "the wait for "+what, func(c client.Command) bool { return c.Waiting != nil && c.Waiting.For == what })
}

// onTheWire waits until its request has arrived.
func (r *running) onTheWire(t *testing.T) {
	t.Helper()
	r.until(t, "the request at the upstream", func(client.Command) bool { return len(r.arrivals()) > 0 })
}

// again submits the same once more and expects the one command there is.
func (r *running) again(t testing.TB) client.Command {
	t.Helper()
	accepted, err := r.api.Submit(bounded(t), r.submission)
	if err != nil || !accepted.Replayed || accepted.Command.ID != r.command.ID {
		t.Fatalf("submitted again: replayed %t, command %s, want %s; %v", accepted.Replayed, accepted.Command.ID, r.command.ID, err)
	}
	return accepted.Command
}

// cancel asks for no further attempt.
func (r *running) cancel(t *testing.T, want client.CancelResult) client.Command {
	t.Helper()
	c, err := r.api.Cancel(bounded(t), r.command.ID)
	if err != nil || c.Result != want {
		t.Fatalf("cancel: %q, want %q; %v", c.Result, want, err)
	}
	return c.Command
}

// neverSent is the end of a command that was cancelled while it waited.
func (r *running) neverSent(t *testing.T) {
	t.Helper()
	other := *r.plot
	other.effects, r.plot = 0, &other
	r.endsAs(t, "cancelled cancelled_by_caller cancel_requested")
}
