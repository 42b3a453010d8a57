//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"executor/client"
	"executor/internal/simulator"
	"executor/internal/testkit"
	"executor/outcome"
)

// doubtProfile are the operations whose doubts are followed up.
const doubtProfile = `
  asked:
    method: POST
    path: /v1/accounts/{account}/payments
    body: json
    caller_headers: [Sim-Behavior]
    result: {reference: json.id}
    lookup:
      path: /v1/payments
      query: {client_reference: "{account}"}
      findings:
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "done", finding: applied, reference: json.items[0].id}
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "errored", finding: refused, code: json.items[0].state}
        - {when: status == 200 && size(json.items) == 1, finding: pending}
        - {when: status == 200 && size(json.items) == 0, finding: absent}
      schedule: {first_after: 500ms, factor: 1.5, max_interval: 3s, give_up_after: 10m}
      absence: {settles_after: 5s, confirmations: 2, spacing: 500ms, then: cancel}
  asked_again:
    retry: {max_attempts: 2}
    method: POST
    path: /v1/accounts/{account}/payments
    body: json
    caller_headers: [Sim-Behavior]
    result: {reference: json.id}
    lookup:
      path: /v1/payments
      query: {client_reference: "{account}"}
      findings:
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "done", finding: applied, reference: json.items[0].id}
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "errored", finding: refused, code: json.items[0].state}
        - {when: status == 200 && size(json.items) == 1, finding: pending}
        - {when: status == 200 && size(json.items) == 0, finding: absent}
      schedule: {first_after: 500ms, factor: 1.5, max_interval: 3s, give_up_after: 10m}
      absence: {settles_after: 5s, confirmations: 2, spacing: 500ms, then: resend}
  asked_key:
    method: POST
    path: /v1/accounts/{account}/payments
    body: json
    caller_headers: [Sim-Behavior]
    idempotency: {kind: keyed}
    result: {reference: json.id}
    lookup:
      path: /v1/payments
      query: {key: "{key}"}
      findings:
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "done", finding: applied, reference: json.items[0].id}
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "errored", finding: refused, code: json.items[0].state}
        - {when: status == 200 && size(json.items) == 1, finding: pending}
        - {when: status == 200 && size(json.items) == 0, finding: absent}
      schedule: {first_after: 500ms, factor: 1.5, max_interval: 3s, give_up_after: 10m}
      absence: {settles_after: 5s, confirmations: 2, spacing: 500ms, then: cancel}
`

// doubtfulBehaviors are what the upstream is asked to do where doubts are followed
// up, besides the behaviors.
var doubtfulBehaviors = []string{
	"commit,drop", "commit,reset", "commit,stall", // done, and no answer ever
	"drop", "stall=9s", // nothing done, and no answer
	"times=1;drop", "times=1;drop", // nothing done at first
	"effect_after=2500ms;drop", "effect_after=2500ms;stall", // done later
	"commit,drop;lag=3s", // done, and found later
	"errored;drop",       // refused, and the answer is lost
	"commit,status=503", "commit,status=500", "pending=2s", "pending=1;errored",
	"commit,drop;lookup.status=500;lookup.times=2", "commit,drop;lookup.stall=2s;lookup.times=1", "commit,drop;lookup.status=401;lookup.times=2",
}

// doubtfulOperations are the operations of these commands, and what they count as.
var doubtfulOperations = []struct {
	operation string
	kind      outcome.Idempotency
}{
	{"asked", outcome.IdempotencyNone}, {"asked_again", outcome.IdempotencyNone}, {"asked_key", outcome.IdempotencyKeyed},
	{"keyed", outcome.IdempotencyKeyed}, {"none", outcome.IdempotencyNone}, {"natural", outcome.IdempotencyNatural}, {"safe", outcome.IdempotencySafe},
}

// doubt makes one of each operation in turn, with trouble by chance.
func (f *fleet) doubt(n int) *intent {
	d := doubtfulOperations[n%len(doubtfulOperations)]
	all := behaviors
	if d.kind == outcome.IdempotencyNone || d.operation == "asked_key" { // one attempt, where others repeat it for minutes
		all = slices.Concat(behaviors, doubtfulBehaviors, doubtfulBehaviors)
	}
	in := newIntent(fmt.Sprintf("%s-%05d", d.operation, n), d.kind, all[f.random.IntN(len(all))])
	in.submission.Operation = d.operation
	if in.body != nil {
		in.body = fmt.Appendf(nil, `{"amount" : 12345678901234567890.10,"client_reference":%q }`, in.token)
		in.submission.Body = in.body
	}
	in.cancel = f.random.IntN(25) == 0
	return in
}

// followed says that the upstream can be asked what became of it.
func (in *intent) followed() bool {
	return slices.Contains([]string{"asked", "asked_again", "asked_key"}, in.submission.Operation)
}

// TestDoubtsAreFollowedUpUnderFire: processes are killed and paused while doubts
// are followed up, outcomes are told, and a person decides what nobody can look up.
// No answer is false, nothing unkeyed is sent twice for nothing, no webhook is
// missing, and no doubt is left that can be settled.
func TestDoubtsAreFollowedUpUnderFire(t *testing.T) {
	t.Parallel()
	f := startFleet(t, testkit.Database(t), conditions{doubts: true})
	f.subscribe()
	l := f.load(commandsInTrouble, 225*time.Millisecond)
	person := f.operator()
	for round := range 9 {
		lasts(2*time.Second + time.Duration(f.random.IntN(2000))*time.Millisecond)
		n := f.node(round)
		if round%3 == 2 {
			n.Signal(syscall.SIGSTOP)
			lasts(12 * time.Second) // longer than its lease
			n.Signal(syscall.SIGCONT)
			continue
		}
		n.Kill()
		f.start(round % len(f.nodes))
	}
	trouble := time.Now()
	l.settled(trouble)
	f.allSettled(trouble.Add(2 * time.Minute))
	person.stop()
	list := accounts(t, l.intents, recordsIn(t, f.pool), f.upstream)
	states := check(t, list)
	if lostAttempts(list) == 0 {
		t.Error("no attempt was lost with any process, so nothing was taken over")
	}
	t.Logf("states: %v; a person decided %d and had %d sent again", states, person.resolved, person.resent)
	f.everythingTold(time.Now().Add(aMinute)) // what a killed process was telling is told again when its claim ends
	again, absent := 0, 0
	for _, a := range list {
		if a.followed() && a.State == outcome.StateUnresolved {
			t.Errorf("the doubt was not followed up: %s", a)
		}
		for _, one := range a.attempts {
			if one.SettledBy == "lookup" {
				absent++
			}
		}
		if a.kind == outcome.IdempotencyNone && len(a.arrivals) > 1 && a.Sequence > 1 {
			again++
		}
	}
	if absent == 0 || again == 0 || person.resolved == 0 || person.resent == 0 {
		t.Errorf("%d absences confirmed, %d commands sent once more, %d decided and %d sent again by a person: some of it was not seen", absent, again, person.resolved, person.resent)
	}
}

// subscribe has the simulator's hook "crash" told of every outcome.
func (f *fleet) subscribe() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w, err := f.node(0).client.CreateWebhook(ctx, client.WebhookSettings{URL: f.base + "/_hooks/crash"})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.upstream.SetHook("crash", "", w.Secret); err != nil {
		f.t.Fatal(err)
	}
}

// allSettled waits until no doubt is left that is followed up by itself.
func (f *fleet) allSettled(bound time.Time) {
	f.t.Helper()
	f.until(bound, "every doubt is settled or a person's", func() (bool, string) {
		var open int
		err := f.pool.QueryRow(context.Background(), `
			SELECT count(*) FROM commands WHERE state IN ('pending', 'executing') OR phase = 'lookup'`).Scan(&open)
		return err == nil && open == 0, fmt.Sprintf("%d are open, %v", open, err)
	})
}

// until waits for something that must happen before the bound.
func (f *fleet) until(bound time.Time, what string, ok func() (bool, string)) {
	f.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		done, how := ok()
		if done {
			return
		}
		if time.Now().After(bound) {
			f.t.Errorf("not in time: %s; %s", what, how)
			return
		}
	}
}

// everythingTold: for every outcome on record a webhook came, signed, under one id,
// unless it was held back until the next outcome was there.
func (f *fleet) everythingTold(bound time.Time) {
	f.t.Helper()
	type outcomeEvent struct {
		ID, Command string
		Sequence    int
	}
	events := rowsOf[outcomeEvent](f.t, f.pool, `
		SELECT id::text AS id, command_id::text AS command, sequence FROM events e WHERE sequence > 0 AND NOT (
			e.type = 'command.unresolved' -- held back, and dropped for the outcome after it
			AND EXISTS (SELECT FROM webhook_deliveries d WHERE d.event_id = e.id AND d.state = 'dropped' AND d.tries = 0)
			AND EXISTS (SELECT FROM events l WHERE l.command_id = e.command_id AND l.sequence > e.sequence))`)
	f.until(bound, "every outcome is told", func() (bool, string) {
		told := map[string]bool{}
		for _, r := range f.upstream.Deliveries("crash") {
			if r.Complete && r.Verified != nil && *r.Verified {
				told[r.Key] = true
			}
		}
		var missing []string
		for _, e := range events {
			if !told[e.ID] {
				missing = append(missing, e.ID)
			}
		}
		if len(missing) == 0 {
			return true, ""
		}
		return false, fmt.Sprintf("%d of %d are missing: %+v", len(missing), len(events), rowsOf[toldState](f.t, f.pool, `
			SELECT d.event_id::text, d.type, d.state, d.tries, d.failure, d.next_at::text, coalesce(d.claimed_until::text, '') AS claimed_until,
				d.at::text, e.troubled, coalesce(e.paused_until::text, '') AS paused_until, now()::text AS now
			FROM webhook_deliveries d JOIN webhook_endpoints e ON e.id = d.endpoint_id WHERE d.event_id = ANY($1::uuid[])`, missing))
	})
	ids := map[string]string{}
	for _, r := range f.upstream.Deliveries("crash") {
		var e struct {
			Data struct {
				ID       string
				Sequence int
			}
		}
		if err := json.Unmarshal(r.Body, &e); err != nil {
			f.t.Errorf("a webhook cannot be read: %v in %s", err, r.Body)
		}
		place := fmt.Sprintf("%s/%d", e.Data.ID, e.Data.Sequence)
		if ids[place] != "" && ids[place] != r.Key {
			f.t.Errorf("%s came under the ids %s and %s", place, ids[place], r.Key)
		}
		ids[place] = r.Key
	}
}

// toldState is where a webhook stands, for a fault's report.
type toldState struct {
	EventID, Type, State, Failure, NextAt, ClaimedUntil, At, PausedUntil, Now string
	Tries                                                                     int
	Troubled                                                                  bool
}

// operator is a person who looks at the review queue and at the upstream's books.
type operator struct {
	f                *fleet
	resolved, resent int
	ctx              context.Context
	halt             context.CancelFunc
	loop             sync.WaitGroup
}

func (f *fleet) operator() *operator {
	o := &operator{f: f}
	o.ctx, o.halt = context.WithCancel(context.Background())
	f.t.Cleanup(o.stop)
	o.loop.Go(func() {
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-o.ctx.Done():
				return
			case <-tick.C:
				o.look(f.node(i))
			}
		}
	})
	return o
}

func (o *operator) stop() {
	o.halt()
	o.loop.Wait()
}

// look decides what a page of the queue holds, as far as the books are clear.
func (o *operator) look(n *node) {
	ctx, cancel := context.WithTimeout(o.ctx, 3*time.Second)
	defer cancel()
	page, err := n.client.ReviewsPage(ctx, client.ReviewFilter{Kinds: []client.ReviewKind{client.ReviewUnresolved}, Limit: 20})
	if err != nil {
		return // it was killed, or stands still
	}
	for _, r := range page.Data {
		o.decide(ctx, n, r)
	}
}

// bookkeeping is how long after the last moment of an attempt the books are clear.
const bookkeeping = 4 * time.Second

// decide waits until nothing of the command can arrive any more, and then says what
// the books say.
func (o *operator) decide(ctx context.Context, n *node, r client.Review) {
	var clear bool
	err := o.f.pool.QueryRow(ctx, `SELECT max(latest_end) + $2 < now() FROM attempts WHERE command_id = $1`, r.Command.ID, bookkeeping).Scan(&clear)
	if err != nil || !clear {
		return
	}
	booked := slices.ContainsFunc(o.f.upstream.Effects(""), func(e simulator.Effect) bool {
		return tokenOf(e.Path) == tokenOf("/v1/accounts/"+r.Command.Key[len("key-"):])
	})
	if booked {
		_, err = n.client.Resolve(ctx, r.Command.ID, r.Command.Version, client.Resolution{State: client.StateSuccess, Reason: "it is in the books", EvidenceReference: "books"})
		if err == nil {
			o.resolved++
		}
		o.expected(err)
		return
	}
	if r.Command.Record.Attempts == 1 {
		_, err = n.client.Resend(ctx, r.Command.ID, r.Command.Version, client.Resending{Reason: "it is not in the books", Absent: true, EvidenceReference: "books"})
		if err == nil {
			o.resent++
		}
	}
	if r.Command.Record.Attempts > 1 || o.refused(err) { // once is enough, or a cancel forbids it
		_, err = n.client.Resolve(ctx, r.Command.ID, r.Command.Version, client.Resolution{State: client.StateCancelled, Reason: "it is not in the books", EvidenceReference: "books"})
		if err == nil {
			o.resolved++
		}
	}
	o.expected(err)
}

func (o *operator) refused(err error) bool {
	var p *client.Problem
	return errors.As(err, &p) && p.Code == "resend_not_safe"
}

// expected: a person's action may find that the command has changed, or meet a
// process that is being killed; anything else is a fault.
func (o *operator) expected(err error) {
	var p *client.Problem
	if errors.As(err, &p) && p.Status != http.StatusPreconditionFailed && p.Status != http.StatusConflict && p.Status != http.StatusServiceUnavailable {
		o.f.t.Errorf("a person's action: %v", err)
	}
}
