package main

import (
	"strings"
	"testing"
	"time"

	"executor/client"
)

const someID = "0193c0de-0000-7000-8000-000000000001"

// doubtful is a command that waits for a person, in some version.
func doubtful(version, reconciliation string) string {
	text := commandJSON("unresolved", "true", "", `{"state": "unresolved", "reason": "no_response", "stopped_by": "max_attempts", "decided_by": "attempt",
		"decided_at": "2026-12-01T10:00:03Z", "sequence": 1, "safe_to_resubmit": false, "next_action": "review"}`,
		`{"attempts": 1, "last_response_class": null, "last_timeout": null, "elapsed_ms": 10, "operation_identity": null, "boundary": "possibly_crossed"}`)
	text = strings.Replace(text, `"version": 4`, `"version": `+version, 1)
	return strings.Replace(text, `"reconciliation": null`, `"reconciliation": `+reconciliation, 1)
}

const (
	inReview   = `{"phase": "review", "lookups": 2, "next_lookup_at": null, "absent_in_a_row": 0, "conflicts": 0, "assignee": null}`
	annsReview = `{"phase": "review", "lookups": 3, "next_lookup_at": null, "absent_in_a_row": 0, "conflicts": 0, "assignee": "ann"}`
	lookedUp   = `{"phase": "lookup", "lookups": 2, "next_lookup_at": "2026-12-01T10:05:00Z", "absent_in_a_row": 1, "conflicts": 0, "assignee": "ann"}`
)

func settledByLookup() string {
	text := commandJSON("success", "true", "", `{"state": "success", "reason": "applied", "stopped_by": "max_attempts", "decided_by": "lookup",
		"decided_at": "2026-12-01T10:00:09Z", "sequence": 2, "safe_to_resubmit": false, "next_action": "none", "result": {"status": 0, "reference": "pay_9", "incomplete": false}}`,
		`{"attempts": 1, "last_response_class": null, "last_timeout": null, "elapsed_ms": 10, "operation_identity": null, "boundary": "crossed"}`)
	return strings.Replace(text, `"version": 4`, `"version": 9`, 1)
}

// Each action reads the command, says in a line what it acts on, and sends the
// version that it read.
func TestActionsOnTheWire(t *testing.T) {
	f := newFakeService(t)
	f.on("GET /v1/commands/"+someID, 200, doubtful("7", inReview))
	for _, deed := range []string{"resolve", "correct", "lookup", "resend", "assign", "notes"} {
		f.on("POST /v1/commands/"+someID+"/"+deed, 200, settledByLookup())
	}
	for _, tt := range []struct {
		args []string
		says string
		sent string
	}{
		{[]string{"resolve", someID, "--as", "success", "--reason", "seen", "--evidence", "T-1", "--reference", "pay_9"}, "Resolving as success",
			`resolve "7" {"state":"success","reason":"seen","evidence_reference":"T-1","reference":"pay_9"}`},
		{[]string{"resolve", someID, "--as", "rejected", "--reason", "seen", "--code", "limit", "--message", "no"}, "Resolving as rejected",
			`resolve "7" {"state":"rejected","reason":"seen","code":"limit","message":"no"}`},
		{[]string{"correct", someID, "--as", "cancelled", "--reason", "seen"}, "Correcting to cancelled", `correct "7" {"state":"cancelled","reason":"seen"}`},
		{[]string{"lookup", someID, "--reason", "now"}, "Looking up", `lookup "7" {"reason":"now"}`},
		{[]string{"resend", someID, "--reason", "now", "--absent", "--evidence", "T-1"}, "Sending once more", `resend "7" {"reason":"now","absent":true,"evidence_reference":"T-1"}`},
		{[]string{"assign", someID, "ann", "--reason", "r"}, "Assigning to ann", `assign "7" {"assignee":"ann","reason":"r"}`},
		{[]string{"assign", someID, "--none", "--reason", "r"}, "Assigning to nobody in particular", `assign "7" {"assignee":null,"reason":"r"}`},
		{[]string{"note", someID, "called them"}, "Noting", `notes "7" {"text":"called them"}`},
	} {
		r := execute(t, f.env, tt.args...).must(t, exitSuccess)
		want := tt.says + ": create_payment at ledger, key order-1, unresolved (no_response; no further attempt because of max_attempts), version 7\n"
		if r.stderr != want || !strings.Contains(r.stdout, "state      success") {
			t.Errorf("%v:\nstderr %q, want %q\nstdout %s", tt.args, r.stderr, want, r.stdout)
		}
		f.wantAsked(t, "GET /v1/commands/"+someID, "POST /v1/commands/"+someID+"/"+tt.sent)
	}
	r := execute(t, f.env, "resolve", someID, "--as", "cancelled", "--reason", "r", "--version", "3", "--output", "json").must(t, exitSuccess)
	if c := decode[client.Command](t, r.stdout); c.Version != 9 || r.stderr != "" {
		t.Errorf("with a version: %+v, stderr %q", c, r.stderr)
	}
	f.wantAsked(t, "POST /v1/commands/"+someID+`/resolve "3" {"state":"cancelled","reason":"r"}`)
}

// A change between the look and the action is told: nothing was done, and what
// has changed.
func TestStaleActions(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		read []string // the command, each time that it is read
		want string
	}{
		{"a lookup was faster", nil, []string{doubtful("7", inReview), settledByLookup()},
			"since version 7: it is success, decided by lookup at 2026-12-01T10:00:09Z (now version 9)"},
		{"somebody took it", nil, []string{doubtful("7", inReview), doubtful("8", annsReview)},
			"since version 7: 1 more lookup, it is looked after by ann (now version 8)"},
		{"it went back to the lookups", nil, []string{doubtful("7", annsReview), doubtful("8", lookedUp)}, "since version 7: it is in the phase lookup (now version 8)"},
		{"a note", nil, []string{doubtful("7", inReview), doubtful("8", inReview)}, "something was added to its account"},
		{"a version of old", []string{"--version", "2"}, []string{settledByLookup()}, "since version 2: it is success, decided by lookup"},
	} {
		f := newFakeService(t)
		f.on("GET /v1/commands/"+someID, 200, tt.read...)
		f.on("POST /v1/commands/"+someID+"/resolve", 412, problemJSON(412, "precondition_failed", "D", `, "current_version": 9`))
		r := execute(t, f.env, append([]string{"resolve", someID, "--as", "cancelled", "--reason", "r"}, tt.args...)...).must(t, exitFailure)
		if !strings.Contains(r.stderr, "nothing was done") || !strings.Contains(r.stderr, tt.want) || r.stdout != "" {
			t.Errorf("%s: stderr %q", tt.name, r.stderr)
		}
	}
}

// What the service does not know it did, nobody is told was done.
func TestActionsWithoutAnAnswer(t *testing.T) {
	f := newFakeService(t).on("POST /v1/commands/"+someID+"/resolve", 503, problemJSON(503, "unavailable", "The database is away.", ""))
	r := execute(t, f.env, "resolve", someID, "--as", "cancelled", "--reason", "r", "--version", "7").must(t, exitFailure)
	if !strings.Contains(r.stderr, "not known whether it was done: The database is away.") || !strings.Contains(r.stderr, "Look how it stands") || len(f.takeAsked()) != 1 {
		t.Errorf("stderr %q", r.stderr)
	}
	f.on("POST /v1/commands/"+someID+"/resend", 409, problemJSON(409, "resend_not_safe", "It could be done twice.", ""))
	r = execute(t, f.env, "resend", someID, "--reason", "r", "--version", "7").must(t, exitFailure)
	if r.stderr != "executor: It could be done twice.\n" {
		t.Errorf("refused: stderr %q", r.stderr)
	}
}

func TestTheDoubtOfACommand(t *testing.T) {
	f := newFakeService(t)
	f.on("GET /v1/commands/"+someID, 200, doubtful("7", lookedUp), doubtful("7", inReview),
		doubtful("7", strings.NewReplacer(`"lookups": 2`, `"lookups": 0`, `_row": 1`, `_row": 0`).Replace(lookedUp)),
		strings.NewReplacer(`"state": "unresolved", "final": true`, `"state": "pending", "final": false`, `possibly_crossed`, `not_crossed`).Replace(doubtful("8", inReview))).on("GET /v1/commands/"+someID+"/attempts", 200, `{"data": []}`)
	first := execute(t, f.env, "get", someID).must(t, exitSuccess).stdout
	second := execute(t, f.env, "get", someID).must(t, exitSuccess).stdout
	third := execute(t, f.env, "get", someID).must(t, exitSuccess).stdout
	resent := execute(t, f.env, "get", someID).must(t, exitSuccess).stdout
	for text, want := range map[string][]string{
		first: {
			"doubt     the upstream is being asked; 2 lookups, the last one found nothing of it; looked after by ann",
			"next      the upstream is asked again at 2026-12-01T10:05:00Z; nothing to do meanwhile",
		},
		resent: {
			"known     nothing of it arrived, as was found; it is sent once more, so do not do it by other means",
			"doubt     it is sent once more; 2 lookups",
		},
		second: {
			"doubt     waits for a person; 2 lookups",
			`next      a person has to decide: "executor reviews" shows what can be done`,
		},
		third: {"doubt     the upstream is being asked; no lookup yet; looked after by ann"},
	} {
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("%q is not in:\n%s", line, text)
			}
		}
	}
}

func TestLookupsCommand(t *testing.T) {
	answer := `{"data": [
		{"id": 1, "round": 1, "question": 1, "started_at": "2026-12-01T10:00:05Z", "ended_at": "2026-12-01T10:00:06Z", "status": 200, "finding": "absent", "counts": false, "rule": "size(json.items) == 0", "response": {"headers": {}, "body": {"items": []}, "truncated": false}, "notes": []},
		{"id": 2, "round": 2, "question": 1, "started_at": "2026-12-01T10:00:15Z", "ended_at": "2026-12-01T10:00:17Z", "status": null, "category": "header_timeout", "detail": "no answer within 2s", "finding": "unknown", "counts": false, "rule": null, "response": null, "notes": []}
	], "next_cursor": null}`
	f := newFakeService(t).on("GET /v1/commands/"+someID+"/lookups", 200, answer)
	want := `ROUND  QUESTION  ASKED                 TOOK  STATUS  FINDING  COUNTS  REFERENCE  BECAUSE
1      1         2026-12-01T10:00:05Z  1s    200     absent   no      -          size(json.items) == 0
2      1         2026-12-01T10:00:15Z  2s    -       unknown  -       -          header_timeout: no answer within 2s
`
	if r := execute(t, f.env, "lookups", someID).must(t, exitSuccess); r.stdout != want {
		t.Errorf("got\n%s", r.stdout)
	}
	if r := execute(t, f.env, "lookups", someID, "--output", "json").must(t, exitSuccess); !strings.Contains(r.stdout, `"items": []`) {
		t.Errorf("the raw answer is not in\n%s", r.stdout)
	}
}

func TestNoticesCommand(t *testing.T) {
	f := newFakeService(t).on("GET /v1/commands/"+someID+"/notices", 200, `{"data": [{"id": 4, "event_id": "evt_1", "received_at": "2026-12-01T10:00:05Z", "named_by": "key", "name": "order-1",
		"weight": "conclusive", "finding": "applied", "reference": "pay_9", "message": null, "rule": "json.ok", "state": "done", "effect": "settled"}], "next_cursor": null}`)
	want := `EVENT  RECEIVED              NAMES        WEIGHT      FINDING  REFERENCE  STATE  EFFECT   BECAUSE
evt_1  2026-12-01T10:00:05Z  key order-1  conclusive  applied  pay_9      done   settled  json.ok
`
	if r := execute(t, f.env, "notices", someID).must(t, exitSuccess); r.stdout != want {
		t.Errorf("got\n%s", r.stdout)
	}
}

func TestReviewsCommand(t *testing.T) {
	ago := time.Now().Add(-90 * time.Minute).UTC().Format(time.RFC3339)
	answer := `{"data": [
		{"kind": "unresolved", "since": "` + ago + `", "assignee": null, "handed_reason": "schedule_used_up", "evidence": "sent_no_response", "conflicts": [], "actions": ["resolve", "lookup", "assign"], "command": ` + doubtful("7", inReview) + `},
		{"kind": "conflict", "since": "` + ago + `", "assignee": "ann", "handed_reason": null, "evidence": null, "actions": ["correct"], "command": ` + settledByLookup() + `,
		 "conflicts": [{"id": 1, "source": "lookup", "finding": "absent"}, {"id": 2, "source": "notice", "finding": "refused", "reference": "pay_9"}]}
	], "next_cursor": "next"}`
	f := newFakeService(t).on("GET /v1/reviews", 200, answer)
	r := execute(t, f.env, "reviews").must(t, exitSuccess)
	for _, want := range []string{
		someID + "  unresolved  1h30m", "sent_no_response  -         no_response; schedule_used_up", "resolve,lookup,assign",
		"-                 ann       success, but notice says refused pay_9, and 1 more", "  correct\n",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in\n%s", want, r.stdout)
		}
	}
	if r.stderr != "There are more: add --cursor next\n" {
		t.Errorf("stderr %q", r.stderr)
	}
	f.takeAsked()
	execute(t, f.env, "reviews", "list", "--kind", "unresolved,conflict", "--upstream", "u", "--operation", "o", "--reason", "no_response", "--evidence", "not_sent", "--assignee", "ann",
		"--older-than", "24h", "--metadata", "a=1", "--metadata-min", "b=2", "--metadata-max", "c=3", "--limit", "7", "--cursor", "x", "--output", "json").must(t, exitSuccess)
	execute(t, f.env, "reviews", "--unassigned").must(t, exitSuccess)
	f.wantAsked(t, "GET /v1/reviews?assignee=ann&cursor=x&evidence=not_sent&kind=unresolved&kind=conflict&limit=7&metadata.a=1&metadata_max.c=3&metadata_min.b=2&older_than=24h0m0s&operation=o&reason=no_response&upstream=u",
		"GET /v1/reviews?assignee=&limit=50")
}

// Events of doubts are told in words.
func TestEventsOfDoubts(t *testing.T) {
	for _, tt := range []struct{ kind, data, want string }{
		{"lookup.ended", `{"round": 2, "question": 1, "finding": "absent", "counts": true, "status": 200, "category": null}`, "round 2, question 1: absent, which counts, 200"},
		{"lookup.ended", `{"round": 1, "question": 2, "finding": "unknown", "counts": false, "status": null, "category": "header_timeout", "detail": "2s"}`, "round 1, question 2: unknown, header_timeout: 2s"},
		{"evidence.notice", `{"finding": "applied", "reference": "pay_9", "status": null, "effect": "settled"}`, "applied, pay_9, it settled the command"},
		{"evidence.operator", `{"finding": "refused", "code": "limit", "message": "no", "effect": "conflict"}`, "refused, limit, no, it contradicts the outcome"},
		{"evidence.late", `{"attempt": 1, "evidence": "response_received", "answer": "applied", "status": 201, "effect": "none"}`, "of attempt 1: response_received, applied, 201"},
		{"command.review", `{"reason": "schedule used up"}`, "waits for a person: schedule used up"},
		{"command.conflict", `{"state": "cancelled", "source": "report", "finding": "applied", "answer": ""}`, "it is cancelled, but report says applied"},
		{"command.accepted", `{"profile_version": 1}`, `{"profile_version": 1}`},
		{"command.odd", `[1]`, `[1]`},
	} {
		if got := eventText(client.Event{Type: tt.kind, Data: []byte(tt.data)}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.kind, got, tt.want)
		}
	}
}
