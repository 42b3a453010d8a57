package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"executor/client"
)

func reportIn(state, counts, more string) string {
	return `{"id": "r1", "upstream": "ledger", "operation": null, "format": "csv", "state": "` + state + `", "created_at": "2026-12-01T10:00:00Z", "created_by": "ann",
		"from": "2026-11-01T00:00:00Z", "until": null, "lines": 3, "compared": 1, "scanned": 0, "counts": ` + counts + more + `}`
}

func TestReconcileUpload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "May.CSV")
	const lines = "Ref,Status\np1,paid\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFakeService(t).on("POST /v1/reconciliations", 202, reportIn("comparing", "{}", ""))
	f.on("GET /v1/reconciliations/r1", 200, reportIn("comparing", `{"matched": 1}`, ""), reportIn("compared", `{"matched": 2, "missing_here": 1, "too_young": 0}`, ""))
	upload := []string{"reconcile", "upload", file, "--upstream", "ledger", "--operation", "create_payment", "--column", "reference=Ref", "--column", "state=Status",
		"--state", "paid=success", "--compare", "amount=/body/amount", "--from", "2026-11-01T00:00:00Z", "--until", "2026-12-01T00:00:00Z", "--settles-for", "48h"}
	sent := "POST /v1/reconciliations?columns.reference=Ref&columns.state=Status&compare.amount=%2Fbody%2Famount&from=2026-11-01T00%3A00%3A00Z&operation=create_payment&settles_for=48h0m0s&states.paid=success&until=2026-12-01T00%3A00%3A00Z&upstream=ledger " + lines
	r := execute(t, f.env, upload...).must(t, exitSuccess)
	if !strings.Contains(r.stdout, "state     comparing\n") || r.stderr != "" {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	f.wantAsked(t, sent)
	r = execute(t, f.env, with(upload, "--wait")...).must(t, exitSuccess)
	want := `id              r1
state           compared
upstream        ledger, every operation
created         2026-12-01T10:00:00Z by ann, csv
covers          2026-11-01T00:00:00Z to …
lines           3
  matched       2
  missing_here  1
`
	if r.stdout != want || !strings.HasPrefix(r.stderr, "comparing: 1 of 3 lines, 0 commands looked for\nNothing has changed yet.") {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	f.takeAsked()
	executeIn(t, f.env, "{}\n", "reconcile", "upload", "-", "--upstream", "ledger", "--format", "jsonl", "--output", "json").must(t, exitSuccess)
	f.wantAsked(t, "POST /v1/reconciliations?upstream=ledger {}\n")
}

func TestReconcileThatFails(t *testing.T) {
	f := newFakeService(t).on("GET /v1/reconciliations/r1", 200, reportIn("failed", "{}", `, "problem": "line 7 has 3 fields"`))
	if r := execute(t, f.env, "reconcile", "show", "r1", "--wait").must(t, exitFailure); !strings.Contains(r.stderr, "line 7 has 3 fields") {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestReconcileOnTheWire(t *testing.T) {
	f := newFakeService(t)
	f.on("GET /v1/reconciliations", 200, `{"data": [`+reportIn("compared", `{"matched": 2, "different": 1}`, "")+`], "next_cursor": null}`)
	f.on("GET /v1/reconciliations/r1/items", 200, `{"data": [{"number": 1, "kind": "different", "line": 7, "reference": "p1", "key": null, "command_id": "c1", "word": "paid", "state": "success", "differences": [{"field": "/body/amount", "ours": "10", "theirs": "11"}], "problem": null},
		{"number": 2, "kind": "duplicate", "line": 8, "reference": "p1", "command_id": "c1", "word": "paid", "state": "success", "duplicate_of": 7, "problem": "see there", "effect": "none"},
		{"number": 3, "kind": "missing_there", "line": null, "reference": null, "key": "k", "command_id": "c2", "state": "unresolved"}], "next_cursor": null}`)
	f.on("POST /v1/reconciliations/r1/apply", 202, reportIn("applying", "{}", `, "effects": {"settled": 1}`))
	f.on("GET /v1/reconciliations/r1", 200, reportIn("applied", `{"matched": 2}`, `, "apply_asked_by": "ann", "applied_at": "2026-12-01T11:00:00Z", "apply_reason": "closing May", "effects": {"settled": 2, "none": 0}`))
	r := execute(t, f.env, "reconcile", "list", "--upstream", "ledger").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "r1  2026-12-01T10:00:00Z  ann  ledger    compared  3      1 different, 2 matched\n") {
		t.Errorf("list\n%s", r.stdout)
	}
	r = execute(t, f.env, "reconcile", "items", "r1", "--kind", "different,missing_there").must(t, exitSuccess)
	want := `LINE  KIND           THERE  HERE        REFERENCE  KEY  COMMAND  DETAIL                                        EFFECT
7     different      paid   success     p1         -    c1       /body/amount is "10" here, "11" there         -
8     duplicate      paid   success     p1         -    c1       line 7 is about the same command, see there   none
-     missing_there  -      unresolved  -          k    c2       -                                             -
`
	if strings.Join(strings.Fields(r.stdout), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("items\n%s", r.stdout)
	}
	r = execute(t, f.env, "reconcile", "apply", "r1", "--reason", "closing May", "--wait").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "applied    2026-12-01T11:00:00Z by ann: closing May\n  settled  2\n") {
		t.Errorf("apply\n%s", r.stdout)
	}
	f.wantAsked(t, "GET /v1/reconciliations?limit=50&upstream=ledger", "GET /v1/reconciliations/r1/items?kind=different&kind=missing_there&limit=50",
		`POST /v1/reconciliations/r1/apply {"reason":"closing May"}`, "GET /v1/reconciliations/r1")
	if got := decode[client.Report](t, execute(t, f.env, "reconcile", "show", "r1", "--output", "json").must(t, exitSuccess).stdout); got.State != client.ReportApplied {
		t.Errorf("show: %+v", got)
	}
}
