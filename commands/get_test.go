package commands_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
	"executor/upstreams"
)

// TestOutcomesAreShown: what each end tells, and nothing that belongs to another.
func TestOutcomesAreShown(t *testing.T) {
	r := newRig(t)
	r.apply(t, withLookup(profile))
	done := applied
	done.reference, done.body = "pay_9", []byte("{\"id\":\"pay_9\",\"odd\":\"\x00\xff\"}")
	cut := done
	cut.evidence = outcome.EvidencePartialResponse

	c := r.get(t, r.after(t, "success", "charge", outcome.StateSuccess, done))
	if res := c.Outcome.Result; res == nil || c.Outcome.Rejection != nil || res.Status != 201 || res.Reference != "pay_9" ||
		string(res.Body) != string(done.body) || res.ContentType != "application/json" || res.Incomplete {
		t.Errorf("success: %+v", res)
	}
	c = r.get(t, r.after(t, "cut", "charge", outcome.StateSuccess, cut))
	if !c.Outcome.Result.Incomplete || c.Outcome.SafeToResubmit {
		t.Errorf("success without the whole body: %+v", c.Outcome)
	}
	c = r.get(t, r.after(t, "rejected", "charge", outcome.StateRejected, refused))
	if c.Outcome.Result != nil || c.Outcome.Rejection == nil || c.Outcome.Rejection.Status != 422 || c.Outcome.SafeToResubmit || c.Reconciliation != nil {
		t.Errorf("rejected: %+v", c.Outcome)
	}
	c = r.get(t, r.after(t, "cancelled", "charge", outcome.StateCancelled, unsent))
	if c.Outcome.Result != nil || c.Outcome.Rejection != nil || !c.Outcome.SafeToResubmit {
		t.Errorf("cancelled: %+v", c.Outcome)
	}
	for operation, phase := range map[string]string{"charge": "review", "pay": "lookup"} {
		c = r.get(t, r.after(t, "unresolved "+phase, operation, outcome.StateUnresolved, lost))
		if c.Outcome.Result != nil || c.Outcome.SafeToResubmit || string(c.Outcome.NextAction) != phase || c.Reconciliation == nil || c.Reconciliation.Phase != phase {
			t.Errorf("unresolved: %+v, %+v", c.Outcome, c.Reconciliation)
		}
	}
}

// withLookup gives the operation pay a lookup.
func withLookup(source string) string {
	return strings.Replace(source, "authoritative_refusals: [422]", `authoritative_refusals: [422]
    lookup:
      path: /payments
      query: {key: "{key}"}
      findings: [{when: status == 200, finding: applied}]`, 1)
}

// TestRecord sums the attempts up.
func TestRecord(t *testing.T) {
	r := newRig(t)
	slow := ending{evidence: outcome.EvidenceSentNoResponse, category: outcome.CategoryHeaderTimeout}
	id := r.after(t, "k", "pay", outcome.StatePending, slow, unclear)
	c := r.get(t, id)
	rec := c.Record
	if c.Attempts != 2 || rec.Attempts != 2 || rec.LastResponseClass != "5xx" || rec.LastTimeout == nil || rec.LastTimeout.Kind != "response_header" ||
		rec.Boundary != outcome.BoundaryPossiblyCrossed || !rec.MayHaveCrossed ||
		(rec.Identity != upstreams.Identity{In: "header", Name: "Idempotency-Key", Key: "k"}) {
		t.Errorf("record %+v", rec)
	}
	if rec := r.get(t, r.after(t, "charge", "charge", outcome.StateCancelled, unsent)).Record; rec.Boundary != outcome.BoundaryNotCrossed || rec.MayHaveCrossed || rec.Identity.In != "" {
		t.Errorf("record %+v", rec)
	}
}

// TestAttemptsAreShown as they stand on record, the open one too.
func TestAttemptsAreShown(t *testing.T) {
	r := newRig(t)
	done := applied
	done.reference, done.body, done.wait = "pay_9", []byte("\x00\xff"), time.Second
	id := r.after(t, "k", "pay", outcome.StatePending, lost, done)
	r.exec(t, `UPDATE attempts SET request = '{"method":"POST","url":"https://up.example/","headers":[{"name":"A","value":"b"}]}',
		addresses = '[{"address":"192.0.2.1:443","category":"connect_refused","detail":"refused"}]', timings = '{"connect":1.5}', notes = '["odd"]',
		rule = 9, decision = 'retry', reason = 'sent_no_response', retry_at = now(), body_sha256 = '\x01', response_sha256 = '\x02'
		WHERE number = 2`)
	r.begin(t, id)
	list, err := r.store.Attempts(t.Context(), tenant, id)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d attempts, %v", len(list), err)
	}
	a := list[1]
	if a.Number != 2 || a.Evidence != outcome.EvidenceResponseReceived || a.Answer != outcome.AnswerApplied || a.Status != 201 || a.Reference != "pay_9" ||
		string(a.ResponseBody) != "\x00\xff" || a.ResponseHeaders.Get("Content-Type") != "application/json" || a.WaitMS == nil || a.RetryAt == nil ||
		a.Request.Method != "POST" || a.Request.Headers[0] != (upstreams.Header{Name: "A", Value: "b"}) || a.Addresses[0].Category != outcome.CategoryConnectRefused ||
		a.Timings["connect"] != 1.5 || a.Notes[0] != "odd" || a.Rule != 9 || a.Decision != outcome.VerdictRetry || a.EndedAt == nil || a.Instance != "test" {
		t.Errorf("attempt %+v", a)
	}
	if open := list[2]; open.Evidence != "" || open.EndedAt != nil || open.Number != 3 || open.ResponseHeaders != nil || open.Addresses != nil {
		t.Errorf("open attempt %+v", open)
	}
	if _, err := r.store.Attempts(t.Context(), tenant, uuid.New()); !errors.Is(err, commands.ErrNotFound) {
		t.Errorf("an unknown command: %v", err)
	}
	if list, err := r.store.Attempts(t.Context(), tenant, r.submit(t, submission("none", "pay")).ID); err != nil || len(list) != 0 {
		t.Errorf("none: %+v, %v", list, err)
	}
}

// TestEvents tell the account from acceptance to the end.
func TestEvents(t *testing.T) {
	r := newRig(t)
	id := r.after(t, "k", "charge", outcome.StatePending, declined)
	r.begin(t, id)
	if _, _, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: "caller"}); err != nil {
		t.Fatal(err)
	}
	r.finish(t, id, lost, outcome.StateUnresolved)
	if _, err := r.learn(t.Context(), id, late(2, applied)); err != nil {
		t.Fatal(err)
	}
	k := late(2, refused)
	k.Actor = "another"
	if _, err := r.learn(t.Context(), id, k); err != nil {
		t.Fatal(err)
	}
	want := "command.accepted attempt.started attempt.ended attempt.started command.cancel_requested attempt.ended command.unresolved evidence.late command.success evidence.late command.conflict"
	if got := r.eventTypes(t, id); got != want {
		t.Errorf("events\n%s, want\n%s", got, want)
	}
	events := r.events(t, id)
	if e := events[0]; e.Actor != "test" || e.Sequence != 0 || !e.At.Equal(r.get(t, id).CreatedAt) {
		t.Errorf("accepted: %+v", e)
	}
	if e := events[4]; e.Actor != "caller" || e.Sequence != 0 {
		t.Errorf("cancel requested: %+v", e)
	}
	if e := events[8]; e.Sequence != 2 || e.Actor != "zombie" || !strings.Contains(string(e.Data), `"previous_state":"unresolved"`) {
		t.Errorf("success: %+v", e)
	}
	for i, e := range r.events(t, id) {
		if e.ID != events[i].ID || e.Number != i+1 {
			t.Errorf("event %d changed from %+v to %+v", i, events[i], e)
		}
	}
	if _, err := r.store.Events(t.Context(), tenant, uuid.New()); !errors.Is(err, commands.ErrNotFound) {
		t.Errorf("an unknown command: %v", err)
	}
}

// TestAPageIsFewStatements, however many lines it has.
func TestAPageIsFewStatements(t *testing.T) {
	heard := &listener{}
	r := newRigOn(t, tracedPool(t, heard))
	r.apply(t, strings.Replace(profile, "deadline: 10m", "deadline: 10m\nlimits: {rate: {per_second: 1}}", 1))
	fill := func(n int) {
		for i := range n {
			done := applied
			done.body = []byte(`{}`)
			r.after(t, fmt.Sprint("success ", n, i), "charge", outcome.StateSuccess, done)
			r.after(t, fmt.Sprint("unresolved ", n, i), "charge", outcome.StateUnresolved, lost)
			r.submit(t, submission(fmt.Sprint("pending ", n, i), "pay"))
		}
	}
	statements := func() int {
		list, _, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant}) // fills caches
		if err != nil || len(list) == 0 {
			t.Fatal(err)
		}
		return len(heard.all(t, func() error { _, _, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant}); return err }))
	}
	fill(1)
	few := statements()
	fill(12)
	if many := statements(); many != few || many > 5 {
		t.Errorf("%d statements for a long page, %d for a short one", many, few)
	}
}

// TestWordsInTheDatabase: the words that a column allows are the words of the
// program.
func TestWordsInTheDatabase(t *testing.T) {
	r := newRig(t)
	texts := func(words ...any) []string {
		list := make([]string, len(words))
		for i, w := range words {
			list[i] = fmt.Sprint(w)
		}
		return list
	}
	for column, want := range map[string][]string{
		"commands.state":             words(outcome.States()),
		"commands.wait_for":          texts(commands.WaitBackoff, commands.WaitRetryToken, commands.WaitNotBefore, commands.WaitThrottle, commands.WaitCredential, commands.WaitFile),
		"commands.phase":             texts(outcome.NextActionLookup, outcome.NextActionReview),
		"attempts.evidence":          words(outcome.Evidences()),
		"attempts.answer":            append(words(outcome.Answers()), ""),
		"attempts.boundary":          append(words(outcome.Boundaries()), ""),
		"command_requests.body_kind": words(outcome.Bodies()),
		"findings.effect":            texts(commands.EffectSettled, commands.EffectKept, commands.EffectNone, commands.EffectConflict),
	} {
		table, name, _ := strings.Cut(column, ".")
		var got []string
		r.scan(t, `
			SELECT array_agg(m[1]) FROM pg_constraint c, regexp_matches(pg_get_constraintdef(c.oid), '''([a-z_]*)''', 'g') m
			WHERE c.conrelid = $1::regclass AND c.contype = 'c' AND c.conkey = ARRAY(
				SELECT attnum FROM pg_attribute WHERE attrelid = c.conrelid AND attname = $2)`, []any{table, name}, &got)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s allows %q, the program has %q", column, got, want)
		}
	}
}

func words[T ~string](list []T) []string {
	var texts []string
	for _, w := range list {
		if w != "" {
			texts = append(texts, string(w))
		}
	}
	return texts
}
