//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"executor/client"
)

// told is a story that has come to its end.
type told struct {
	*running
	command client.Command // as it ended
	record  []client.Attempt
	events  []client.Event
	wire    []arrival // requests that reached the upstream
	took    []string  // effects that took place there
	shown   []byte    // all that the API says of it
}

// end waits for the command's outcome and checks everything about it.
func (r *running) end(t *testing.T) told {
	t.Helper()
	command, err := r.api.Wait(bounded(t), r.command.ID)
	if err != nil {
		t.Fatalf("%v: %s", err, command.JSON())
	}
	o := r.told(t, command)
	if faults := o.faults(); len(faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(faults, "\n"), o)
	}
	if again := r.again(t); again.State != command.State || again.Version != command.Version {
		t.Errorf("submitted again it is %s", again.JSON())
	}
	if r.check != nil {
		r.check(t, o)
	}
	return o
}

// endsAs is end with another ending than the story's.
func (r *running) endsAs(t *testing.T, ends string, attempts ...string) told {
	t.Helper()
	other := *r.plot
	other.ends, other.attempts = ends, attempts
	r.plot = &other
	return r.end(t)
}

// told reads all there is about a command.
func (r *running) told(t *testing.T, command client.Command) told {
	t.Helper()
	ctx := bounded(t)
	o := told{running: r, command: command}
	text, err := r.api.AttemptsJSON(ctx, command.ID)
	if err != nil {
		t.Fatal(err)
	}
	if o.record, err = r.api.Attempts(ctx, command.ID); err != nil {
		t.Fatal(err)
	}
	if o.events, err = r.api.Events(ctx, command.ID); err != nil {
		t.Fatal(err)
	}
	o.shown = slices.Concat(command.JSON(), text)
	for _, e := range o.events {
		o.shown = append(o.shown, e.Data...)
	}
	o.wire = r.arrivals()
	o.took = r.effectsOf()
	return o
}

// arrivals are the requests of the command that reached the upstream.
func (r *running) arrivals() (list []arrival) {
	if r.made != nil {
		for _, q := range r.made.server.Requests() {
			if r.owns(q.Header.Get("Idempotency-Key"), q.Body) {
				sum := sha256.Sum256(q.Body)
				list = append(list, arrival{q.Method, q.Target, q.Header.Get("Idempotency-Key"), hex.EncodeToString(sum[:]), true, q.Header, q.Body})
			}
		}
		return append(list, make([]arrival, r.made.heads.Load())...)
	}
	for _, q := range r.sim.Requests("") {
		if strings.Contains(q.Path, r.token) && r.owns(q.Key, q.Body) {
			list = append(list, arrival{q.Method, q.Path, q.Key, q.BodySHA256, q.Complete, q.Headers, q.Body})
		}
	}
	return list
}

// owns says whether a request of the plot belongs to the command.
func (r *running) owns(key string, body []byte) bool {
	return r.commands == 1 || key == r.submission.Key || bytes.Contains(body, []byte(r.submission.Key))
}

func (r *running) effectsOf() (ids []string) {
	for _, e := range r.sim.Effects("") {
		if strings.Contains(e.Path, r.token) && r.owns(e.Key, e.Body) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// String is the whole account, for a fault's report.
func (o told) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", o.command.JSON())
	for _, a := range o.record {
		fmt.Fprintf(&b, "  attempt %d: %s; %s %s (rule %d), %s %q\n", a.Number, seen(a), a.Decision, a.Reason, a.Rule, a.Detail, a.Notes)
	}
	for _, q := range o.wire {
		fmt.Fprintf(&b, "  request %s %s, key %q, %q\n", q.method, q.target, q.key, q.body[:min(len(q.body), 200)])
	}
	fmt.Fprintf(&b, "  effects %q", o.took)
	return b.String()
}
