package web

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

func TestNoticesAndLateAnswersAreShown(t *testing.T) {
	a, err := loadAssets()
	if err != nil {
		t.Fatal(err)
	}
	all, err := parsePages(a)
	if err != nil {
		t.Fatal(err)
	}
	late := accountOf(outcome.StateSuccess, tried(1, outcome.EvidenceSentNoResponse, outcome.AnswerNone, 0))
	late.learnt = []commands.Learnt{{
		Source: outcome.DecidedByLateEvidence, Attempt: 1, Evidence: outcome.EvidenceResponseReceived, Answer: outcome.AnswerApplied, Status: 201,
		Effect: commands.EffectSettled, At: at, Observation: []byte(`{"a":1}`),
	}}
	for _, tt := range []struct {
		part string
		data any
		has  []string
	}{
		{"notice", noticeViews([]reconcile.Notice{{
			ID: 1, EventID: "evt_1", ReceivedAt: at, Name: "order-1", Weight: "conclusive", Finding: outcome.FindingApplied,
			Headers: http.Header{"X-A": {"<b>"}}, Body: []byte(`{"id":"[redacted]"}`), Notes: []string{"noted"},
		}})[0], []string{"evt_1", "X-A: &lt;b&gt;", `<span class="redacted">[redacted]</span>`, "noted"}},
		{"attempt", attemptViews(late)[0], []string{"The late answer says that it was done (201)", "no final response header came back", "201, applied"}},
		{"learnt", learntViews(late.learnt)[0], []string{"It moved the command.", "&#34;a&#34;: 1", `href="#attempt-1"`}},
		{"waterfall", newWaterfall(late.sights(), nil, []reconcile.Notice{{ReceivedAt: at, Finding: outcome.FindingApplied}}, at), []string{"Notices", `role="img"`}},
	} {
		var b bytes.Buffer
		if err := all["command.html"].ExecuteTemplate(&b, tt.part, tt.data); err != nil {
			t.Errorf("%s: %v", tt.part, err)
		}
		for _, text := range tt.has {
			if !strings.Contains(b.String(), text) {
				t.Errorf("%s lacks %q:\n%s", tt.part, text, b.String())
			}
		}
	}
}
