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
		operation(t, "body: raw\nidempotency: {kind: keyed, retention: 24h}"),
		operation(t, "body: multipart"),
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

// TestExplainFiles: a body that may have files shows what follows when one of them is
// not the same any more.
func TestExplainFiles(t *testing.T) {
	for document, want := range map[string]string{
		"body: raw\nidempotency: {kind: keyed, retention: 24h}": "cancelled never_sent, unresolved no_response ×2, review",
		"body: raw\nidempotency: {kind: natural}":               "cancelled never_sent, unresolved no_response ×2, review",
		"body: multipart": "cancelled never_sent",
		"body: json":      "",
	} {
		var ends []string
		for _, r := range operation(t, document).explain().Rows {
			if r.Category == outcome.CategoryRequestInvalid {
				ends = append(ends, r.AtTheEnd.String())
			}
		}
		if got := strings.Join(ends, ", "); got != want {
			t.Errorf("%q: %s, want %s", document, got, want)
		}
	}
}

// TestExplainLookups checks what must hold of every way to follow up.
func TestExplainLookups(t *testing.T) {
	stripe, _ := example(t, "stripe.yaml")
	ledger, _ := example(t, "ledger.yaml")
	const found = "findings: [{when: status == 200 && has(json.id), finding: applied}, {when: status == 404, finding: absent}, {when: status == 403, finding: refused}, {when: status == 302, finding: absent}]"
	with := func(more string, top ...string) *Profile {
		return operation(t, "lookup: {path: '/p/{key}', "+found+", "+more+"}", top...).profile
	}
	profiles := []*Profile{stripe, ledger,
		with("replay: false"), with("absence: {settles_after: 1s, confirmations: 1}"), with("absence: {settles_after: 80h, then: resend}"),
		with("schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 1s}"),
		with("schedule: {first_after: 1s, factor: 1, max_interval: 1s, give_up_after: 87600h}, absence: {settles_after: 24h}"),
		with("schedule: {factor: 100, max_interval: 2160h, give_up_after: 87600h}, absence: {settles_after: 1h, then: review}"),
		with("absence: {settles_after: 1m}", "reconciliation: report_only"),
		operation(t, "idempotency: {kind: keyed, retention: 24h}\nlookup: [{path: '{link}', "+found+"}, {replay: true}]").profile,
	}
	for _, p := range profiles {
		for _, m := range p.Explain().Operations {
			if o := p.Operations[m.Operation]; (m.Lookups == nil) != (len(o.Lookups) == 0) {
				t.Errorf("%s/%s: %+v", p.Upstream, m.Operation, m.Lookups)
			} else if m.Lookups != nil {
				checkLookups(t, o, m.Lookups)
			}
		}
	}
}

func checkLookups(t *testing.T, o *Operation, m *LookupMatrix) {
	t.Helper()
	if len(m.Rounds) == 0 || m.Total < len(m.Rounds) || (m.Every != "") != (m.Total > len(m.Rounds)) || m.UsedUp.NextAction != outcome.NextActionReview {
		t.Errorf("%s: rounds %v of %d, every %q", o.Name, m.Rounds, m.Total, m.Every)
	}
	if o.LookupAbsence().SettlesAfter == 0 && (m.Absence.Confirmed != "" || m.Absence.End.State != outcome.StateUnresolved) {
		t.Errorf("%s: absence proves nothing, and %+v", o.Name, m.Absence)
	}
	for i, q := range m.Questions {
		if (len(q.Rows) == 0) != o.Lookups[i].Replay {
			t.Errorf("%s: %+v", o.Name, q)
		}
		for _, r := range q.Rows {
			_, known := map[outcome.Finding]bool{"applied": true, "refused": true, "pending": true, "absent": true, "unknown": true}[r.Finding]
			settled := r.End.State == outcome.StateSuccess || r.End.State == outcome.StateRejected
			switch {
			case !known || r.End.Then == "":
				t.Errorf("%s: %+v", o.Name, r)
			case settled && (m.ReportOnly || r.Finding != outcome.FindingApplied && r.Finding != outcome.FindingRefused):
				t.Errorf("%s: %s settles it: %+v", o.Name, r.Finding, r)
			case r.End.State == outcome.StateCancelled:
				t.Errorf("%s: the first look cancels: %+v", o.Name, r)
			case silent(r.Status) && r.Finding != outcome.FindingUnknown:
				t.Errorf("%s: %+v", o.Name, r)
			case r.Status == 302 && r.Finding != outcome.FindingUnknown:
				t.Errorf("%s: a redirect: %+v", o.Name, r)
			}
		}
	}
}

// TestExplainTellsTimes spells the times of one schedule out.
func TestExplainTellsTimes(t *testing.T) {
	o := operation(t, "timeouts: {total: 30s}\nlookup: {path: '/p/{key}', findings: [{when: status == 404, finding: absent}], schedule: {first_after: 2s, factor: 3, max_interval: 1m, give_up_after: 10m}, absence: {settles_after: 1m, confirmations: 2, spacing: 20s, then: resend}}")
	m := o.explainLookups()
	same(t, "rounds", m.Rounds, []string{"2s", "8s", "26s", "1m20s", "2m20s", "3m20s"})
	same(t, "every", m.Every, "1m")
	same(t, "total", m.Total, 13)
	same(t, "after", m.After, "10m")
	// The last attempt may have been under way for 5s and the total of 30s; the round
	// at 1m20s finds out that the next absent counts at 1m35s.
	same(t, "absence", m.Absence, AbsenceMatrix{
		SettlesAfter: "1m", CountsFrom: "1m35s", Confirmations: 2, Spacing: "20s", Confirmed: "1m55s", Then: outcome.ThenResend,
		End: FindingEnd{State: outcome.StatePending, NextAction: outcome.NextActionNone, Then: "one more attempt if time and attempts allow, else cancelled"},
	})
	same(t, "the first look", m.Questions[0].Rows[0].End.Then, "asked again; counts from 1m35s on")
}
