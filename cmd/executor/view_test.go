package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"executor/client"
)

// commandJSON is a command as the API writes it, in one state with one outcome.
func commandJSON(state, final, more, outcome, record string) string {
	return fmt.Sprintf(`{"id": "0193c0de-0000-7000-8000-000000000001", "state": %q, "final": %s, "version": 4, "idempotency_key": "order-1",
		"upstream": "ledger", "operation": "create_payment", "profile_version": 3, "priority": "normal",
		"created_at": "2026-12-01T10:00:00.5Z", "deadline": "2026-12-01T10:15:00Z", %s
		"cancel_requested": false, "outcome": %s, "decision_record": %s, "reconciliation": null, "metadata": {"order": "1", "by": "me"}}`,
		state, final, more, outcome, record)
}

const decidedJSON = `"stopped_by": %q, "decided_by": "attempt", "decided_at": "2026-12-01T10:00:03Z", "sequence": 1, "safe_to_resubmit": false, "next_action": %q`

func TestPrintCommand(t *testing.T) {
	record := `{"attempts": 2, "last_response_class": "2xx", "last_timeout": {"kind": "response_header", "at": "2026-12-01T10:00:02Z"}, "elapsed_ms": 3012,
		"operation_identity": null, "boundary": "crossed"}`
	none := `{"attempts": 0, "last_response_class": null, "last_timeout": null, "elapsed_ms": 0, "operation_identity": null, "boundary": "not_crossed"}`
	tests := map[string]struct{ document, want string }{
		"pending": {
			commandJSON("pending", "false", `"not_before": "2026-12-01T10:05:00Z", "waiting": {"for": "not_before", "until": "2026-12-01T10:05:00Z"},`, "null", none),
			`id          0193c0de-0000-7000-8000-000000000001
state       pending
known       nothing yet; it waits for its next attempt
upstream    ledger, operation create_payment, profile version 3
key         order-1
created     2026-12-01T10:00:00Z
deadline    2026-12-01T10:15:00Z
not before  2026-12-01T10:05:00Z
waits for   not_before until 2026-12-01T10:05:00Z
attempts    0, boundary not_crossed
metadata    by=me
metadata    order=1
`},
		"success": {
			commandJSON("success", "true", "", `{"state": "success", "reason": "applied", `+fmt.Sprintf(decidedJSON, "applied", "none")+
				`, "result": {"status": 201, "reference": "pay_9", "incomplete": false, "body": {"id": "pay_9"}}}`, record),
			`id         0193c0de-0000-7000-8000-000000000001
state      success
known      the upstream did it, and said so
upstream   ledger, operation create_payment, profile version 3
key        order-1
created    2026-12-01T10:00:00Z
deadline   2026-12-01T10:15:00Z
why        applied
decided    2026-12-01T10:00:03Z by attempt
reference  pay_9
answer     201 {"id": "pay_9"}
attempts   2, boundary crossed, last response 2xx, last timeout response_header, over 3s
metadata   by=me
metadata   order=1
`},
		"rejected": {
			commandJSON("rejected", "true", "", `{"state": "rejected", "reason": "refused", `+fmt.Sprintf(decidedJSON, "refused", "none")+
				`, "rejection": {"status": 422, "code": "limit", "message": "no \u001b[31mmoney\tat all"}}`, none),
			`id        0193c0de-0000-7000-8000-000000000001
state     rejected
known     the upstream refused and did nothing; the same again would be refused again
upstream  ledger, operation create_payment, profile version 3
key       order-1
created   2026-12-01T10:00:00Z
deadline  2026-12-01T10:15:00Z
why       refused
decided   2026-12-01T10:00:03Z by attempt
refusal   422 limit no  [31mmoney at all
attempts  0, boundary not_crossed
metadata  by=me
metadata  order=1
`},
		"unresolved": {
			commandJSON("unresolved", "true", "", `{"state": "unresolved", "reason": "no_response", `+fmt.Sprintf(decidedJSON, "max_attempts", "lookup")+`}`, none),
			`id        0193c0de-0000-7000-8000-000000000001
state     unresolved
known     nobody knows yet whether the upstream did it; do not do it again by other means
upstream  ledger, operation create_payment, profile version 3
key       order-1
created   2026-12-01T10:00:00Z
deadline  2026-12-01T10:15:00Z
why       no_response; no further attempt because of max_attempts
decided   2026-12-01T10:00:03Z by attempt
next      the upstream is asked what became of it; nothing to do meanwhile
attempts  0, boundary not_crossed
metadata  by=me
metadata  order=1
`},
		"cancelled": {
			commandJSON("cancelled", "true", "", `{"state": "cancelled", "reason": "never_sent", `+fmt.Sprintf(decidedJSON, "deadline", "none")+`}`, none),
			`id        0193c0de-0000-7000-8000-000000000001
state     cancelled
known     the upstream did not do it; safe to submit again under a new key
upstream  ledger, operation create_payment, profile version 3
key       order-1
created   2026-12-01T10:00:00Z
deadline  2026-12-01T10:15:00Z
why       never_sent; no further attempt because of deadline
decided   2026-12-01T10:00:03Z by attempt
attempts  0, boundary not_crossed
metadata  by=me
metadata  order=1
`},
	}
	for name, tt := range tests {
		var b bytes.Buffer
		if err := printCommand(&b, decode[client.Command](t, tt.document)); err != nil {
			t.Fatal(err)
		}
		if b.String() != tt.want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, b.String(), tt.want)
		}
	}
}

func TestPrintAttempts(t *testing.T) {
	start := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	end := start.Add(1512 * time.Millisecond)
	var b bytes.Buffer
	err := printAttempts(&b, []client.Attempt{
		{Number: 1, StartedAt: start, EndedAt: &end, Evidence: "sent_no_response", Category: "header_timeout", Boundary: "possibly_crossed",
			Decision: "retry", Reason: "sent_no_response", Rule: 9, WaitMS: 250},
		{Number: 2, StartedAt: end, EndedAt: &end, Evidence: "response_received", Status: 201, Answer: "applied", Category: "none", Boundary: "crossed",
			Decision: "complete", Reason: "applied"},
		{Number: 3, StartedAt: end},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `ATTEMPT  STARTED               TOOK  EVIDENCE           STATUS  ANSWER   BOUNDARY          FAILURE         THEN
1        2026-12-01T10:00:00Z  1.5s  sent_no_response   -       -        possibly_crossed  header_timeout  retry (sent_no_response) by rule 9 after 250ms
2        2026-12-01T10:00:01Z  0s    response_received  201     applied  crossed           -               complete (applied)
3        2026-12-01T10:00:01Z  -     under way          -       -        -                 -               -
`
	if b.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", b.String(), want)
	}
}

// What an upstream sent must not talk to the terminal nor break the table.
func TestTableIsSafe(t *testing.T) {
	var b bytes.Buffer
	tb := newTable(&b, "A", "B")
	tb.row("x\ty\nz", "\x1b[2Jgone\u202e", "")
	if err := tb.flush(); err != nil {
		t.Fatal(err)
	}
	if strings.Count(b.String(), "\n") != 2 || strings.ContainsAny(b.String(), "\x1b\u202e\t") {
		t.Errorf("got %q", b.String())
	}
}

func TestShorten(t *testing.T) {
	if got := shorten(strings.Repeat("ä", 500)); len([]rune(got)) != longestText || !strings.HasSuffix(got, "…") {
		t.Errorf("got %d characters", len([]rune(got)))
	}
}

func TestMoment(t *testing.T) {
	m := moment{sign: -1}
	if err := m.Set("2026-12-01T00:00:00Z"); err != nil || !m.Equal(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", m, err)
	}
	before := time.Now().Add(-time.Hour)
	if err := m.Set("1h"); err != nil || m.Before(before) || m.After(time.Now()) {
		t.Errorf("1h ago is %v, %v", m, err)
	}
}
