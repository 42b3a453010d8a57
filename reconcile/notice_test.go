package reconcile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// TestANoticeSettles: whatever it names the command by.
func TestANoticeSettles(t *testing.T) {
	r := newNoticeRig(t)
	tests := []struct {
		name      string
		operation string
		reference string // that the attempt was answered with
		about     func(key string, id uuid.UUID) any
	}{
		{"key", "charge", "", func(key string, _ uuid.UUID) any { return key }},
		{"key in an object", "charge", "", func(key string, _ uuid.UUID) any { return map[string]any{"key": key} }},
		{"key on the wire", "buy", "", func(_ string, id uuid.UUID) any { return id.String() }},
		{"id", "charge", "", func(_ string, id uuid.UUID) any { return map[string]any{"id": id.String()} }},
		{"reference", "charge", "ch_9", func(string, uuid.UUID) any { return map[string]any{"reference": "ch_9"} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			key, answer := uuid.NewString(), outcome.Answer("")
			if tt.reference != "" {
				answer = outcome.AnswerPending
			}
			id := r.attempted(t, key, tt.operation, answer, tt.reference)
			r.wantState(t, id, outcome.StateUnresolved)
			body := named(tt.about(key, id), "done", "pay_1")
			if got := r.receive(t, key, body); got != (reconcile.Received{Matched: true}) {
				t.Errorf("received %+v", got)
			}
			c := r.wantState(t, id, outcome.StateSuccess)
			if c.Outcome.DecidedBy != outcome.DecidedByNotice || c.Outcome.Result.Reference != "pay_1" {
				t.Errorf("outcome %+v", c.Outcome)
			}
			if got := r.receive(t, key, body); got != (reconcile.Received{Duplicate: true}) {
				t.Errorf("then received %+v", got)
			}
			n := r.wantNotices(t, id, "done settled")[0]
			if n.EventID != key || string(n.Body) != body || n.Finding != outcome.FindingApplied || n.Rule == "" || n.MatchedAt.IsZero() {
				t.Errorf("kept is %+v", n)
			}
			if len(n.Headers["Webhook-Id"]) != 1 || n.Headers.Get("Webhook-Signature") != "[redacted]" {
				t.Errorf("headers %v", n.Headers)
			}
			if got := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1 AND source = 'notice' AND effect = 'settled'`, id); got != 1 {
				t.Errorf("%d findings", got)
			}
		})
	}
}

// TestWhatANoticeSays enumerates findings and the states in which they come.
func TestWhatANoticeSays(t *testing.T) {
	r := newNoticeRig(t)
	tests := []struct {
		before outcome.Answer // of the one attempt
		says   string
		effect string
		after  outcome.State
	}{
		{"", "done", "done settled", outcome.StateSuccess},
		{"", "failed", "done settled", outcome.StateRejected},
		{"", "pending", "done none", outcome.StateUnresolved},
		{"", "gone", "done none", outcome.StateUnresolved},
		{"", "verifying_v2", "done none", outcome.StateUnresolved},
		{outcome.AnswerApplied, "done", "done none", outcome.StateSuccess},
		{outcome.AnswerApplied, "pending", "done none", outcome.StateSuccess},
		{outcome.AnswerApplied, "gone", "done none", outcome.StateSuccess},
		{outcome.AnswerApplied, "failed", "done conflict", outcome.StateSuccess},
		{outcome.AnswerRefused, "failed", "done none", outcome.StateRejected},
		{outcome.AnswerRefused, "gone", "done none", outcome.StateRejected},
		{outcome.AnswerRefused, "done", "done conflict", outcome.StateRejected},
		{outcome.AnswerRefused, "pending", "done conflict", outcome.StateRejected},
	}
	for _, tt := range tests {
		key := uuid.NewString()
		id := r.attempted(t, key, "charge", tt.before, "")
		r.receive(t, key, about(key, tt.says))
		c := r.wantState(t, id, tt.after)
		r.wantNotices(t, id, tt.effect)
		if tt.says == "failed" && tt.after == outcome.StateRejected && tt.before == "" && c.Outcome.Rejection.Code != "declined" {
			t.Errorf("rejected with %+v", c.Outcome.Rejection)
		}
		if conflicts := r.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND type = 'command.conflict'`, id); (conflicts == 1) != (tt.effect == "done conflict") {
			t.Errorf("%s, then %s: %d conflicts", tt.before, tt.says, conflicts)
		}
	}
}

// TestReplayedNotices: a captured notice is a copy for ever, and a stale one, or one
// dated ahead, is not believed.
func TestReplayedNotices(t *testing.T) {
	r := newNoticeRig(t)
	id := r.attempted(t, "k1", "charge", "", "")
	body := about("k1", "done")
	send := func(event string, off time.Duration, secrets ...string) (reconcile.Received, error) {
		return r.store.Receive(t.Context(), "default", "up", signed(event, body, time.Now().Add(off), secrets...), []byte(body))
	}
	if got, err := send("evt_1", -4*time.Minute, newSecret); err != nil || !got.Matched {
		t.Fatal(got, err)
	}
	for _, off := range []time.Duration{0, -4 * time.Minute, 4 * time.Minute} {
		if got, err := send("evt_1", off, newSecret); err != nil || !got.Duplicate {
			t.Errorf("dated %s: %+v, %v", off, got, err)
		}
	}
	for _, off := range []time.Duration{6 * time.Minute, -6 * time.Minute, 24 * 365 * time.Hour} {
		var refused *upstreams.UnverifiedNotice
		if _, err := send("evt_2", off, newSecret); !errors.As(err, &refused) {
			t.Errorf("dated %s: %v", off, err)
		}
	}
	r.wantNotices(t, id, "done settled")
	if n := r.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND sequence > 0`, id); n != 2 {
		t.Errorf("%d outcomes announced", n)
	}
}

func TestWhoseNoticeIsBelieved(t *testing.T) {
	r := newNoticeRig(t)
	body := about("k1", "done")
	other := "whsec_b3RoZXI="
	good := signed("evt_1", body, time.Now(), newSecret)
	without := good.Clone()
	without.Del("Webhook-Signature")
	tests := []struct {
		name     string
		header   http.Header
		body     string
		believed bool
	}{
		{"the new secret", good, body, true},
		{"the old secret", signed("evt_2", body, time.Now(), oldSecret), body, true},
		{"both", signed("evt_3", body, time.Now(), oldSecret, newSecret), body, true},
		{"ours among others", signed("evt_4", body, time.Now(), other, newSecret), body, true},
		{"another secret", signed("evt_5", body, time.Now(), other), body, false},
		{"another body", good, about("k2", "done"), false},
		{"no signature", without, body, false},
		{"no headers", http.Header{}, body, false},
	}
	for _, tt := range tests {
		_, err := r.store.Receive(t.Context(), "default", "up", tt.header, []byte(tt.body))
		var refused *upstreams.UnverifiedNotice
		if tt.believed && err != nil || !tt.believed && !errors.As(err, &refused) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM notices`); n != 4 {
		t.Errorf("%d are kept", n)
	}
	delete(r.secrets, "env:EXECUTOR_SECRET_OLD") // while it is being replaced
	if _, err := r.store.Receive(t.Context(), "default", "up", signed("evt_6", body, time.Now(), newSecret), []byte(body)); err != nil {
		t.Errorf("with one secret gone: %v", err)
	}
	delete(r.secrets, "env:EXECUTOR_SECRET_NEW")
	if _, err := r.store.Receive(t.Context(), "default", "up", good, []byte(body)); !errors.Is(err, commands.ErrUnavailable) {
		t.Errorf("without a secret: %v", err)
	}
}

func TestWhoTakesNotices(t *testing.T) {
	r := newNoticeRig(t)
	silent := strings.Split(fmt.Sprintf(noticeProfile, "silent", "default"), "notices:")[0]
	r.apply(t, silent)
	body := about("k1", "done")
	send := func(tenant, upstream, body string) error {
		_, err := r.store.Receive(t.Context(), tenant, upstream, signed("e", body, time.Now(), newSecret), []byte(body))
		return err
	}
	for _, whose := range [][2]string{{"default", "silent"}, {"default", "nobody"}, {"other", "up"}} {
		if err := send(whose[0], whose[1], body); !errors.Is(err, reconcile.ErrNoNotices) {
			t.Errorf("%v: %v", whose, err)
		}
	}
	var unreadable *upstreams.UnreadableNotice
	if err := send("default", "up", "not json"); !errors.As(err, &unreadable) {
		t.Errorf("not JSON: %v", err)
	}
	large := `{"about":"k1","state":"` + strings.Repeat("x", reconcile.NoticeBytes) + `"}`
	if err := send("default", "up", large); !errors.Is(err, reconcile.ErrNoticeTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if err := send("default", "up", large[:200]+`"}`); err != nil {
		t.Errorf("not too large: %v", err)
	}
}

// TestANoticeComesBeforeItsCommand: it waits, for the command and for its
// reference.
func TestANoticeComesBeforeItsCommand(t *testing.T) {
	r := newNoticeRig(t)
	if got := r.receive(t, "e1", about("early", "done")); got != (reconcile.Received{}) {
		t.Fatalf("received %+v", got)
	}
	late := r.submit(t, "late", "charge")
	r.begin(t, late)
	r.receive(t, "e2", named(map[string]any{"reference": "ch_1"}, "failed", ""))
	if n := r.match(t); n != 2 {
		t.Fatalf("looked at %d", n)
	}
	if n, err := r.store.MatchNotices(t.Context()); n != 0 || err != nil {
		t.Fatalf("looked at %d more, %v", n, err)
	}
	early := r.attempted(t, "early", "charge", "", "")
	r.answer(t, late, outcome.AnswerPending, "ch_1")
	if n := r.match(t); n != 2 {
		t.Fatalf("looked at %d", n)
	}
	r.wantState(t, early, outcome.StateSuccess)
	r.wantState(t, late, outcome.StateRejected)
	r.wantNotices(t, early, "done settled")
	r.wantNotices(t, late, "done settled")
	if n := r.match(t); n != 0 {
		t.Errorf("looked at %d more", n)
	}
}

// TestARefusalDoesNotSpeakForALaterAttempt: what was sent after it may have acted.
func TestARefusalDoesNotSpeakForALaterAttempt(t *testing.T) {
	r := newNoticeRig(t)
	for says, want := range map[string]outcome.State{"failed": outcome.StateUnresolved, "done": outcome.StateSuccess} {
		r.receive(t, says, about(says, says))
		id := r.attempted(t, says, "charge", "", "")
		r.match(t)
		r.wantState(t, id, want)
	}
	id := r.submit(t, "k1", "charge")
	r.receive(t, "e1", about("k1", "failed"))
	r.wantNotices(t, id, "kept kept")
	r.begin(t, id)
	r.answer(t, id, outcome.AnswerApplied, "")
	r.match(t)
	r.wantNotices(t, id, "done none") // no conflict either
}

// TestTheMatcherRuns until it is stopped.
func TestTheMatcherRuns(t *testing.T) {
	r := newNoticeRig(t)
	r.receive(t, "e1", about("k1", "done"))
	id := r.attempted(t, "k1", "charge", "", "")
	r.exec(t, `UPDATE notices SET next_at = now()`)
	matcher := r.store.NoticeMatcher()
	matcher.Start()
	defer matcher.Stop(t.Context())
	eventually(t, "a look of the matcher", func() bool {
		return r.count(t, `SELECT count(*) FROM commands WHERE id = $1 AND state = 'success'`, id) == 1
	})
}

// TestANoticeForAPendingCommand: what was done under its name before anything of it
// was sent was not done by it. Once an attempt may have acted, the notice counts.
func TestANoticeForAPendingCommand(t *testing.T) {
	r := newNoticeRig(t)
	id := r.submit(t, "k1", "charge")
	r.receive(t, "e1", about("k1", "done"))
	r.wantState(t, id, outcome.StatePending)
	r.wantNotices(t, id, "kept kept")
	r.begin(t, id)
	r.answer(t, id, "", "")
	r.match(t)
	r.wantState(t, id, outcome.StateSuccess)
	r.wantNotices(t, id, "done settled")
}

// TestANoticeWhileAnAttemptIsUnderWay: it is kept, and weighed against whatever the
// attempt ends in.
func TestANoticeWhileAnAttemptIsUnderWay(t *testing.T) {
	tests := []struct {
		answer outcome.Answer
		says   string
		effect string
		after  outcome.State
	}{
		{"", "done", "done settled", outcome.StateSuccess}, // HOOK-07
		{"", "failed", "done settled", outcome.StateRejected},
		{"", "pending", "done none", outcome.StateUnresolved},
		{outcome.AnswerApplied, "done", "done none", outcome.StateSuccess},
		{outcome.AnswerApplied, "failed", "done conflict", outcome.StateSuccess},
		{outcome.AnswerRefused, "done", "done conflict", outcome.StateRejected},
		{outcome.AnswerRefused, "failed", "done none", outcome.StateRejected},
	}
	r := newNoticeRig(t)
	for _, tt := range tests {
		key := uuid.NewString()
		id := r.submit(t, key, "charge")
		r.begin(t, id)
		r.receive(t, key, about(key, tt.says))
		before := r.wantState(t, id, outcome.StateExecuting)
		if n := r.match(t); n != 1 {
			t.Fatalf("looked at %d", n)
		}
		if after := r.wantState(t, id, outcome.StateExecuting); after.Version != before.Version {
			t.Errorf("looking at it changed the command")
		}
		r.answer(t, id, tt.answer, "")
		r.match(t)
		r.wantState(t, id, tt.after)
		r.wantNotices(t, id, tt.effect)
		if n := r.match(t); n != 0 {
			t.Errorf("looked at %d more", n)
		}
	}
}

// TestNoticesOutOfOrder: a later "pending" takes nothing back.
func TestNoticesOutOfOrder(t *testing.T) {
	r := newNoticeRig(t)
	id := r.attempted(t, "k1", "charge", "", "")
	for i, says := range []string{"pending", "done", "pending", "done", "verifying"} {
		r.receive(t, fmt.Sprint("e", i), about("k1", says))
	}
	r.wantState(t, id, outcome.StateSuccess)
	r.wantNotices(t, id, "done none", "done settled", "done none", "done none", "done none")
}

// TestAHintIsAReasonToLook, and nothing else.
func TestAHintIsAReasonToLook(t *testing.T) {
	r := newNoticeRig(t)
	r.apply(t, strings.Replace(fmt.Sprintf(noticeProfile, "up", "default"), "weight: conclusive", "weight: hint", 1))
	due := `SELECT count(*) FROM doubts WHERE command_id = $1 AND next_at <= now()`

	id := r.attempted(t, "k1", "pay", "", "")
	before := r.wantState(t, id, outcome.StateUnresolved)
	r.receive(t, "e1", about("k1", "done"))
	after := r.wantState(t, id, outcome.StateUnresolved)
	if r.count(t, due, id) != 1 || after.Version != before.Version+1 {
		t.Error("no lookup is due, or nobody can see it")
	}
	r.wantNotices(t, id, "done lookup")
	if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1`, id); n != 0 {
		t.Errorf("a hint is on record as %d findings", n)
	}
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND seen`, id); n != 1 {
		t.Error("an absence would be believed although the upstream has said that it was done")
	}

	unasked := r.attempted(t, "k2", "charge", "", "")
	r.receive(t, "e2", about("k2", "done"))
	r.wantNotices(t, unasked, "done none")

	busy := r.submit(t, "k3", "pay")
	r.begin(t, busy)
	r.receive(t, "e3", about("k3", "done"))
	r.wantNotices(t, busy, "kept kept")
	r.answer(t, busy, "", "")
	r.match(t)
	r.wantNotices(t, busy, "done lookup")
	if r.count(t, due, busy) != 1 {
		t.Error("no lookup is due")
	}

	closed := r.attempted(t, "k4", "pay", outcome.AnswerRefused, "")
	r.receive(t, "e4", about("k4", "done"))
	r.wantState(t, closed, outcome.StateRejected)
	r.wantNotices(t, closed, "done none")
}

// TestANoticeDeniesAnAbsence because of which a command waits to be sent once more. Any
// word of it is enough, unless the profile lets none of them move anything.
func TestANoticeDeniesAnAbsence(t *testing.T) {
	for name, tt := range map[string]struct {
		change, says, notice string
		state                outcome.State
	}{
		"a hint":             {"weight: hint", "done", "kept lookup", outcome.StateUnresolved},
		"a hint of no sight": {"weight: hint", "failed", "kept kept", outcome.StatePending},
		"conclusive":         {"weight: conclusive", "pending", "done settled", outcome.StateUnresolved},
		"report only":        {"weight: hint\nreconciliation: report_only", "done", "kept kept", outcome.StatePending},
	} {
		t.Run(name, func(t *testing.T) {
			r := newNoticeRig(t)
			r.apply(t, strings.Replace(fmt.Sprintf(noticeProfile, "up", "default"), "weight: conclusive", tt.change, 1))
			id := r.attempted(t, "k1", "pay", "", "")
			err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
				locked, err := r.commands.Lock(t.Context(), tx, []uuid.UUID{id})
				if err != nil {
					return err
				}
				_, err = r.commands.Resend(t.Context(), tx, locked[id], commands.ResendOperator, "operator", "ann")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			r.receive(t, "e1", about("k1", tt.says))
			r.wantState(t, id, tt.state)
			r.wantNotices(t, id, tt.notice)
			if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND seen AND next_at IS NOT NULL`, id); (n == 1) != (tt.state == outcome.StateUnresolved) {
				t.Errorf("%d doubts remember it", n)
			}
		})
	}
}

func TestASightKeepsAnAbsenceFromCounting(t *testing.T) {
	r := newNoticeRig(t)
	id := r.attempted(t, "k1", "pay", "", "")
	r.exec(t, `UPDATE doubts SET absents = 1, last_absent_at = now() WHERE command_id = $1`, id)
	r.receive(t, "e1", about("k1", "pending"))
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND seen AND absents = 0 AND last_absent_at IS NULL`, id); n != 1 {
		t.Error("the absence before it still counts")
	}
}

func TestReportOnlyMovesNothing(t *testing.T) {
	r := newNoticeRig(t)
	r.apply(t, strings.Replace(fmt.Sprintf(noticeProfile, "up", "default"), "operations:", "reconciliation: report_only\noperations:", 1))
	id := r.attempted(t, "k1", "pay", "", "")
	r.receive(t, "e1", about("k1", "done"))
	r.wantState(t, id, outcome.StateUnresolved)
	r.wantNotices(t, id, "done reported")
	// Later the profile lets them: what was only reported is not a repeat.
	r.apply(t, fmt.Sprintf(noticeProfile, "up", "default"))
	r.receive(t, "e2", about("k1", "done"))
	r.wantState(t, id, outcome.StateSuccess)
}

// TestNobodyElsesCommand: tenants and upstreams are apart, and a name that fits two
// commands is none.
func TestNobodyElsesCommand(t *testing.T) {
	r := newNoticeRig(t)
	r.apply(t, fmt.Sprintf(noticeProfile, "up", "other"))
	r.apply(t, fmt.Sprintf(noticeProfile, "second", "default"))
	theirs := r.submitTo(t, "other", "up", "k1", "charge")
	ours := r.submitTo(t, "default", "second", "k1", "charge")
	for i, name := range []any{"k1", map[string]any{"id": theirs.String()}, map[string]any{"id": ours.String()}, map[string]any{"id": "no uuid"}} {
		if got := r.receive(t, fmt.Sprint("e", i), named(name, "done", "")); got.Matched {
			t.Errorf("%v is matched", name)
		}
	}
	r.match(t)
	for _, id := range []uuid.UUID{theirs, ours} {
		if n := r.count(t, `SELECT count(*) FROM notices WHERE command_id = $1`, id); n != 0 {
			t.Error("a notice is about a command of others")
		}
	}
	if list, err := r.store.Notices(t.Context(), "other", ours); err != nil || len(list) != 0 {
		t.Errorf("others read %v, %v", list, err)
	}

	for _, key := range []string{"a", "b"} {
		r.attempted(t, key, "charge", outcome.AnswerPending, "shared")
	}
	if got := r.receive(t, "amb", named(map[string]any{"reference": "shared"}, "done", "")); got.Matched {
		t.Error("an ambiguous reference is matched")
	}
	if n := r.count(t, `SELECT count(*) FROM notices WHERE event_id = 'amb' AND state = 'unmatched' AND notes::text LIKE '%which of them is meant%'`); n != 1 {
		t.Error("nothing tells why it waits")
	}
}

func TestTwoCopiesAtOnce(t *testing.T) {
	r := newNoticeRig(t)
	id := r.attempted(t, "k1", "charge", "", "")
	body := about("k1", "done")
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		copies int
	)
	for range 8 {
		all.Go(func() {
			got, err := r.store.Receive(t.Context(), "default", "up", signed("e1", body, time.Now(), newSecret), []byte(body))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if got.Duplicate {
				copies++
			}
		})
	}
	all.Wait()
	r.wantNotices(t, id, "done settled")
	if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1`, id); n != 1 || copies != 7 {
		t.Errorf("%d findings, %d copies", n, copies)
	}
}

// TestMatchersAtOnce: whoever looks, the notice has one effect.
func TestMatchersAtOnce(t *testing.T) {
	r := newNoticeRig(t)
	for i := range 20 {
		r.receive(t, fmt.Sprint("e", i), about(fmt.Sprint("k", i), "done"))
	}
	var ids []uuid.UUID
	for i := range 20 {
		ids = append(ids, r.attempted(t, fmt.Sprint("k", i), "charge", "", ""))
	}
	r.exec(t, `UPDATE notices SET next_at = now()`)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := r.store.MatchNotices(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		r.wantState(t, id, outcome.StateSuccess)
		r.wantNotices(t, id, "done settled")
	}
	if n := r.count(t, `SELECT count(*) FROM findings`); n != 20 {
		t.Errorf("%d findings", n)
	}
}

// TestAllOrNothing: what follows from a notice is durable with it, or the sender is
// told to come again.
func TestAllOrNothing(t *testing.T) {
	r := newNoticeRig(t)
	id := r.attempted(t, "k1", "charge", "", "")
	r.exec(t, `CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$`)
	r.exec(t, `CREATE TRIGGER broken BEFORE INSERT ON findings FOR EACH ROW EXECUTE FUNCTION broken()`)
	body := about("k1", "done")
	_, err := r.store.Receive(t.Context(), "default", "up", signed("e1", body, time.Now(), newSecret), []byte(body))
	if !errors.Is(err, commands.ErrUnavailable) || r.count(t, `SELECT count(*) FROM notices`) != 0 {
		t.Fatalf("half a notice: %v", err)
	}
	r.exec(t, `DROP TRIGGER broken ON findings`)
	if got := r.receive(t, "e1", body); got.Duplicate || !got.Matched {
		t.Errorf("received %+v", got)
	}
	r.wantState(t, id, outcome.StateSuccess)
}

// TestAFloodOfRepeats (HOOK-11): dozens of events that say the same are one change
// and one finding.
func TestAFloodOfRepeats(t *testing.T) {
	r := newNoticeRig(t)
	id := r.attempted(t, "k1", "charge", "", "")
	for i := range 46 {
		r.receive(t, fmt.Sprint("e", i), about("k1", "done"))
		r.receive(t, fmt.Sprint("e", i), about("k1", "done"))
	}
	c := r.wantState(t, id, outcome.StateSuccess)
	r.receive(t, "no", about("k1", "failed"))
	r.receive(t, "again no", about("k1", "failed"))
	if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1`, id); n > 3 {
		t.Errorf("%d findings", n)
	}
	if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1 AND effect = 'conflict'`, id); n != 1 {
		t.Errorf("%d conflicts", n)
	}
	if after := r.wantState(t, id, outcome.StateSuccess); after.Version > c.Version+2 {
		t.Errorf("version went from %d to %d", c.Version, after.Version)
	}
}

func TestNoticesAreRedacted(t *testing.T) {
	r := newNoticeRig(t)
	id := r.attempted(t, "k1", "charge", "", "")
	body := `{"about":"k1","state":"done","reference":"pay_1","amount":12345678901234567890.10,
		"data":[{"card":{"number":"4111-canary"}}],"card":{"number":{"deep":"canary"},"brand":"b"},"echo":"` + newSecret + `"}`
	header := signed("e1", body, time.Now(), newSecret)
	header["X-Card"] = []string{"canary"}
	header["Authorization"] = []string{"Bearer canary"}
	header["X-Other"] = []string{"kept", "twice"}
	if _, err := r.store.Receive(t.Context(), "default", "up", header, []byte(body)); err != nil {
		t.Fatal(err)
	}
	n := r.wantNotices(t, id, "done settled")[0]
	shown, _ := json.Marshal(n.Headers)
	if strings.Contains(string(n.Body)+string(shown), "canary") || bytes.Contains(n.Body, []byte(newSecret)) {
		t.Errorf("kept %s %s", n.Body, shown)
	}
	if !bytes.Contains(n.Body, []byte("12345678901234567890.10")) || !bytes.Contains(n.Body, []byte(`"brand":"b"`)) || len(n.Headers["X-Other"]) != 2 {
		t.Errorf("too little is kept: %s %s", n.Body, shown)
	}
	if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1 AND observation::text LIKE '%canary%'`, id); n != 0 {
		t.Error("the finding holds what is redacted")
	}
}

func TestAnUnmatchedNoticeExpires(t *testing.T) {
	r := newNoticeRig(t)
	body := about("never", "done")
	r.receive(t, "e1", body)
	r.receive(t, "e2", named(map[string]any{"nothing": 1}, "done", ""))
	if n := r.count(t, `SELECT count(*) FROM notices WHERE event_id = 'e2' AND state = 'ignored' AND next_at IS NULL`); n != 1 {
		t.Error("a notice that names no command waits for one")
	}
	r.match(t)
	if n := r.count(t, `SELECT count(*) FROM notices WHERE event_id = 'e1' AND state = 'unmatched' AND tries = 1 AND next_at > now()`); n != 1 {
		t.Error("it does not wait")
	}
	r.exec(t, `UPDATE notices SET expires_at = now() WHERE event_id = 'e1'`)
	r.match(t)
	if n := r.count(t, `SELECT count(*) FROM notices WHERE event_id = 'e1' AND state = 'expired' AND body IS NULL AND body_sha256 IS NOT NULL`); n != 1 {
		t.Error("it does not expire")
	}
	if got := r.receive(t, "e1", body); !got.Duplicate {
		t.Error("its event is forgotten")
	}
}

// TestTheWaitGrowsWithAge: a notice about others' business is looked at a few dozen
// times in a month, however many there are.
func TestTheWaitGrowsWithAge(t *testing.T) {
	r := newNoticeRig(t)
	r.receive(t, "e1", about("never", "done"))
	for _, age := range []time.Duration{0, time.Minute, 24 * time.Hour} {
		r.exec(t, `UPDATE notices SET received_at = now() - $1::interval`, age)
		r.match(t)
		want := max(age/2-time.Second, time.Second)
		if n := r.count(t, `SELECT count(*) FROM notices WHERE next_at > now() + $1::interval AND next_at < now() + $1::interval + interval '1 minute'`, want); n != 1 {
			t.Errorf("aged %s it is not due after about %s", age, want)
		}
	}
}

func TestABoundedLook(t *testing.T) {
	r := newNoticeRig(t)
	r.exec(t, `
		INSERT INTO notices (tenant, upstream_id, event_id, profile_version, received_at, named_by, name, weight, finding, notes, headers, body_sha256, state, next_at, expires_at)
		SELECT 'default', (SELECT id FROM upstreams), 'e' || i, 1, now(), 'key', 'k' || i, 'conclusive', 'applied', '[]', '{}', '', 'unmatched', now(), now() + interval '1 day'
		FROM generate_series(1, 250) i`)
	var looks []int
	for {
		n, err := r.store.MatchNotices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if looks = append(looks, n); n == 0 {
			break
		}
	}
	if fmt.Sprint(looks) != "[100 100 50 0]" {
		t.Errorf("looked at %v", looks)
	}
}

// TestAFloodOfNotices about one command is read in part: the newest.
func TestAFloodOfNotices(t *testing.T) {
	r := newNoticeRig(t)
	id := r.submitTo(t, "default", "up", "k1", "charge")
	r.exec(t, `
		INSERT INTO notices (tenant, upstream_id, event_id, profile_version, received_at, named_by, name, weight, finding, notes, headers, body, body_sha256,
			state, command_id, expires_at, matched_at)
		SELECT tenant, upstream_id, 'e' || i, 1, now(), 'key', 'k1', 'hint', 'pending', '[]', '{}', '', '', 'done', id, now(), now()
		FROM commands, generate_series(1, 300) i WHERE id = $1`, id)
	list, err := r.store.Notices(t.Context(), "default", id)
	if err != nil || len(list) != 200 || list[0].EventID != "e101" || list[199].EventID != "e300" {
		t.Errorf("%d are read, %v", len(list), err)
	}
}
