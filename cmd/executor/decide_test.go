package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"executor/outcome"
)

func TestDecideExamples(t *testing.T) {
	var out bytes.Buffer
	if err := checkFile("../../outcome/testdata/decide.jsonl", &out); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
}

// silentFacts is the shortest line there is.
const silentFacts = `{"deadline": "2026-01-01T01:00:00Z", "attempts": [{"started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:05Z", "evidence": "sent_no_response"}]}`

func TestDecideLines(t *testing.T) {
	in := strings.Join([]string{silentFacts, "", `{"noow": ""}`, `{"now": "2026-01-01T00:00:00Z", "deadline": "2026-01-01T01:00:00+00:00"}`}, "\n")
	var out bytes.Buffer
	err := decideLines(strings.NewReader(in), &out)
	if err == nil || err.Error() != "1 of 3 lines were bad" {
		t.Errorf("error %v", err)
	}
	want := []string{
		`{"decision":"close","rule":8,"reason":"ambiguous","attempt_boundary":"possibly_crossed","boundary":"possibly_crossed",` +
			`"state":"unresolved","outcome_reason":"no_response","safe_to_resubmit":false,"next_action":"review"}`,
		`{"error":"unknown member \"noow\""}`,
		`{"decision":"retry","rule":0,"reason":"first_attempt","retry_at":"2026-01-01T00:00:00Z","attempt_boundary":"","boundary":"not_crossed",` +
			`"state":"","outcome_reason":"","safe_to_resubmit":null,"next_action":""}`,
	}
	if got := strings.TrimSpace(out.String()); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestParseFactsErrors(t *testing.T) {
	swap := func(old, new string) string { return strings.Replace(silentFacts, old, new, 1) }
	tests := []struct {
		name, line, want string
	}{
		{"no object", `[]`, "not a JSON object"},
		{"cut off", `{"now": "2026`, "the JSON object does not end"},
		{"two values", silentFacts + silentFacts, "more than one JSON value in the line"},
		{"not UTF-8", "{\"now\": \"\xff\"}", "not valid UTF-8"},
		{"unknown member", swap(`"deadline"`, `"dead_line"`), `unknown member "dead_line"`},
		{"unknown member, deeper", swap(`"evidence"`, `"evidences"`), `unknown member "evidences"`},
		{"another case", swap(`"evidence"`, `"Evidence"`), `unknown member "Evidence"`},
		{"given twice", swap(`{"started_at"`, `{"evidence": "not_sent", "started_at"`), `member "evidence" is given twice`},
		{"wrong type", swap(`{"deadline"`, `{"retry": {"max_attempts": "5"}, "deadline"`), "retry.max_attempts: a JSON string does not fit"},
		{"no attempts allowed", swap(`{"deadline"`, `{"retry": {"max_attempts": 0}, "deadline"`), "retry.max_attempts: is 0; at least 1 is needed"},
		{"negative attempts", swap(`{"deadline"`, `{"retry": {"max_attempts": -1}, "deadline"`), "retry.max_attempts: is -1; at least 1 is needed"},
		{"nothing", `{}`, "deadline: is missing; now: is missing"},
		{"null", `null`, "deadline: is missing; now: is missing"},
		{"no evidence", swap(`"sent_no_response"`, `""`), "attempts[0].evidence: is missing"},
		{"unknown word", swap(`"sent_no_response"`, `"lost"`),
			`attempts[0].evidence: "lost" is none of not_sent, sent_no_response, response_received, partial_response`},
		{"no time", swap(`"2026-01-01T01:00:00Z"`, `"tomorrow"`), `deadline: "tomorrow" is no RFC 3339 time such as 2026-01-01T00:00:00Z`},
		{"no duration", swap(`{"deadline"`, `{"next_token_in": "5", "deadline"`), `next_token_in: "5" is no duration such as 90s or 24h`},
		{"negative duration", swap(`{"deadline"`, `{"operation": {"retention": "-1s"}, "deadline"`), `operation.retention: "-1s" is negative`},
		{"no status", swap(`"evidence"`, `"status": 42, "evidence"`), "attempts[0].status: 42 is no HTTP status"},
		{"no status in a list", swap(`{"deadline"`, `{"operation": {"authoritative_refusals": [422, 1000]}, "deadline"`),
			"operation.authoritative_refusals: 1000 is no HTTP status"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseFacts([]byte(tt.line))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestCheckExamples(t *testing.T) {
	example := func(out string) string {
		return `{"name": "silence", "why": "no key", "in": ` + silentFacts + `, "out": ` + out + `}`
	}
	tests := []struct {
		name, file string
		wrong      string // the error
		says       string
	}{
		{"right", example(`{"rule": 8, "safe_to_resubmit": false}`), "", "1 examples, all decided as they say\n"},
		{"a member that is not there and not wanted", example(`{"rule": 8, "retry_at": null}`), "", "1 examples, all decided as they say\n"},
		{"otherwise", example(`{"rule": 9, "reason": "ambiguous", "state": "cancelled"}`), "1 of 1 examples are decided otherwise",
			"silence: rule is 8, not 9 (no key)\nsilence: state is \"unresolved\", not \"cancelled\" (no key)\n"},
		{"bad", "\n{}", "1 of 1 examples are decided otherwise", "line 2: needs \"in\" and \"out\"\n"},
		{"bad facts", `{"name": "x", "in": {}, "out": {"rule": 0}}`, "1 of 1 examples are decided otherwise",
			"x: deadline: is missing; now: is missing\n"},
		{"nothing", "\n", "there are no examples in it", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			err := checkExamples(strings.NewReader(tt.file), &out)
			if text := errorText(err); text != tt.wrong || out.String() != tt.says {
				t.Errorf("error %q, wrote\n%s", text, &out)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzDecideLine: no line makes the filter panic, and what it prints is one
// JSON object with a decision in our words.
func FuzzDecideLine(f *testing.F) {
	f.Add([]byte(silentFacts))
	f.Add([]byte(`{"now": "2026-01-01T00:00:00Z", "deadline": "0001-01-01T00:00:00Z", "cancel_requested": true}`))
	f.Add([]byte(`{"deadline": "9999-12-31T23:59:59Z", "operation": {"idempotency": "keyed", "retention": "2562047h"}, "budget_tokens": 0, "next_token_in": "2562047h",` +
		`"retry": {"max_attempts": 3, "backoff": {"initial": "2562047h", "max": "2562047h", "jitter": "decorrelated"}},` +
		`"attempts": [{"started_at": "0001-01-01T00:00:00Z", "ended_at": "9999-12-31T23:59:59Z", "evidence": "partial_response", "status": 503, "retry_after": "Thu Jan  1 00:01:00 2026"}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		d, err := decideLine(line)
		if err != nil {
			return
		}
		text, err := json.Marshal(d)
		if err != nil || bytes.ContainsRune(text, '\n') {
			t.Fatalf("%s: %v", text, err)
		}
		if !slices.Contains(outcome.Verdicts(), d.Decision) {
			t.Errorf("decision %q", d.Decision)
		}
		if status, ok := strings.CutPrefix(string(d.Reason), "status_"); !ok && !slices.Contains(outcome.Reasons(), d.Reason) || ok && len(status) != 3 {
			t.Errorf("reason %q", d.Reason)
		}
	})
}
