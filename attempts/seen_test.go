package attempts

import (
	"net/http"
	"strings"
	"testing"

	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// TestAReferenceIsKeptWholeOrNotAtAll: lookups ask by it, and of one with a part taken
// out an upstream would rightly say that there is no such thing.
func TestAReferenceIsKeptWholeOrNotAtAll(t *testing.T) {
	p, err := upstreams.Parse("ledger.yaml", []byte(`version: 1
upstream: ledger
base_url: https://ledger.example
operations: {pay: {method: POST, path: /payments, redact: {request: [/customer], response: [/card]}, result: {reference: json.id}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	w := &work{profile: p, operation: p.Operations["pay"]}
	w.Request.Body = []byte(`{"customer":{"last_name":"Schneider","postal_code":"x"}}`)
	w.access.Secrets = []egress.Secret{egress.NewSecret("sk_live_1")}
	for body, want := range map[string]string{
		`{"id":"pay_1","postal_code":"y"}`:          "pay_1",
		`{"id":"pay-Schneider-1"}`:                  "",
		`{"id":"sk_live_1/pay_1"}`:                  "",
		`{"card":"4111 1111","id":"pay 4111 1111"}`: "",
		`{"id":"[redacted]"}`:                       "[redacted]", // what it says itself
	} {
		e := endingOf(w, 1, Observation{
			Evidence: outcome.EvidenceResponseReceived, Status: 201, Header: http.Header{}, Body: []byte(body), BodyComplete: true,
		})
		if e.Reference != want || e.Answer != outcome.AnswerApplied {
			t.Errorf("%s: reference %q, answer %s", body, e.Reference, e.Answer)
		}
		if left := strings.Contains(strings.Join(e.Notes, "\n"), "reference: redacted"); left != (want == "") {
			t.Errorf("%s: notes %q", body, e.Notes)
		}
		if strings.Contains(body, "postal_code") && string(e.ResponseBody) != body {
			t.Errorf("%s became %s", body, e.ResponseBody)
		}
	}
}

// TestWhatIsRedactedStillDecides, and takes nothing along that is not redacted; what is
// noted holds no credential.
func TestWhatIsRedactedStillDecides(t *testing.T) {
	p, err := upstreams.Parse("ledger.yaml", []byte(`version: 1
upstream: ledger
base_url: https://ledger.example
operations: {pay: {method: POST, path: /payments, redact: {response: [/pin]}, answers: [{when: 'int(json.pin) > 5', answer: pending, reference: json.id}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	w := &work{profile: p, operation: p.Operations["pay"]}
	w.access.Secrets = []egress.Secret{egress.NewSecret("sk-live-1")}
	for body, want := range map[string]string{`{"pin":"1234","id":"pay_1"}`: "pay_1", `{"pin":"1234","id":{"no":"text"}}`: ""} {
		e := endingOf(w, 1, Observation{
			Evidence: outcome.EvidenceResponseReceived, Status: 202, Header: http.Header{"Location": {"https://sk-live-1.example/"}},
			Body: []byte(body), BodyComplete: true,
		})
		if notes := strings.Join(e.Notes, "\n"); e.Answer != outcome.AnswerPending || e.Reference != want || strings.Contains(notes, "sk-live") || !strings.Contains(notes, "leads to another origin") {
			t.Errorf("%s: %s, reference %q, notes %q", body, e.Answer, e.Reference, e.Notes)
		}
	}
}

// TestWhenToComeBack: what a rule finds goes before the header, unless it is no wait.
func TestWhenToComeBack(t *testing.T) {
	p, err := upstreams.Parse("ledger.yaml", []byte(`version: 1
upstream: ledger
base_url: https://ledger.example
operations: {pay: {method: POST, path: /payments, answers: [{when: status == 403, answer: declined, retry_after: json.at}]}}
`))
	if err != nil {
		t.Fatal(err)
	}
	w := &work{profile: p, operation: p.Operations["pay"]}
	for body, want := range map[string]string{`{"at":7}`: "7", `{"at":0}`: "60", `{"at":"soon"}`: "60", `{"at":1700000000}`: "60", `{}`: "60"} {
		e := endingOf(w, 1, Observation{
			Evidence: outcome.EvidenceResponseReceived, Status: 403, Header: http.Header{"Retry-After": {"60"}}, Body: []byte(body), BodyComplete: true,
		})
		if e.RetryAfter != want || e.Answer != outcome.AnswerDeclined {
			t.Errorf("%s: %s, come back after %q, want %q", body, e.Answer, e.RetryAfter, want)
		}
	}
}
