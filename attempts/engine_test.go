package attempts_test

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// TestOutcomes sends one command of a kind to an upstream that behaves in one
// way, and compares what the caller is told, what stands on record and what the
// upstream counted.
func TestOutcomes(t *testing.T) {
	answer := func(statuses ...int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, n int) {
			status := statuses[min(n, len(statuses))-1]
			if status == 0 {
				drop(w)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"id":"pay_9","code":"no","message":"not so"}`))
		}
	}
	tests := []struct {
		name      string
		operation string
		upstream  func(http.ResponseWriter, *http.Request, int)
		state     outcome.State
		reason    outcome.OutcomeReason
		stopped   outcome.Reason
		wire      int
	}{
		{"applied", "pay", answer(201), outcome.StateSuccess, outcome.OutcomeReasonApplied, outcome.ReasonApplied, 1},
		{"refused", "pay", answer(422), outcome.StateRejected, outcome.OutcomeReasonRefused, outcome.ReasonRefused, 1},
		{"accepted", "pay", answer(202), outcome.StateUnresolved, outcome.OutcomeReasonRemotePending, outcome.ReasonPending, 1},
		{"keyed, answer lost once", "pay", answer(0, 201), outcome.StateSuccess, outcome.OutcomeReasonApplied, outcome.ReasonApplied, 2},
		{"keyed, answers always lost", "pay", answer(0), outcome.StateUnresolved, outcome.OutcomeReasonNoResponse, outcome.ReasonMaxAttempts, 4},
		{"unkeyed, answer lost", "charge", answer(0), outcome.StateUnresolved, outcome.OutcomeReasonNoResponse, outcome.ReasonAmbiguous, 1},
		{"natural, answer lost once", "rename", answer(0, 200), outcome.StateSuccess, outcome.OutcomeReasonApplied, outcome.ReasonApplied, 2},
		{"read, answers always lost", "balance", answer(0), outcome.StateCancelled, outcome.OutcomeReasonNoEffect, outcome.ReasonMaxAttempts, 4},
		{"keyed 503 once", "pay", answer(503, 201), outcome.StateSuccess, outcome.OutcomeReasonApplied, outcome.ReasonApplied, 2},
		{"unkeyed 503", "charge", answer(503), outcome.StateUnresolved, outcome.OutcomeReasonUnclearResponse, outcome.ReasonAmbiguous, 1},
		{"keyed 500", "pay", answer(500), outcome.StateUnresolved, outcome.OutcomeReasonUnclearResponse, outcome.ReasonStatusDenied, 1},
		{"unkeyed 429 once", "charge", answer(429, 201), outcome.StateSuccess, outcome.OutcomeReasonApplied, outcome.ReasonApplied, 2},
		{"425 twice", "charge", answer(425), outcome.StateCancelled, outcome.OutcomeReasonDeclined, outcome.ReasonStatusDenied, 2},
		{"redirect", "charge", answer(302), outcome.StateUnresolved, outcome.OutcomeReasonUnclearResponse, outcome.ReasonStatusDenied, 1},
		{"refusal after doubt", "pay", answer(0, 422), outcome.StateUnresolved, outcome.OutcomeReasonNoResponse, outcome.ReasonRefused, 2},
	}
	pool := database(t)
	p := startProcess(t, pool, options{})
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n int
			var mu sync.Mutex
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
				mu.Lock()
				n++
				count := n
				mu.Unlock()
				tt.upstream(w, r, count)
			})
			name := "up" + strconv.Itoa(i)
			p.apply(t, profileOf(name, up.URL, ""))
			s := submission("key-"+strconv.Itoa(i), tt.operation)
			s.Upstream = name
			c := p.final(t, p.submit(t, s).ID)
			if c.State != tt.state || c.Outcome.Reason != tt.reason || c.Outcome.StoppedBy != tt.stopped {
				t.Errorf("ended %s, %s, stopped by %s; want %s, %s, %s", c.State, c.Outcome.Reason, c.Outcome.StoppedBy, tt.state, tt.reason, tt.stopped)
			}
			wire, record := up.all(), p.attempts(t, c.ID)
			if len(wire) != tt.wire || len(record) != tt.wire {
				t.Errorf("%d requests on the wire and %d attempts on record, want %d: %s", len(wire), len(record), tt.wire, evidences(record))
			}
			for _, r := range wire {
				if r.Body != string(s.Body) || (tt.operation == "pay" && r.Key != s.Key) {
					t.Errorf("request changed: %+v", r)
				}
			}
			if c.State == outcome.StateSuccess && tt.operation == "pay" && c.Outcome.Result.Reference != "pay_9" {
				t.Errorf("reference %q, want pay_9", c.Outcome.Result.Reference)
			}
			if c.State == outcome.StateRejected && (c.Outcome.Rejection.Code != "no" || c.Outcome.Rejection.Status != 422) {
				t.Errorf("rejection %+v", c.Outcome.Rejection)
			}
		})
	}
}

func TestNeverSent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + listener.Addr().String()
	_ = listener.Close()
	p := startProcess(t, database(t), options{})
	p.apply(t, profileOf("up", refused, ""))
	c := p.final(t, p.submit(t, submission("k", "charge")).ID)
	if c.State != outcome.StateCancelled || c.Outcome.Reason != outcome.OutcomeReasonNeverSent || !c.Outcome.SafeToResubmit {
		t.Errorf("ended %s, %s, safe to resubmit %v", c.State, c.Outcome.Reason, c.Outcome.SafeToResubmit)
	}
	if list := p.attempts(t, c.ID); len(list) != 4 || list[0].Category != outcome.CategoryConnectRefused || list[0].BytesTotal == 0 {
		t.Errorf("attempts on record: %s", evidences(list))
	}
}

// TestOneCommandForRacingSubmits: one key, one request, one command.
func TestOneCommandForRacingSubmits(t *testing.T) {
	p := startProcess(t, database(t), options{})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(201) })
	p.apply(t, profileOf("up", up.URL, ""))
	var racing sync.WaitGroup
	ids := make([]string, 40)
	for i := range ids {
		racing.Go(func() {
			a, err := p.commands.Submit(context.Background(), submission("same", "pay"))
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = a.Command.ID.String()
		})
	}
	racing.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("two commands: %s and %s", id, ids[0])
		}
	}
	other := submission("same", "pay")
	other.Body = []byte(`{"amount":101}`)
	_, err := p.commands.Submit(context.Background(), other)
	if m, ok := err.(*commands.KeyMismatch); !ok || len(m.Differs) != 1 || m.Differs[0] != "body" {
		t.Errorf("another body under the same key: %v", err)
	}
}

// TestQueued: without room in the accepting process the queue takes over.
func TestQueued(t *testing.T) {
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(201) })
	front.apply(t, profileOf("up", up.URL, ""))
	c := front.submit(t, submission("queued", "pay"))
	back := startProcess(t, pool, options{})
	if got := back.final(t, c.ID); got.State != outcome.StateSuccess {
		t.Errorf("ended %s", got.State)
	}
	if n := len(up.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestDeletedJobs: deleting every row of the queue's tables loses nothing.
func TestDeletedJobs(t *testing.T) {
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(201) })
	front.apply(t, profileOf("up", up.URL, ""))
	var list []commands.Command
	for i := range 20 {
		list = append(list, front.submit(t, submission("job-"+strconv.Itoa(i), "pay")))
	}
	if _, err := pool.Exec(context.Background(), `DELETE FROM river_job`); err != nil {
		t.Fatal(err)
	}
	back := startProcess(t, pool, options{})
	for _, c := range list {
		if got := back.final(t, c.ID); got.State != outcome.StateSuccess {
			t.Errorf("ended %s", got.State)
		}
	}
	if n := len(up.all()); n != len(list) {
		t.Errorf("%d requests for %d commands", n, len(list))
	}
}

// TestDeadlineInBacklog: a command behind a paused upstream ends at its deadline.
func TestDeadlineInBacklog(t *testing.T) {
	p := startProcess(t, database(t), options{})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(201) })
	p.apply(t, profileOf("up", up.URL, ""))
	if _, err := p.ups.Pause(context.Background(), "default", "up", audit.By{Actor: "test", Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	s := submission("late", "pay")
	s.Timeout = 2 * time.Second
	c := p.submit(t, s)
	got, err := p.commands.Get(context.Background(), "default", c.ID)
	if err != nil || got.Waiting == nil || got.Waiting.For != commands.WaitPaused {
		t.Errorf("while paused: %+v, %v", got.Waiting, err)
	}
	got = p.final(t, c.ID)
	if got.State != outcome.StateCancelled || got.Outcome.DecidedBy != outcome.DecidedByDeadline || got.Outcome.StoppedBy != outcome.ReasonDeadline {
		t.Errorf("ended %s by %s, stopped by %s", got.State, got.Outcome.DecidedBy, got.Outcome.StoppedBy)
	}
	if n := len(up.all()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestCancel: before, during and after.
func TestCancel(t *testing.T) {
	p := startProcess(t, database(t), options{})
	release := make(chan struct{})
	arrived := make(chan struct{}, 1)
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		arrived <- struct{}{}
		<-release
		w.WriteHeader(201)
	})
	p.apply(t, profileOf("up", up.URL, ""))
	later := time.Now().Add(time.Hour)
	waiting := submission("waiting", "pay")
	waiting.NotBefore = &later
	c := p.submit(t, waiting)
	got, result, err := p.commands.Cancel(context.Background(), "default", c.ID, audit.By{Actor: "test"})
	if err != nil || result != commands.CancelCancelled || got.State != outcome.StateCancelled || got.Outcome.Reason != outcome.OutcomeReasonCancelledByCaller {
		t.Errorf("cancel while waiting: %s %s %v", result, got.State, err)
	}
	c = p.submit(t, submission("running", "pay"))
	<-arrived
	if _, result, err = p.commands.Cancel(context.Background(), "default", c.ID, audit.By{Actor: "test"}); err != nil || result != commands.CancelRequested {
		t.Errorf("cancel on the wire: %s %v", result, err)
	}
	close(release)
	if got := p.final(t, c.ID); got.State != outcome.StateSuccess {
		t.Errorf("ended %s", got.State)
	}
	if _, result, err = p.commands.Cancel(context.Background(), "default", c.ID, audit.By{Actor: "test"}); err != nil || result != commands.CancelTooLate {
		t.Errorf("cancel afterwards: %s %v", result, err)
	}
}
