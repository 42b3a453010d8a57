package webhooks_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
	"executor/webhooks"
)

// TestOutcomesAreTold: every outcome goes out once, signed, and says what is
// committed.
func TestOutcomesAreTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	_, secret := r.endpoint(t, to.URL+"/hook?team=1")
	r.engine(t)
	for _, state := range []outcome.State{outcome.StateSuccess, outcome.StateRejected, outcome.StateUnresolved, outcome.StateCancelled} {
		id := r.ended(t, "key-"+string(state), state)
		d := r.awaitState(t, id, webhooks.DeliveryDelivered)
		i := slices.IndexFunc(to.all(), func(g got) bool { return g.message.Data.ID == id })
		g := to.all()[i]
		if err := verify(t, g, secret); err != nil {
			t.Errorf("%s: %v", state, err)
		}
		if g.id != d.EventID.String() || g.header.Get("Content-Type") != "application/json" || g.header.Get("User-Agent") != "executor-webhooks/1" {
			t.Errorf("%s: headers %v", state, g.header)
		}
		r.checkCommitted(t, g, id, state)
		if log := r.account(t, d.ID).Log; len(log) != 1 || log[0].Status != 204 || log[0].Number != 1 || log[0].Instance != "test" || log[0].NextAt != nil {
			t.Errorf("%s: log %+v", state, log)
		}
	}
	if n := len(to.all()); n != 4 {
		t.Errorf("%d requests, want 4", n)
	}
}

// checkCommitted compares what was told with the command as it is read.
func (r *rig) checkCommitted(t *testing.T, g got, id uuid.UUID, state outcome.State) {
	t.Helper()
	c, err := r.cmds.Get(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	tail := ""
	switch state {
	case outcome.StateSuccess:
		tail = `,"result":{"status":201,"reference":"pay_9007199254740993"}`
	case outcome.StateRejected:
		tail = `,"rejection":{"status":422,"code":"no_money","message":"no <money>"}`
	}
	decided := c.Outcome.DecidedAt.Format(time.RFC3339Nano)
	want := fmt.Sprintf(`{"type":"command.%s","timestamp":%q,"data":{"id":%q,"idempotency_key":%q,"upstream":"up","operation":"pay",`+
		`"metadata":{"b":"2","order":"4 < 5"},"version":%d,"sequence":1,"previous_state":null,"outcome":{"state":%q,"reason":"no_response",`+
		`"stopped_by":"ambiguous","decided_by":"attempt","decided_at":%q,"sequence":1,"safe_to_resubmit":%v,"next_action":%q%s}}}`,
		state, decided, id, c.Key, c.Version, state, decided, c.Outcome.SafeToResubmit, c.Outcome.NextAction, tail)
	if string(g.body) != want {
		t.Errorf("told\n%s\nwant\n%s", g.body, want)
	}
}

// TestASettledDoubtIsTold with the state that was told before.
func TestASettledDoubtIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	r.endpoint(t, to.URL)
	r.engine(t)
	id := r.ended(t, "k", outcome.StateUnresolved)
	to.await(t, 1)
	r.end(t, id, outcome.StateSuccess)
	list := to.await(t, 2)
	first, second := list[0].message, list[1].message
	if first.Type != "command.unresolved" || first.Data.Sequence != 1 || first.Data.PreviousState != nil {
		t.Errorf("first: %s", list[0].body)
	}
	if second.Type != "command.success" || second.Data.Sequence != 2 || second.Data.PreviousState == nil || *second.Data.PreviousState != "unresolved" {
		t.Errorf("second: %s", list[1].body)
	}
	if list[0].id == list[1].id {
		t.Error("two events with one id")
	}
}

// TestEveryEndpointGetsTheSameID, and each is signed with its own secret.
func TestEveryEndpointGetsTheSameID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := newReceiver(t, nil), newReceiver(t, nil)
	_, first := r.endpoint(t, one.URL)
	_, second := r.endpoint(t, two.URL)
	r.engine(t)
	r.ended(t, "k", outcome.StateSuccess)
	a, b := one.await(t, 1)[0], two.await(t, 1)[0]
	if a.id != b.id || string(a.body) != string(b.body) {
		t.Errorf("ids %s and %s", a.id, b.id)
	}
	if verify(t, a, first) != nil || verify(t, b, second) != nil || verify(t, a, second) == nil {
		t.Error("not each is signed with its own secret")
	}
	if n := r.count(t, `SELECT count(*) FROM webhook_events`); n != 1 {
		t.Errorf("%d events stored, want 1", n)
	}
}

// TestRotation: both secrets sign until the overlap ends, on resends too, each
// with a fresh timestamp.
func TestRotation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	e, old := r.endpoint(t, to.URL)
	r.engine(t)
	id := r.ended(t, "k", outcome.StateSuccess)
	r.awaitState(t, id, webhooks.DeliveryDelivered)
	after, fresh, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, 0, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Secrets) != 2 || after.Secrets[0].ExpiresAt != nil || after.Secrets[1].ExpiresAt == nil || after.Version != e.Version+1 {
		t.Errorf("after the rotation: %+v", after)
	}
	again := func(n int) got {
		if _, err := r.hooks.Redeliver(t.Context(), by(tenant), r.one(t, id).ID); err != nil {
			t.Fatal(err)
		}
		to.await(t, n)
		r.awaitState(t, id, webhooks.DeliveryDelivered)
		return to.all()[n-1]
	}
	if g := again(2); verify(t, g, old) != nil || verify(t, g, fresh) != nil {
		t.Errorf("during the overlap: %s", g.header.Get("webhook-signature"))
	}
	r.exec(t, `UPDATE webhook_secrets SET expires_at = now() WHERE expires_at IS NOT NULL`) // an hour passes
	if g := again(3); verify(t, g, old) == nil || verify(t, g, fresh) != nil {
		t.Errorf("after the overlap: %s", g.header.Get("webhook-signature"))
	}
	if _, leaked, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, 0, 0); err != nil {
		t.Fatal(err)
	} else if g := again(4); verify(t, g, fresh) == nil || verify(t, g, leaked) != nil {
		t.Errorf("without an overlap: %s", g.header.Get("webhook-signature"))
	}
	for _, g := range to.all() {
		if g.id != to.all()[0].id {
			t.Errorf("the id changed from %s to %s", to.all()[0].id, g.id)
		}
	}
	await(t, "old secrets are forgotten", func() bool { return r.count(t, `SELECT count(*) FROM webhook_secrets`) == 1 })
}

// TestFailuresAreTriedAgain on the schedule, with the same id, until one succeeds.
func TestFailuresAreTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, _ got, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{500, 404, 408, 200}[n-1])
		_, _ = fmt.Fprintf(w, "answer\x00 %d é", n)
	})
	e, secret := r.endpoint(t, to.URL)
	r.engine(t, waits(5, time.Millisecond))
	id := r.ended(t, "k", outcome.StateSuccess)
	d := r.awaitState(t, id, webhooks.DeliveryDelivered)
	for i, g := range to.all() {
		if g.id != d.EventID.String() || verify(t, g, secret) != nil {
			t.Errorf("try %d: id %s", i+1, g.id)
		}
	}
	log := r.account(t, d.ID).Log
	for i, want := range []int{500, 404, 408, 200} {
		if log[i].Status != want || log[i].Number != i+1 || log[i].Excerpt != "answer  "+strconv.Itoa(i+1)+" é" || (log[i].NextAt == nil) != (want == 200) {
			t.Errorf("try %d: %+v", i+1, log[i])
		}
	}
	if log[0].Failure != webhooks.FailureRefused || log[3].Failure != webhooks.FailureNone {
		t.Errorf("failures %q and %q", log[0].Failure, log[3].Failure)
	}
	await(t, "forgiven", func() bool { return r.get(t, e.ID).FailingSince == nil })
}

// TestGivenUp: after the last try it has failed, and a person can send it again.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, _ got, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(map[bool]int{true: 503, false: 200}[n <= 3])
	})
	e, _ := r.endpoint(t, to.URL)
	r.engine(t, waits(2, time.Millisecond))
	id := r.ended(t, "k", outcome.StateSuccess)
	d := r.awaitState(t, id, webhooks.DeliveryFailed)
	if d.Tries != 3 || d.Status != 503 || d.EndedAt == nil || d.Detail == "" {
		t.Errorf("given up as %+v", d)
	}
	if r.get(t, e.ID).FailingSince == nil {
		t.Error("the endpoint does not show that it fails")
	}
	done, err := r.hooks.RedeliverRange(t.Context(), by(tenant), webhooks.Range{Endpoint: e.ID, Since: d.At})
	if err != nil || done.Count != 1 || done.More {
		t.Fatalf("%+v, %v", done, err)
	}
	d = r.awaitState(t, id, webhooks.DeliveryDelivered)
	if list := to.all(); len(list) != 4 || list[3].id != d.EventID.String() || d.Tries != 4 {
		t.Errorf("%d requests, %+v", len(list), d)
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, _ got, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", []string{"3600", "2000000", "3600"}[min(n, 3)-1])
		w.WriteHeader([]int{429, 503, 500}[min(n, 3)-1])
	})
	r.endpoint(t, to.URL)
	r.engine(t, waits(5, time.Minute))
	id := r.ended(t, "k", outcome.StateSuccess)
	for i, want := range []time.Duration{time.Hour, 24 * time.Hour, time.Minute} {
		await(t, "a try", func() bool { return r.one(t, id).Tries == i+1 })
		last := r.account(t, r.one(t, id).ID).Log[i]
		if wait := last.NextAt.Sub(last.At); wait < want*79/100 || wait > want*121/100+patience || (i < 2 && wait < want) {
			t.Errorf("after %s with %d: the next try is %s later, want %s", "Retry-After", last.Status, wait, want)
		}
		other := r.ended(t, fmt.Sprint("other", i), outcome.StateSuccess) // waits too, for a while
		if i < 2 {
			pause := r.count(t, `SELECT extract(epoch FROM paused_until - now())::int FROM webhook_endpoints`)
			if tries := r.one(t, other).Tries; tries != 0 || pause < 300-int(patience.Seconds()) || pause > 300 {
				t.Errorf("another delivery: %d tries, %d s left", tries, pause)
			}
		}
		r.exec(t, `UPDATE webhook_deliveries SET next_at = now() + CASE WHEN command_id = $1 THEN interval '0' ELSE interval '1 h' END`, id) // that long passes
		r.exec(t, `UPDATE webhook_endpoints SET paused_until = now()`)
	}
}

// TestGone: 410 disables the endpoint; what it has pending waits and is released.
func TestGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, _ got, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(map[bool]int{true: 410, false: 200}[n == 1])
	})
	e, _ := r.endpoint(t, to.URL)
	r.engine(t)
	first := r.ended(t, "one", outcome.StateSuccess)
	await(t, "disabled", func() bool { return r.get(t, e.ID).DisabledBy == webhooks.DisabledByGone })
	if off := r.get(t, e.ID); off.DisabledAt == nil || off.DisabledReason != "it answered 410 Gone" || off.Version != e.Version+1 {
		t.Errorf("%+v", off)
	}
	second := r.ended(t, "two", outcome.StateRejected) // told later
	if d := r.one(t, second); d.State != webhooks.DeliveryPending || d.Tries != 0 {
		t.Errorf("while disabled: %+v", d)
	}
	if d := r.one(t, first); d.State != webhooks.DeliveryPending || d.Failure != webhooks.FailureGone {
		t.Errorf("the refused one: %+v", d)
	}
	if _, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{Disabled: new(false)}); err != nil {
		t.Fatal(err)
	}
	r.awaitState(t, first, webhooks.DeliveryDelivered)
	r.awaitState(t, second, webhooks.DeliveryDelivered)
	if n := r.count(t, `SELECT count(*) FROM audit WHERE action = 'webhook.disable' AND actor = 'executor' AND subject = $1`, e.ID.String()); n != 1 {
		t.Errorf("%d audit entries, want 1", n)
	}
}

// TestDaysOfFailures disable an endpoint, but never for a first failure.
func TestDaysOfFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, status(500))
	e, _ := r.endpoint(t, to.URL)
	r.engine(t, waits(5, time.Hour))
	first := r.ended(t, "one", outcome.StateSuccess)
	await(t, "a failure", func() bool { return r.one(t, first).Tries == 1 })
	r.exec(t, `UPDATE webhook_endpoints SET failing_since = now() - interval '6 days'`) // six days pass
	second := r.ended(t, "two", outcome.StateSuccess)
	await(t, "a failure", func() bool { return r.one(t, second).Tries == 1 })
	if r.get(t, e.ID).DisabledAt != nil {
		t.Fatal("disabled for the first failure of a delivery")
	}
	r.exec(t, `UPDATE webhook_deliveries SET next_at = now() WHERE command_id = $1`, first)
	await(t, "disabled", func() bool { return r.get(t, e.ID).DisabledBy == webhooks.DisabledByFailing })
	if d := r.one(t, first); d.State != webhooks.DeliveryPending || d.Tries != 2 {
		t.Errorf("its delivery: %+v", d)
	}
	after, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{Disabled: new(false)})
	if err != nil || after.DisabledAt != nil || after.FailingSince != nil || after.DisabledReason != "" {
		t.Errorf("enabled again: %+v, %v", after, err)
	}
}

// TestOrder: a command's later events wait for the earlier one, others do not.
func TestOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, g got, w http.ResponseWriter, _ *http.Request) {
		if g.message.Type == "command.unresolved" && n < 6 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r.endpoint(t, to.URL, func(s *webhooks.Settings) { s.Ordered = true })
	doubtful := r.submit(t, "doubtful")
	r.end(t, doubtful, outcome.StateUnresolved)
	r.end(t, doubtful, outcome.StateSuccess)
	other := r.ended(t, "other", outcome.StateSuccess)
	r.engine(t, waits(30, 10*time.Millisecond))
	r.awaitState(t, other, webhooks.DeliveryDelivered)
	await(t, "both delivered", func() bool {
		return !slices.ContainsFunc(r.of(t, doubtful), func(d webhooks.Delivery) bool { return d.State != webhooks.DeliveryDelivered })
	})
	var types []string
	for _, g := range to.all() {
		if g.message.Data.ID == doubtful {
			types = append(types, g.message.Type)
		}
	}
	last := len(types) - 1
	if types[last] != "command.success" || slices.Contains(types[:last], "command.success") {
		t.Errorf("in the order %v", types)
	}
}

// TestWhatWaitsIsPutBehind: while a receiver that wants an order is down, looks pass
// over each later event once, not again and again; and a try that a person asks for
// brings the later ones forward too.
func TestWhatWaitsIsPutBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, _ got, w http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	r.endpoint(t, to.URL, func(s *webhooks.Settings) { s.Ordered = true })
	id := r.submit(t, "k")
	r.end(t, id, outcome.StateUnresolved)
	r.end(t, id, outcome.StateSuccess)
	r.engine(t, waits(30, 10*time.Minute))
	await(t, "the later one is put behind", func() bool {
		list := r.of(t, id)
		return list[0].Tries == 1 && list[1].NextAt.Equal(list[0].NextAt)
	})
	if _, err := r.hooks.Redeliver(t.Context(), by(tenant), r.of(t, id)[0].ID); err != nil {
		t.Fatal(err)
	}
	await(t, "both delivered", func() bool {
		return !slices.ContainsFunc(r.of(t, id), func(d webhooks.Delivery) bool { return d.State != webhooks.DeliveryDelivered })
	})
	if list := to.all(); len(list) != 3 || list[1].message.Type != "command.unresolved" {
		t.Errorf("%d requests", len(list))
	}
}

// TestWhatIsGivenUpHoldsUpNothing on an ordered endpoint.
func TestWhatIsGivenUpHoldsUpNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(_ int, g got, w http.ResponseWriter, _ *http.Request) {
		if g.message.Type == "command.unresolved" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	r.endpoint(t, to.URL, func(s *webhooks.Settings) { s.Ordered = true })
	id := r.submit(t, "k")
	r.end(t, id, outcome.StateUnresolved)
	r.end(t, id, outcome.StateCancelled)
	r.engine(t, waits(1, time.Millisecond))
	await(t, "the later one is delivered", func() bool { return r.of(t, id)[1].State == webhooks.DeliveryDelivered })
	if d := r.of(t, id)[0]; d.State != webhooks.DeliveryFailed || d.Tries != 2 {
		t.Errorf("the earlier one: %+v", d)
	}
}

func TestTestEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	e, secret := r.endpoint(t, to.URL, func(s *webhooks.Settings) { s.Events = []string{"command.success"} })
	r.engine(t)
	d, err := r.hooks.Test(t.Context(), by(tenant), e.ID)
	if err != nil || d.Type != webhooks.TypeTest || d.CommandID != nil || d.State != webhooks.DeliveryPending {
		t.Fatalf("%+v, %v", d, err)
	}
	g := to.await(t, 1)[0]
	if err := verify(t, g, secret); err != nil || g.id != d.EventID.String() {
		t.Errorf("id %s, %v", g.id, err)
	}
	var body struct {
		Type      string
		Timestamp time.Time
		Data      struct{ Webhook uuid.UUID }
	}
	if err := json.Unmarshal(g.body, &body); err != nil || body.Type != webhooks.TypeTest || body.Data.Webhook != e.ID || body.Timestamp.IsZero() {
		t.Errorf("%s, %v", g.body, err)
	}
}

// TestACorrectionIsTold with what was told before.
func TestACorrectionIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	r.endpoint(t, to.URL, func(s *webhooks.Settings) { s.Events = []string{"command.corrected"} })
	r.engine(t)
	id := r.ended(t, "k", outcome.StateRejected)
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		locked, err := r.cmds.Lock(t.Context(), tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		_, err = r.cmds.Correct(t.Context(), tx, locked[id], commands.Correction{State: outcome.StateSuccess, Reference: "pay_1"}, "ann")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	g := to.await(t, 1)[0]
	if m := g.message; m.Type != "command.corrected" || m.Data.Sequence != 2 || m.Data.PreviousState == nil || *m.Data.PreviousState != "rejected" ||
		m.Data.Outcome.State != "success" || !strings.Contains(string(g.body), `"reference":"pay_1"`) {
		t.Errorf("told %s", g.body)
	}
}

// TestProcessesShareTheWork: nobody sends what another has claimed.
func TestProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	r.endpoint(t, to.URL)
	r.endpoint(t, to.URL+"/ordered", func(s *webhooks.Settings) { s.Ordered = true })
	const n = 80
	for i := range n {
		id := r.submit(t, fmt.Sprint("k", i))
		r.end(t, id, outcome.StateUnresolved)
		r.end(t, id, outcome.StateSuccess)
	}
	for range 3 {
		r.engine(t)
	}
	await(t, "all delivered", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered'`) == 4*n
	})
	if got := len(to.all()); got != 4*n {
		t.Errorf("%d requests, want %d", got, 4*n)
	}
	ids := map[string]int{}
	for _, g := range to.all() {
		ids[g.id]++
	}
	if len(ids) != 2*n {
		t.Errorf("%d ids, want %d", len(ids), 2*n)
	}
	if n := r.count(t, `SELECT count(*) FROM webhook_tries`); n != len(to.all()) {
		t.Errorf("%d lines in the log", n)
	}
}
