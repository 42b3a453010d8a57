package webhooks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/webhooks"
)

func asking(c *webhooks.Config) { c.Ask = webhooks.AskAll }

// challengeIn is the challenge that a request asks; "" for another event.
func challengeIn(g got) string {
	var m struct{ Data struct{ Challenge string } }
	_ = json.Unmarshal(g.body, &m)
	return m.Data.Challenge
}

// echo answers a challenge as the documentation says.
func echo(_ int, g got, w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]string{"challenge": challengeIn(g)})
}

// TestNothingButAChallenge reaches a receiver that has not proved itself. What
// happened meanwhile follows when it has, all of it, and nothing is asked again.
func TestNothingButAChallenge(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	var ready atomic.Bool
	to := newReceiver(t, func(n int, g got, w http.ResponseWriter, req *http.Request) {
		if ready.Load() {
			echo(n, g, w, req)
		}
	})
	e, secret := r.endpoint(t, to.URL)
	if e.VerifiedAt != nil || e.VerifiedBy != "" {
		t.Fatalf("verified as it is made: %+v", e)
	}
	r.engine(t, func(c *webhooks.EngineConfig) { c.Challenges = []time.Duration{time.Hour} })
	first := r.ended(t, "one", outcome.StateSuccess)
	to.await(t, 1) // it takes the challenge, and does not answer it
	asked := func() webhooks.Delivery {
		list, _, err := r.hooks.Deliveries(t.Context(), webhooks.DeliveryFilter{Tenant: tenant, Type: webhooks.TypeChallenge})
		if err != nil || len(list) == 0 {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0]
	}
	await(t, "the challenge is on record", func() bool { return asked().Tries == 1 })
	if d := asked(); d.Failure != webhooks.FailureUnproven || d.State != webhooks.DeliveryPending {
		t.Errorf("a challenge that was taken and not answered: %+v", d)
	}
	var refusal *webhooks.Refused
	if _, err := r.hooks.Test(t.Context(), by(tenant), e.ID); !errors.As(err, &refusal) || refusal.Code != "webhook_unverified" {
		t.Errorf("a test event: %v", err)
	}
	if _, err := r.hooks.Redeliver(t.Context(), by(tenant), asked().ID); !errors.As(err, &refusal) || refusal.Code != "webhook_challenge" {
		t.Errorf("the challenge once more: %v", err)
	}
	ready.Store(true)
	if _, err := r.hooks.Challenge(t.Context(), by(tenant), e.ID); err != nil {
		t.Fatal(err)
	}
	r.awaitState(t, first, webhooks.DeliveryDelivered)
	second := r.ended(t, "two", outcome.StateSuccess)
	r.awaitState(t, second, webhooks.DeliveryDelivered)
	var types []string
	for _, g := range to.all() {
		types = append(types, g.message.Type)
		if err := verify(t, g, secret); err != nil {
			t.Errorf("%s: %v", g.message.Type, err)
		}
	}
	if want := "webhook.challenge webhook.challenge command.success command.success"; strings.Join(types, " ") != want {
		t.Errorf("it got %v, want %s", types, want)
	}
	if e = r.get(t, e.ID); e.VerifiedBy != webhooks.VerifiedByChallenge || e.Version != 1 || e.FailingSince != nil {
		t.Errorf("afterwards: %+v", e)
	}
	if _, err := r.hooks.Challenge(t.Context(), by(tenant), e.ID); !errors.As(err, &refusal) || refusal.Code != "webhook_verified" {
		t.Errorf("one more challenge: %v", err)
	}
	if n := r.count(t, `SELECT count(*) FROM audit WHERE action = 'webhook.verify' AND actor = 'executor' AND subject = $1`, e.ID.String()); n != 1 {
		t.Errorf("%d entries in the audit, want 1", n)
	}
}

// TestNothingIsKeptForWhoNeverAnswers: days after its last challenge was given up the
// webhook is disabled. What waited follows once it is enabled and its receiver answers.
func TestNothingIsKeptForWhoNeverAnswers(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	to := newReceiver(t, echo)
	e, _ := r.endpoint(t, to.URL)
	before := r.ended(t, "before", outcome.StateSuccess)
	long := `clock_timestamp() - interval '6 days'`
	r.exec(t, `UPDATE webhook_deliveries SET state = 'failed', ended_at = `+long+` WHERE type = 'webhook.challenge'`)
	r.exec(t, `UPDATE webhook_endpoints SET updated_at = `+long)
	r.engine(t, func(c *webhooks.EngineConfig) { c.Tend = 20 * time.Millisecond })
	await(t, "disabled", func() bool { return r.get(t, e.ID).DisabledBy == webhooks.DisabledByUnproven })
	between := r.ended(t, "between", outcome.StateSuccess)
	if n := len(r.of(t, between)); n != 0 {
		t.Errorf("%d deliveries were kept for it", n)
	}
	if n := r.count(t, `SELECT count(*) FROM audit WHERE action = 'webhook.disable' AND subject = $1`, e.ID.String()); n != 1 {
		t.Errorf("%d entries in the audit, want 1", n)
	}
	if _, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{Disabled: new(bool)}); err != nil {
		t.Fatal(err)
	}
	r.awaitState(t, before, webhooks.DeliveryDelivered)
	r.awaitState(t, r.ended(t, "after", outcome.StateSuccess), webhooks.DeliveryDelivered)
}

// TestAChallengeIsHidden from those who read the log: only the receiver knows it.
func TestAChallengeIsHidden(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	to := newReceiver(t, func(_ int, g got, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(g.body) })
	r.endpoint(t, to.URL)
	r.engine(t)
	value := challengeIn(to.await(t, 1)[0])
	list, _, err := r.hooks.Deliveries(t.Context(), webhooks.DeliveryFilter{Tenant: tenant})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	await(t, "on record", func() bool { return len(r.account(t, list[0].ID).Log) > 0 })
	a := r.account(t, list[0].ID)
	if shown := string(a.Payload) + a.Log[0].Excerpt; len(value) < 40 || strings.Contains(shown, value) || !strings.Contains(shown, "receiver only") {
		t.Errorf("shown: %s", shown)
	}
	if a.Log[0].Failure != webhooks.FailureUnproven { // it repeats what it is sent, as echo services do
		t.Errorf("a server that only repeats requests: %+v", a.Log[0])
	}
}

// TestAnswersToAChallenge: what counts as one.
func TestAnswersToAChallenge(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	write := func(w http.ResponseWriter, format, value string) { _, _ = fmt.Fprintf(w, format, value) }
	answers := map[string]struct {
		proves bool
		answer func(w http.ResponseWriter, value string, body []byte)
	}{
		"object": {true, func(w http.ResponseWriter, v string, _ []byte) { write(w, ` {"challenge": "%s", "more": 1}`+"\n", v) }},
		"text":   {true, func(w http.ResponseWriter, v string, _ []byte) { write(w, "%s\r\n", v) }},
		"string": {true, func(w http.ResponseWriter, v string, _ []byte) { write(w, `"%s"`, v) }},
		"header": {true, func(w http.ResponseWriter, v string, _ []byte) {
			w.Header().Set("Webhook-Challenge", v)
			w.WriteHeader(204)
		}},
		"status": {false, func(w http.ResponseWriter, v string, _ []byte) { w.WriteHeader(500); write(w, "%s", v) }},
		"redirect": {false, func(w http.ResponseWriter, v string, _ []byte) {
			w.Header().Set("Location", "/")
			w.WriteHeader(307)
			write(w, "%s", v)
		}},
		"nothing":    {false, func(http.ResponseWriter, string, []byte) {}},
		"page":       {false, func(w http.ResponseWriter, v string, _ []byte) { write(w, "<p>You sent %s</p>", v) }},
		"deep":       {false, func(w http.ResponseWriter, v string, _ []byte) { write(w, `{"json": {"challenge": "%s"}}`, v) }},
		"repetition": {false, func(w http.ResponseWriter, _ string, body []byte) { _, _ = w.Write(body) }},
		"part":       {false, func(w http.ResponseWriter, v string, _ []byte) { write(w, "%s", v[:len(v)-1]) }},
		"longer":     {false, func(w http.ResponseWriter, v string, _ []byte) { write(w, "%sx", v) }},
	}
	to := newReceiver(t, func(_ int, g got, w http.ResponseWriter, req *http.Request) {
		answers[req.URL.Path[1:]].answer(w, challengeIn(g), g.body)
	})
	made := map[string]uuid.UUID{}
	for name := range answers {
		e, _ := r.endpoint(t, to.URL+"/"+name)
		made[name] = e.ID
	}
	r.engine(t, func(c *webhooks.EngineConfig) { c.Challenges = []time.Duration{} })
	await(t, "all are answered", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE state IN ('delivered', 'failed')`) == len(answers)
	})
	for name, a := range answers {
		if e := r.get(t, made[name]); (e.VerifiedAt != nil) != a.proves {
			t.Errorf("%s: verified at %v by %q, want %v", name, e.VerifiedAt, e.VerifiedBy, a.proves)
		}
	}
}

// TestANewURLIsAnotherReceiver: it is asked before it gets anything, the old one gets
// no more, and an answer to a challenge for the old URL counts for nothing.
func TestANewURLIsAnotherReceiver(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	hold := make(chan struct{})
	old := newReceiver(t, func(n int, g got, w http.ResponseWriter, req *http.Request) { <-hold; echo(n, g, w, req) })
	fresh := newReceiver(t, echo)
	e, _ := r.endpoint(t, old.URL)
	r.engine(t)
	old.await(t, 1)
	id := r.ended(t, "k", outcome.StateSuccess)
	moved, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{URL: &fresh.URL})
	if err != nil || moved.VerifiedAt != nil {
		t.Fatalf("%+v, %v", moved, err)
	}
	close(hold) // only now the old receiver answers
	r.awaitState(t, id, webhooks.DeliveryDelivered)
	if e := r.get(t, e.ID); e.VerifiedBy != webhooks.VerifiedByChallenge || len(old.all()) != 1 {
		t.Errorf("%+v; the old receiver got %d requests", e, len(old.all()))
	}
	if types := []string{fresh.all()[0].message.Type, fresh.all()[1].message.Type}; types[0] != webhooks.TypeChallenge || types[1] != "command.success" {
		t.Errorf("the new receiver got %v", types)
	}
	back, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{Description: new("the same URL")})
	if err != nil || back.VerifiedAt == nil {
		t.Errorf("another description: %+v, %v", back, err)
	}
	if back, err = r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{URL: &old.URL}); err != nil || back.VerifiedAt != nil {
		t.Errorf("the first URL again: %+v, %v", back, err)
	}
}

// TestALateAnswerOfTheOldURL is of no use, even if it comes while the new one is
// asked.
func TestALateAnswerOfTheOldURL(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	hold, answered := make(chan struct{}), make(chan struct{})
	old := newReceiver(t, func(n int, g got, w http.ResponseWriter, req *http.Request) {
		<-hold
		echo(n, g, w, req)
		close(answered)
	})
	silent := newReceiver(t, nil)
	e, _ := r.endpoint(t, old.URL)
	engine := r.engine(t)
	old.await(t, 1)
	if _, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{URL: &silent.URL}); err != nil {
		t.Fatal(err)
	}
	close(hold)
	<-answered
	silent.await(t, 1)
	engine.Stop(t.Context()) // all that was under way is on record
	if e := r.get(t, e.ID); e.VerifiedAt != nil {
		t.Errorf("verified by the answer of another URL: %+v", e)
	}
}

// TestOlderProcessesLeaveNobodyUnasked: one of a version without challenges makes
// endpoints without asking, and takes any 2xx for an answer.
func TestOlderProcessesLeaveNobodyUnasked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ask  webhooks.Ask
		left string // of the challenge
		want webhooks.VerifiedBy
	}{
		"made without a challenge": {webhooks.AskAll, `DELETE FROM webhook_deliveries`, webhooks.VerifiedByChallenge},
		"taken for delivered":      {webhooks.AskAll, `UPDATE webhook_deliveries SET state = 'delivered', ended_at = now()`, webhooks.VerifiedByChallenge},
		"nobody is asked":          {webhooks.AskNobody, `DELETE FROM webhook_deliveries`, webhooks.VerifiedBySetting},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(c *webhooks.Config) { c.Ask = tt.ask })
			e, _ := r.endpoint(t, newReceiver(t, echo).URL)
			r.exec(t, tt.left)
			r.exec(t, `UPDATE webhook_endpoints SET verified_at = NULL, verified_by = ''`)
			r.engine(t)
			await(t, "it is verified", func() bool { return r.get(t, e.ID).VerifiedBy == tt.want })
		})
	}
}

// TestAPersonConfirms a receiver that cannot answer; it takes a reason.
func TestAPersonConfirms(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	to := newReceiver(t, nil)
	e, _ := r.endpoint(t, to.URL)
	r.engine(t)
	id := r.ended(t, "k", outcome.StateSuccess)
	to.await(t, 1)
	silent := by(tenant)
	silent.Reason = ""
	var invalid *webhooks.Invalid
	if _, err := r.hooks.Confirm(t.Context(), silent, e.ID, 0); !errors.As(err, &invalid) || invalid.Field != "reason" {
		t.Errorf("without a reason: %v", err)
	}
	var stale *webhooks.Stale
	if _, err := r.hooks.Confirm(t.Context(), by(tenant), e.ID, 7); !errors.As(err, &stale) {
		t.Errorf("of another version: %v", err)
	}
	if _, err := r.hooks.Confirm(t.Context(), by("other"), e.ID, 0); !errors.Is(err, webhooks.ErrNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
	after, err := r.hooks.Confirm(t.Context(), by(tenant), e.ID, e.Version)
	if err != nil || after.VerifiedBy != webhooks.VerifiedByPerson || after.Version != e.Version+1 {
		t.Fatalf("%+v, %v", after, err)
	}
	r.awaitState(t, id, webhooks.DeliveryDelivered)
	if n := r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE type = 'webhook.challenge' AND state = 'pending'`); n != 0 {
		t.Errorf("%d challenges are still asked", n)
	}
	if reason := r.text(t, `SELECT reason FROM audit WHERE action = 'webhook.confirm'`); reason != "test" {
		t.Errorf("the audit has the reason %q", reason)
	}
}

// TestChallengesAreBounded: after the last try nobody is asked by itself, and a
// tenant cannot have ever more asked.
func TestChallengesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, asking)
	to := newReceiver(t, status(404))
	e, _ := r.endpoint(t, to.URL)
	r.engine(t, func(c *webhooks.EngineConfig) { c.Challenges = []time.Duration{time.Millisecond, time.Millisecond} })
	id := r.ended(t, "k", outcome.StateSuccess)
	await(t, "given up", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE type = 'webhook.challenge' AND state = 'failed'`) == 1
	})
	if d := r.one(t, id); len(to.all()) != 3 || d.State != webhooks.DeliveryPending || d.Tries != 0 {
		t.Errorf("%d challenges; what waits: %+v", len(to.all()), d)
	}
	var busy *webhooks.Busy
	n := 0
	for ; n < 100 && busy == nil; n++ {
		if _, err := r.hooks.Challenge(t.Context(), by(tenant), e.ID); err != nil && !errors.As(err, &busy) {
			t.Fatal(err)
		}
	}
	if n > webhooks.MaxEndpoints+15 || busy == nil || busy.Again <= 0 || busy.Again > 2*time.Minute {
		t.Errorf("%d challenges at once, then %v", n, busy)
	}
	if _, _, err := r.hooks.Create(t.Context(), by(tenant), webhooks.Settings{URL: to.URL + "/another"}); !errors.As(err, &busy) {
		t.Errorf("another webhook: %v", err)
	}
	if _, _, err := r.hooks.Create(t.Context(), by("other"), webhooks.Settings{URL: to.URL}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	r.exec(t, `UPDATE webhook_allowances SET until = until - interval '90 s'`) // time passes
	if _, err := r.hooks.Challenge(t.Context(), by(tenant), e.ID); err != nil {
		t.Errorf("after a while: %v", err)
	}
}

// TestTestsAndRedeliveriesAreBounded, each endpoint's for itself.
func TestTestsAndRedeliveriesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, _ := r.endpoint(t, "https://a.example/")
	other, _ := r.endpoint(t, "https://b.example/")
	last := webhooks.Delivery{}
	for what, ask := range map[string]func(uuid.UUID) error{
		"test": func(id uuid.UUID) (err error) {
			d, err := r.hooks.Test(t.Context(), by(tenant), id)
			if err == nil {
				last = d
			}
			return err
		},
		"range": func(id uuid.UUID) error {
			_, err := r.hooks.RedeliverRange(t.Context(), by(tenant), webhooks.Range{Endpoint: id, Since: time.Now().Add(-time.Hour)})
			return err
		},
	} {
		var busy *webhooks.Busy
		n := 0
		for ; n < 200 && busy == nil; n++ {
			if err := ask(e.ID); err != nil && !errors.As(err, &busy) {
				t.Fatal(what, err)
			}
		}
		if n < 10 || n > 30 {
			t.Errorf("%s: %d at once", what, n)
		}
		if err := ask(other.ID); err != nil {
			t.Errorf("%s of another endpoint: %v", what, err)
		}
	}
	var busy *webhooks.Busy
	for n := 0; busy == nil; n++ {
		if _, err := r.hooks.Redeliver(t.Context(), by(tenant), last.ID); err != nil && !errors.As(err, &busy) || n > 200 {
			t.Fatal(n, err)
		}
	}
}

// TestWhoIsAsked: whoever runs the deployment vouches for the private networks that
// they named, and for nobody else.
func TestWhoIsAsked(t *testing.T) {
	everything := netip.MustParsePrefix("0.0.0.0/0")
	for name, c := range map[string]struct {
		allow []netip.Prefix
		ask   webhooks.Ask
		url   string
		want  webhooks.VerifiedBy
	}{
		"a named address":          {loopback, "", "http://127.0.0.1:8080/hook", webhooks.VerifiedBySetting},
		"a named address, all":     {loopback, webhooks.AskAll, "http://127.0.0.1:8080/hook", ""},
		"localhost":                {loopback, webhooks.AskOthers, "http://localhost:8080/hook", webhooks.VerifiedBySetting},
		"a public address":         {loopback, webhooks.AskOthers, "https://8.8.8.8/hook", ""},
		"a public one, everything": {[]netip.Prefix{everything}, webhooks.AskOthers, "https://8.8.8.8/hook", ""},
		"a name":                   {loopback, webhooks.AskOthers, "https://shop.example/hook", ""},
		"a name, nobody":           {loopback, webhooks.AskNobody, "https://shop.example/hook", webhooks.VerifiedBySetting},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(config *webhooks.Config) { config.Allow, config.Ask = c.allow, c.ask })
			if e, _ := r.endpoint(t, c.url); e.VerifiedBy != c.want || (e.VerifiedAt != nil) != (c.want != "") {
				t.Errorf("verified by %q at %v, want %q", e.VerifiedBy, e.VerifiedAt, c.want)
			}
		})
	}
}
