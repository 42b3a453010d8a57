package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"executor/client"
)

const (
	bulkID      = "5f0c7a52-9f5e-4f0e-9d3b-0d6a5c1f2b3d"
	bulkCounted = `{"id": "` + bulkID + `", "action": "resolve", "state": "preview", "count": 3, "done": 0, "refused": 1, "problems": {"no_lookup": 1}, "items": [],
		"sample": [{"command_id": "c1", "result": "pending"}, {"command_id": "c2", "result": "refused", "problem": "no_lookup", "detail": "The operation has no lookup."}]}`
	bulkRunning = `{"id": "` + bulkID + `", "action": "resolve", "state": "running", "count": 3, "done": 1, "refused": 0, "items": [], "sample": []}`
	bulkDone    = `{"id": "` + bulkID + `", "action": "resolve", "state": "done", "count": 3, "done": 3, "refused": 0, "items": [{"command_id": "c1", "result": "done"}], "sample": []}`
	bulkRefused = `{"id": "` + bulkID + `", "action": "resolve", "state": "done", "count": 2, "done": 1, "refused": 1, "items": [
		{"command_id": "c1", "result": "done", "problem": null}, {"command_id": "c2", "result": "refused", "problem": "stale", "detail": "It has moved on."}], "sample": []}`
)

var resolveAll = []string{"reviews", "bulk", "--action", "resolve", "--as", "cancelled", "--reason", "lost", "--upstream", "ledger"}

func with(args []string, more ...string) []string {
	return append(append([]string{}, args...), more...)
}

// The count comes first; what is started is held to it, under an id that is known
// before.
func TestBulk(t *testing.T) {
	f := newFakeService(t)
	f.on("POST /v1/reviews/bulk", 200, bulkCounted).on("POST /v1/reviews/bulk", 202, bulkRunning)
	f.on("GET /v1/reviews/bulk/"+bulkID, 404, problemJSON(404, "not_found", "None.", "")).on("GET /v1/reviews/bulk/"+bulkID, 200, bulkRunning, bulkRefused)
	r := execute(t, f.env, with(resolveAll, "--evidence", "T-1", "--attempt-evidence", "not_sent", "--yes", "--id", bulkID)...).must(t, exitFailure)
	wantOut := "ID  RESULT   PROBLEM  BECAUSE\nc1  done     -        -\nc2  refused  stale    It has moved on.\n"
	wantErr := "resolve as cancelled: 3 commands, of which 1 would be refused now (no_lookup 1)\nid: " + bulkID + "\n1 of 3\nresolve done: 1 of 2 done, 1 refused\n"
	if r.stdout != wantOut || r.stderr != wantErr {
		t.Errorf("stdout\n%s\nstderr\n%s", r.stdout, r.stderr)
	}
	const request = `POST /v1/reviews/bulk {"id":"` + bulkID + `","action":"resolve","filter":{"upstream":"ledger","evidence":["not_sent"]},"reason":"lost","evidence_reference":"T-1","state":"cancelled"`
	look := "GET /v1/reviews/bulk/" + bulkID
	f.wantAsked(t, look, request+`,"dry_run":true}`, request+`,"expected_count":3}`, look, look)
}

func TestBulkThatWasStartedBefore(t *testing.T) {
	f := newFakeService(t).on("GET /v1/reviews/bulk/"+bulkID, 200, bulkDone)
	f.on("POST /v1/reviews/bulk", 200, bulkDone).on("POST /v1/reviews/bulk", 409, problemJSON(409, "id_reused", "Another bulk action was started under this id.", ""))
	r := execute(t, f.env, with(resolveAll, "--yes", "--id", bulkID)...).must(t, exitSuccess)
	if !strings.Contains(r.stderr, "started before") || !strings.Contains(r.stderr, "3 of 3 done, 0 refused") {
		t.Errorf("stderr %q", r.stderr)
	}
	other := with(resolveAll, "--yes", "--id", bulkID, "--action", "lookup")
	if r := execute(t, f.env, other...).must(t, exitFailure); !strings.Contains(r.stderr, "started under this id") {
		t.Errorf("stderr %q", r.stderr)
	}
	if r := execute(t, f.env, "reviews", "bulk", "show", bulkID).must(t, exitSuccess); !strings.Contains(r.stdout, "c1  done") {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestBulkDryRun(t *testing.T) {
	f := newFakeService(t).on("POST /v1/reviews/bulk", 200, bulkCounted)
	r := execute(t, f.env, "reviews", "bulk", "--action", "resolve", "--as", "cancelled", "--upstream", "ledger", "--dry-run").must(t, exitSuccess)
	want := `resolve as cancelled: 3 commands, of which 1 would be refused now (no_lookup 1)
ID  RESULT   PROBLEM    BECAUSE
c1  pending  -          -
c2  refused  no_lookup  The operation has no lookup.
and 1 more
`
	if r.stdout != want || r.stderr != "Nothing was done.\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	if b := decode[client.Bulk](t, execute(t, f.env, with(resolveAll, "--dry-run", "--output", "json")...).must(t, exitSuccess).stdout); b.Count != 3 {
		t.Errorf("got %+v", b)
	}
	for _, asked := range f.takeAsked() {
		if !strings.Contains(asked, `"dry_run":true`) {
			t.Errorf("sent %s", asked)
		}
	}
}

// Without a terminal nobody is asked, and nothing is done.
func TestBulkAsks(t *testing.T) {
	f := newFakeService(t)
	if r := execute(t, f.env, resolveAll...).must(t, exitUsage); !strings.Contains(r.stderr, "--yes is needed") || len(f.takeAsked()) != 0 {
		t.Errorf("stderr %q", r.stderr)
	}
	for answer, want := range map[string]int{"y\n": exitSuccess, "YES\n": exitSuccess, "n\n": exitFailure, "\n": exitFailure, "": exitUsage, "y": exitSuccess} {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetIn(strings.NewReader(answer))
		cmd.SetErr(&out)
		err := (&bulkFlags{}).confirm(cmd, "resolve as success: 3 commands")
		if got := exitCode(err); got != want || out.String() != "resolve as success: 3 commands. Do it? [y/N] " {
			t.Errorf("%q: code %d (%v), asked %q", answer, got, err, out.String())
		}
	}
}

func TestBulkOfNothing(t *testing.T) {
	f := newFakeService(t).on("POST /v1/reviews/bulk", 200, strings.Replace(bulkCounted, `"count": 3`, `"count": 0`, 1))
	if r := execute(t, f.env, with(resolveAll, "--yes")...).must(t, exitSuccess); !strings.Contains(r.stderr, "Nothing was done") || len(f.takeAsked()) != 1 {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestBulkText(t *testing.T) {
	for want, r := range map[string]client.BulkRequest{
		"assign to ann":                  {Action: "assign", Assignee: "ann"},
		"assign to nobody in particular": {Action: "assign"},
		"send once more":                 {Action: "resend"},
		"look up":                        {Action: "lookup"},
		"note":                           {Action: "note"},
	} {
		if got := bulkText(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
