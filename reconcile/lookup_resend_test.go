package reconcile_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/attempts"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
)

// newSendingRig is a rig whose process also sends.
func newSendingRig(t testing.TB) *rig {
	t.Helper()
	pool := testkit.Database(t)
	if _, err := attempts.NewDeployment(pool, "test", nil).Adopt(context.Background(), audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, pool)
	guard := egress.NewGuard(egress.GuardConfig{})
	engine, err := attempts.NewEngine(attempts.EngineConfig{
		Pool: pool, Commands: r.commands, Upstreams: r.ups, Sender: attempts.NewSender(attempts.SenderConfig{Guard: guard}),
		Secrets: egress.NewSecrets(os.Getenv, ""), Tokens: egress.NewTokens(egress.TokensConfig{Guard: guard}),
		Instance: "sender-" + uuid.NewString(), Log: testLog(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.commands.SetStarter(engine)
	if err := engine.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Stop(context.Background()) })
	return r
}

// ledger is an upstream that takes charges. drop says of each request, counted from
// 1, whether its answer gets lost, and whether its effect does too.
type ledger struct {
	*server
	mu       sync.Mutex
	requests []string // key and body of each
	effects  int
}

func newLedger(t testing.TB, lose func(n int) (answer, effect bool)) *ledger {
	t.Helper()
	l := &ledger{}
	l.server = newServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			l.mu.Lock()
			defer l.mu.Unlock()
			answer(w, 200, map[bool]string{true: done, false: nothing}[l.effects > 0])
			return
		}
		body := make([]byte, r.ContentLength)
		_, _ = r.Body.Read(body)
		l.mu.Lock()
		l.requests = append(l.requests, r.Header.Get("Idempotency-Key")+" "+string(body))
		lostAnswer, lostEffect := lose(len(l.requests))
		if !lostEffect {
			l.effects = 1 // once, however often it is asked for
		}
		l.mu.Unlock()
		if lostAnswer {
			conn, _, _ := w.(http.Hijacker).Hijack()
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
			return
		}
		answer(w, 201, `{"id": "pay_1"}`)
	})
	return l
}

func (l *ledger) sent() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.requests...)
}

// keyed makes the operation of a profile one that repeats under a key do not act
// again.
func keyed(profile, retention string) string {
	return strings.Replace(profile, "    result:", "    idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}, retention: "+retention+"}\n    result:", 1)
}

// TestTheAnswerIsLostAfterTheEffect: the caller is told that it is not known; the
// lookup recovers the first outcome, and nothing is sent again.
func TestTheAnswerIsLostAfterTheEffect(t *testing.T) {
	t.Parallel()
	r := newSendingRig(t)
	up := newLedger(t, func(int) (bool, bool) { return true, false })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	id := r.submit(t, "k1").ID
	c := r.reaches(t, id, outcome.StateUnresolved)
	if c.Key != "k1" || c.Outcome.NextAction != outcome.NextActionLookup || c.Reconciliation.NextLookupAt == nil {
		t.Errorf("%+v, %+v", c.Outcome, c.Reconciliation)
	}
	r.start(t)
	c = r.reaches(t, id, outcome.StateSuccess)
	if c.Outcome.Sequence != 2 || c.Attempts != 1 || c.Outcome.Result.Reference != "pay_1" {
		t.Errorf("outcome %+v, %d attempts", c.Outcome, c.Attempts)
	}
	if n := len(up.sent()); n != 1 {
		t.Errorf("%d requests", n)
	}
	var previous string
	r.scan(t, `SELECT data ->> 'previous_state' FROM events WHERE command_id = $1 AND type = 'command.success'`, []any{id}, &previous)
	if previous != "unresolved" {
		t.Errorf("previous state %q", previous)
	}
}

// TestReplay asks by sending the command again, under the same key and bytes, until
// an answer comes: each time an attempt, and never two outcomes for the caller.
func TestReplay(t *testing.T) {
	t.Parallel()
	r := newSendingRig(t)
	up := newLedger(t, func(n int) (bool, bool) { return n < 6, false }) // 3 attempts, 2 replays
	r.apply(t, keyed(profileFor(up.URL, "\n      replay: true\n      "+often+"\n", ""), "24h"))
	id := r.submit(t, "k1").ID
	r.start(t)
	c := r.reaches(t, id, outcome.StateSuccess)
	sent := up.sent()
	if len(sent) != 6 || c.Attempts != 6 || up.effects != 1 {
		t.Errorf("%d requests, %d attempts, %d effects", len(sent), c.Attempts, up.effects)
	}
	for _, s := range sent {
		if s != `k1 {"amount":100}` {
			t.Errorf("sent %q", s)
		}
	}
	if got := r.eventTypes(t, id); got != "command.unresolved command.success" {
		t.Errorf("events %s", got)
	}
	if n := r.count(t, `SELECT rounds FROM doubts WHERE command_id = $1`, id); n != 3 {
		t.Errorf("%d rounds", n)
	}
}

// TestAReplayIsToldWhenToComeBack: it is a question like any other.
func TestAReplayIsToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	r := newSendingRig(t)
	var asked sync.Map
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		key, status := r.Header.Get("Idempotency-Key"), 202
		if _, again := asked.LoadOrStore(key, true); again {
			w.Header().Set("Retry-After", "600")
			status = map[string]int{"working": 202, "busy": 503, "failing": 500}[key]
		}
		answer(w, status, `{}`)
	})
	r.apply(t, keyed(profileFor(up.URL, "\n      replay: true\n      schedule: {first_after: 0s, factor: 2, max_interval: 1h, give_up_after: 72h}\n", ""), "24h"))
	r.start(t)
	for key, want := range map[string]bool{"working": true, "busy": true, "failing": false} {
		id := r.submit(t, key).ID
		eventually(t, "a replay", func() bool {
			return r.count(t, `SELECT count(*) FROM attempts a JOIN doubts d USING (command_id) WHERE a.command_id = $1 AND a.number = 2 AND d.next_at > a.ended_at`, id) == 1
		})
		var wait float64
		r.scan(t, `SELECT extract(epoch FROM d.next_at - a.ended_at)::float8 FROM attempts a JOIN doubts d USING (command_id) WHERE a.command_id = $1 AND a.number = 2`, []any{id}, &wait)
		if (wait >= 600) != want {
			t.Errorf("%s: asked again after %.1f s", key, wait)
		}
	}
}

// TestADeadKeyIsNotReplayed, and nothing is while the upstream is paused.
func TestADeadKeyIsNotReplayed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	u := r.apply(t, keyed(profileFor("http://127.0.0.1:1024", "\n      replay: true\n      "+often+"\n", ""), "24h"))
	dead, alive := r.unresolved(t, "dead", lost), r.unresolved(t, "alive", lost)
	r.exec(t, `UPDATE attempts SET started_at = started_at - interval '24 hours' WHERE command_id = $1`, dead)
	if _, err := r.ups.Pause(t.Context(), tenant, u.Name, audit.By{Actor: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	eventually(t, "a round", func() bool {
		return r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND rounds > 0 AND next_at IS NOT NULL`, alive) == 1
	})
	if _, err := r.ups.Resume(t.Context(), tenant, u.Name, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	r.reaches(t, alive, outcome.StatePending)
	if why := r.handed(t, dead); why != reconcile.ReviewNothingToAsk {
		t.Errorf("handed over because of %s", why)
	}
}

// TestReplaysEndWithTheSchedule.
func TestReplaysEndWithTheSchedule(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t, keyed(profileFor("http://127.0.0.1:1024", "\n      replay: true\n      "+often+"\n", ""), "24h"))
	id := r.unresolved(t, "k1", lost)
	r.exec(t, `UPDATE doubts SET gives_up_at = now(), rounds = 3`)
	r.start(t)
	if why := r.handed(t, id); why != reconcile.ReviewScheduleUsedUp {
		t.Errorf("handed over because of %s", why)
	}
}

// TestAResendAfterConfirmedAbsence is exactly one more request.
func TestAResendAfterConfirmedAbsence(t *testing.T) {
	t.Parallel()
	r := newSendingRig(t)
	up := newLedger(t, func(n int) (bool, bool) { return n == 1, n == 1 })
	r.apply(t, profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 1s, confirmations: 1, spacing: 0s, then: resend}"), ""))
	id := r.submit(t, "k1").ID
	r.start(t)
	c := r.reaches(t, id, outcome.StateSuccess)
	if n := len(up.sent()); n != 2 || c.Attempts != 2 || up.effects != 1 {
		t.Errorf("%d requests, %d attempts, %d effects", n, c.Attempts, up.effects)
	}
	var second, counts time.Time
	r.scan(t, `SELECT max(a.started_at), min(l.started_at) FROM attempts a, lookups l WHERE l.counts`, nil, &second, &counts)
	if second.Before(counts) {
		t.Errorf("sent again at %s, absence was confirmed at %s", second, counts)
	}
}

// TestAResendThatDoesNotFit is none: the command is cancelled.
func TestAResendThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"deadline": `UPDATE commands SET deadline = now()`,
		"cancel":   `UPDATE commands SET cancel_requested_at = now()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, nothing) })
			r.apply(t, profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 1s, confirmations: 1, spacing: 0s, then: resend}"), ""))
			id := r.unresolved(t, "k1", lost)
			r.exec(t, spoil)
			r.start(t)
			c := r.reaches(t, id, outcome.StateCancelled)
			if c.Outcome.Reason != outcome.OutcomeReasonConfirmedAbsent {
				t.Errorf("outcome %+v", c.Outcome)
			}
		})
	}
}

// TestARefusalAfterDoubt does not decide, the lookup does.
func TestARefusalAfterDoubt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, failed) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	c := r.reaches(t, id, outcome.StateRejected)
	if c.Outcome.DecidedBy != outcome.DecidedByLookup || c.Outcome.Rejection.Code != "card_declined" {
		t.Errorf("outcome %+v, rejection %+v", c.Outcome, c.Outcome.Rejection)
	}
}
