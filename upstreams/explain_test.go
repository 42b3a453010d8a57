package upstreams

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"executor/outcome"
)

func TestExplainGolden(t *testing.T) {
	p, _ := example(t, "ledger.yaml")
	var b bytes.Buffer
	n, err := p.Explain().WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatal(n, err)
	}
	golden(t, "testdata/ledger_explained.txt", b.String())
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(line) > 121 || strings.HasSuffix(line, " \n") {
			t.Errorf("a line of %d characters: %q", utf8.RuneCountInString(line), line)
		}
	}
}

// TestExplainIsHonest checks what must hold in every row of every profile.
func TestExplainIsHonest(t *testing.T) {
	ledger, _ := example(t, "ledger.yaml")
	stripe, _ := example(t, "stripe.yaml")
	others := []*Operation{
		operation(t, rules),
		operation(t, rules+"\nidempotency: {kind: keyed}"),
		operation(t, "idempotency: {kind: keyed, retention: 1m, margin: 0s, stores_errors: true}", "retry: {transient_statuses: [500]}"),
		operation(t, "method: GET\nidempotency: {kind: safe}", "auth: {type: oauth2_client_credentials, token_url: https://a.example/t, client_id: x, client_secret: file:s}"),
		operation(t, "", "retry: {max_attempts: 1}"),
		operation(t, "", "retry: {budget: {when_empty: close}}", "deadline: 1s"),
	}
	profiles := []*Profile{ledger, stripe}
	for _, o := range others {
		profiles = append(profiles, o.profile)
	}
	for _, p := range profiles {
		for _, m := range p.Explain().Operations {
			o := p.Operations[m.Operation]
			for _, r := range m.Rows {
				checkRow(t, o, r)
			}
			if len(m.Rows) < 32+len(o.Answers) || len(m.Rules) != len(o.Answers) {
				t.Errorf("%s/%s: only %d rows", p.Upstream, m.Operation, len(m.Rows))
			}
		}
	}
}

func checkRow(t *testing.T, o *Operation, r Row) {
	t.Helper()
	kind := o.Contract().Idempotency
	doubt := outcome.BoundaryOf(kind, r.Evidence, r.Answer) == outcome.BoundaryPossiblyCrossed
	for _, end := range []End{r.IfStopped, r.AtTheEnd} {
		switch {
		case end.State == "" || end.Attempts < 1:
			t.Errorf("%s: no end: %+v", r.Event, r)
		case end.State == outcome.StateSuccess && r.Answer != outcome.AnswerApplied:
			t.Errorf("%s: success without an answer that says so", r.Event)
		case doubt && (end.State == outcome.StateRejected || end.State == outcome.StateCancelled):
			t.Errorf("%s: %s while in doubt", r.Event, end.State)
		case end.SafeToResubmit != (end.State == outcome.StateCancelled):
			t.Errorf("%s: %s, safe to resubmit %v", r.Event, end.State, end.SafeToResubmit)
		case end.Attempts > o.Retry.MaxAttempts+1:
			t.Errorf("%s: %d attempts", r.Event, end.Attempts)
		}
	}
	if doubt && kind == outcome.IdempotencyNone && (r.Decision == outcome.VerdictRetry || r.AtTheEnd.Attempts > 1) {
		t.Errorf("%s: sent again in doubt", r.Event)
	}
	if (r.Decision == outcome.VerdictRetry || r.Decision == outcome.VerdictWaitBudget) != (r.Wait != "") {
		t.Errorf("%s: %s with wait %q", r.Event, r.Decision, r.Wait)
	}
}

func TestExplainAsJSON(t *testing.T) {
	p, _ := example(t, "ledger.yaml")
	got, err := json.Marshal(p.Explain())
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"upstream":"ledger"`, `"operation":"charge_card"`, `"counts_as":"none"`, `"key":null`, `"event":"connection refused"`, `"decision":"retry"`, `"at_the_end":{"state":"cancelled"`, `"next_action":"review"`, `"max_length":255`} {
		if !strings.Contains(string(got), member) {
			t.Errorf("%s is not in the JSON", member)
		}
	}
}

// TestExplainRetention: a key that dies before the attempts are used up ends the
// repeats, and the explanation shows it.
func TestExplainRetention(t *testing.T) {
	o := operation(t, "idempotency: {kind: keyed, retention: 2m, margin: 1m}", "deadline: 1h")
	for _, r := range o.explain().Rows {
		if r.Event == "sent, no answer in time" && (r.AtTheEnd.StoppedBy != outcome.ReasonAmbiguous || r.AtTheEnd.Attempts < 2 || r.AtTheEnd.Attempts > 6) {
			t.Errorf("%+v", r.AtTheEnd)
		}
	}
}
