package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"
)

// deceit is what an upstream may write to talk to a terminal, to its reader, or to
// whoever reads a log.
const deceit = "\x1b]0;owned\x07\x1b[2J\r\b\u009b31m\u202eegassem\u2028\u200b\x00\x7f"

// spoil writes deceit into every text of a document but those that are looked at
// again by programs.
func spoil(t *testing.T, document string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(spoiled("", v))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func spoiled(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = spoiled(k, v[k])
		}
		return v
	case []any:
		for i := range v {
			v[i] = spoiled(name, v[i])
		}
		return v
	case string:
		_, err := time.Parse(time.RFC3339, v)
		if err == nil || name == "id" || name == "state" {
			return v
		}
		return v + deceit
	default:
		return v
	}
}

// TestNothingTalksToTheTerminal: whatever stands in an answer of the service, neither
// a table, nor JSON, nor a complaint has a control character or a hidden one of it.
func TestNothingTalksToTheTerminal(t *testing.T) {
	rejected := commandJSON("rejected", "true", "", `{"state": "rejected", "reason": "refused", `+strings.Replace(decidedJSON, "%q, \"decided_by\"", `"refused", "decided_by"`, 1)+
		`, "rejection": {"status": 422, "code": "limit", "message": "no money"}}`, `{"attempts": 1, "last_response_class": "4xx", "last_timeout": null, "elapsed_ms": 10, "operation_identity": null, "boundary": "not_crossed"}`)
	rejected = strings.Replace(rejected, `"next_action": %q`, `"next_action": "none"`, 1)
	notice := `{"id": 4, "event_id": "evt_1", "received_at": "2026-12-01T10:00:05Z", "named_by": "key", "name": "order-1", "weight": "conclusive", "finding": "applied", "reference": "pay_9", "message": "m", "rule": "json.ok", "state": "done", "effect": "settled"}`
	lookup := `{"id": 2, "round": 2, "question": 1, "started_at": "2026-12-01T10:00:15Z", "ended_at": "2026-12-01T10:00:17Z", "status": null, "category": "header_timeout", "detail": "no answer", "finding": "unknown", "counts": false, "rule": "r", "response": null, "notes": ["n"]}`
	list := func(document string) string { return `{"data": [` + document + `], "next_cursor": "c"}` }
	for _, tt := range []struct {
		args []string
		ask  string
		with string
	}{
		{[]string{"get", someID}, "GET /v1/commands/" + someID, rejected},
		{[]string{"list"}, "GET /v1/commands", list(rejected)},
		{[]string{"lookups", someID}, "GET /v1/commands/" + someID + "/lookups", list(lookup)},
		{[]string{"notices", someID}, "GET /v1/commands/" + someID + "/notices", list(notice)},
		{[]string{"audit", "list"}, "GET /v1/audit", list(auditEntryJSON("3", "ab"))},
		{[]string{"webhooks", "list"}, "GET /v1/webhooks", list(hook(""))},
		{[]string{"webhooks", "show", "w1"}, "GET /v1/webhooks/w1", hook("")},
		{[]string{"deliveries", "list"}, "GET /v1/webhook-deliveries", list(delivery("failed", "1", "500", `"status"`))},
		{[]string{"deliveries", "show", "d1"}, "GET /v1/webhook-deliveries/d1", delivery("failed", "1", "500", `"status"`)},
		{[]string{"reconcile", "show", "r1"}, "GET /v1/reconciliations/r1", reportIn("failed", "{}", `, "problem": "line 7 has 3 fields"`)},
		{[]string{"webhooks", "show", "w2"}, "GET /v1/webhooks/w2", problemJSON(409, "conflict", "not now", "")},
	} {
		status := 200
		if strings.Contains(tt.with, "/problems/") {
			status = 409
		}
		for _, output := range []string{"table", "json"} {
			f := newFakeService(t).on(tt.ask, status, spoil(t, tt.with))
			r := execute(t, f.env, append(tt.args, "--output", output)...)
			if said := r.stdout + r.stderr; !strings.Contains(said, "owned") {
				t.Errorf("%v: what it should show is not there:\n%q", tt.args, said)
			} else if i := strings.IndexFunc(said, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) }); i >= 0 {
				t.Errorf("%v as %s: %q gets through", tt.args, output, said[max(0, i-30):min(len(said), i+10)])
			}
			if output == "json" && status == 200 && !json.Valid([]byte(r.stdout)) {
				t.Errorf("%v: no JSON: %s", tt.args, r.stdout)
			}
		}
	}
}

// TestJSONKeepsItsMeaning where it is escaped.
func TestJSONKeepsItsMeaning(t *testing.T) {
	want := map[string]string{"text": deceit + "ä€😀\U000e0001", "plain": "nothing"}
	var b bytes.Buffer
	if err := writeJSON(&b, want); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got["text"] != want["text"] || got["plain"] != want["plain"] || !strings.Contains(b.String(), "ä€😀") {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// TestLogsCannotBeForged: an entry is one line, in either format, without anything
// that a terminal would obey.
func TestLogsCannotBeForged(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var b bytes.Buffer
		newLogger(&b, format, "info").Info("webhook not delivered", "detail", deceit+"\nlevel=ERROR msg=forged\u0085", slog.Group("of", "name"+deceit, "x"))
		if text := b.String(); strings.Count(text, "\n") != 1 || strings.IndexFunc(strings.TrimSuffix(text, "\n"), func(c rune) bool { return !unicode.IsPrint(c) }) >= 0 {
			t.Errorf("%s: %q", format, text)
		}
	}
}
