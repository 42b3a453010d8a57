package upstreams

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"executor/outcome"
)

func notices(t testing.TB, lines string) *Notices {
	t.Helper()
	return operation(t, "", "notices:\n"+indent(lines)).profile.Notices
}

func indent(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		b.WriteString("  " + line)
	}
	return b.String()
}

const standardNotices = `
verify: {scheme: standard-webhooks, secret: [env:EXECUTOR_SECRET_NEW, file:old]}
command: 'has(json.data.key) ? {"key": json.data.key} : {"reference": json.data.id}'
findings:
  - {when: json.data.state == "done", finding: applied, reference: json.data.id}
  - {when: json.data.state == "failed", finding: refused, code: json.data.code, message: json.data.text}
  - {when: json.data.state == "working", finding: pending}
`

func TestParseNotices(t *testing.T) {
	n := notices(t, standardNotices)
	same(t, "secrets", n.Signature.Secrets, []string{"env:EXECUTOR_SECRET_NEW", "file:old"})
	same(t, "weight", n.Weight, WeightHint)
	same(t, "event id", n.EventID.Source, `headers["webhook-id"][0]`)
	n = notices(t, `
verify: {scheme: hmac-sha256, header: x-sig, timestamp_header: x-time, secret: file:s, tolerance: 1m}
event_id: json.id
command: json.key
findings: [{when: json.ok == true, finding: applied}]
weight: conclusive`)
	same(t, "headers", n.Signature.Header+" "+n.Signature.TimestampHeader, "X-Sig X-Time")
	same(t, "secrets", n.Signature.Secrets, []string{"file:s"})
	same(t, "weight", n.Weight, WeightConclusive)
}

func TestReadNotices(t *testing.T) {
	n := notices(t, standardNotices)
	tests := []struct {
		name, body string
		by, value  string
		finding    outcome.Finding
		reference  string
		code       string
		note       string
	}{
		{"done", `{"data":{"key":"k1","state":"done","id":"p1"}}`, "key", "k1", outcome.FindingApplied, "p1", "", ""},
		{"by reference", `{"data":{"id":"p1","state":"done"}}`, "reference", "p1", outcome.FindingApplied, "p1", "", ""},
		{"a number names it too", `{"data":{"id":42,"state":"working"}}`, "reference", "42", outcome.FindingPending, "", "", ""},
		{"failed", `{"data":{"key":"k1","state":"failed","code":"no_funds","text":"no\nfunds"}}`, "key", "k1", outcome.FindingRefused, "", "no_funds", ""},
		{"a new state word", `{"data":{"key":"k1","state":"verifying_v2"}}`, "key", "k1", outcome.FindingUnknown, "", "", "no rule of findings matches"},
		{"about something else", `{"data":{}}`, "", "", outcome.FindingUnknown, "", "", "command: names none"},
		{"of another shape", `{"event":"ping"}`, "", "", outcome.FindingUnknown, "", "", "command:"},
		{"a list", `{"data":{"key":["k1"],"state":"done"}}`, "", "", outcome.FindingApplied, "", "", "gives none of key, id, reference"},
		{"an empty key", `{"data":{"key":"","state":"done"}}`, "", "", outcome.FindingApplied, "", "", "gives none of"},
		{"a key that no command has", `{"data":{"key":"a\u0000b","state":"done"}}`, "", "", outcome.FindingApplied, "", "", "gives none of"},
		{"a reference that cannot be kept", `{"data":{"key":"k1","state":"done","id":"\u0007"}}`, "key", "k1", outcome.FindingApplied, "", "", "cannot be kept"},
	}
	for _, tt := range tests {
		got, err := n.Read(http.Header{"Webhook-Id": {"msg_1"}}, []byte(tt.body))
		if err != nil || got.By != tt.by || got.Value != tt.value || got.Finding != tt.finding || got.Reference != tt.reference || got.Code != tt.code {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
		if got.EventID != "msg_1" {
			t.Errorf("%s: event %q", tt.name, got.EventID)
		}
		if all := strings.Join(got.Notes, "\n"); !strings.Contains(all, tt.note) || tt.note == "" && all != "" {
			t.Errorf("%s: notes %q, want %q", tt.name, all, tt.note)
		}
	}
	for _, body := range []string{"", "<html>", `{"a":1,"a":2}`, "null", "\xff", strings.Repeat(" ", maxJSONBytes+1)} {
		var bad *UnreadableNotice
		if got, err := n.Read(http.Header{"Webhook-Id": {"m"}}, []byte(body)); !errors.As(err, &bad) || bad.Reason == "" {
			t.Errorf("%.20q: %+v, %v", body, got, err)
		}
	}
}

// A notice without an id of its own is known by its body.
func TestReadNoticeWithoutID(t *testing.T) {
	n := notices(t, "verify: {scheme: hmac-sha256, header: x-sig, secret: file:s}\nevent_id: json.id\ncommand: json.key\nfindings: [{when: json.ok == true, finding: applied}]")
	ids := map[string]bool{}
	for _, body := range []string{`{"key":"k","ok":true}`, `{"key":"k","ok":true}`, `{"key":"k","ok":true,"id":"` + strings.Repeat("x", 300) + `"}`, `{"key":"k","ok":true,"id":"e1"}`, `{"key":"k","ok":true,"id":7}`} {
		got, err := n.Read(nil, []byte(body))
		if err != nil || got.By != "key" || got.EventID == "" || len(got.EventID) > maxEventID {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
		ids[got.EventID] = true
	}
	if len(ids) != 4 || !ids["e1"] || !ids["7"] {
		t.Errorf("%v", ids)
	}
}
