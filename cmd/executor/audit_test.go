package main

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/testkit"
)

func auditEntryJSON(number, hash string) string {
	return `{"number": ` + number + `, "at": "2026-12-01T10:00:00Z", "actor": "ann", "action": "resolve", "command_id": "c1", "subject": null, "reason": "seen", "evidence_reference": "T-1",
		"before": {"state": "unresolved", "assignee": "ann", "note": null}, "after": {"state": "success", "assignee": "ann", "reference": "p1"}, "previous_hash": "aa", "hash": "` + hash + `"}`
}

func TestAuditList(t *testing.T) {
	page := `{"data": [` + auditEntryJSON("3", "ab") + `], "next_cursor": null}`
	f := newFakeService(t).on("GET /v1/audit", 200, page).on("GET /v1/commands/c1/audit", 200, page).on("GET /v1/deployment/audit", 200, page)
	want := `NUMBER  AT                    ACTOR  ACTION   ON  REASON  EVIDENCE  CHANGE
3       2026-12-01T10:00:00Z  ann    resolve  c1  seen    T-1       reference null → p1, state unresolved → success
`
	for _, args := range [][]string{{}, {"--command", "c1"}, {"--command", "c1", "--actor", "ann", "--action", "resolve", "--after", "2026-12-01T00:00:00Z"}, {"--command", "c1", "--subject", "s"}, {"--deployment"}} {
		if r := execute(t, f.env, append([]string{"audit", "list"}, args...)...).must(t, exitSuccess); r.stdout != want {
			t.Errorf("%v:\n%s", args, r.stdout)
		}
	}
	f.wantAsked(t, "GET /v1/audit?limit=50", "GET /v1/commands/c1/audit?limit=50", "GET /v1/audit?action=resolve&actor=ann&after=2026-12-01T00%3A00%3A00Z&command=c1&limit=50",
		"GET /v1/audit?command=c1&limit=50&subject=s", "GET /v1/deployment/audit?limit=50")
	execute(t, f.env, "audit", "list", "--deployment", "--actor", "ann").must(t, exitUsage)
}

func TestAuditVerifyByTheService(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	intact := `{"sound": true, "entries": 3, "head": "3:` + hash + `", "problem": null}`
	broken := `{"sound": false, "entries": 1, "head": "1:` + hash + `", "problem": {"number": 2, "kind": "edited", "detail": "it was edited"}}`
	for _, tt := range []struct {
		name, answer string
		args         []string
		code         int
		want         string
		asked        string
	}{
		{"sound", intact, nil, exitSuccess, "-       yes    3        3:" + hash, "GET /v1/audit/verify"},
		{"broken", broken, nil, exitFailure, "the record does not hold: entry 2: it was edited", "GET /v1/audit/verify"},
		{"the head as noted", intact, []string{"--head", "3:" + strings.ToUpper(hash)}, exitSuccess, "yes", "GET /v1/audit/verify?pin=3%3A" + hash},
		{"no head at all", intact, []string{"--head", "nonsense"}, exitUsage, "number:hash", ""},
		{"a tenant", intact, []string{"--tenant", "acme"}, exitUsage, "--database-url", ""},
	} {
		f := newFakeService(t).on("GET /v1/audit/verify", 200, tt.answer)
		if r := execute(t, f.env, append([]string{"audit", "verify"}, tt.args...)...).must(t, tt.code); !strings.Contains(r.stdout+r.stderr, tt.want) {
			t.Errorf("%s:\n%s%s", tt.name, r.stdout, r.stderr)
		}
		if asked := strings.Join(f.takeAsked(), " "); asked != tt.asked {
			t.Errorf("%s: asked %s", tt.name, asked)
		}
	}
}

// Whoever doubts the record may not trust the service: on the database itself an
// edited and a deleted entry are found, and with a noted head a cut one.
func TestAuditVerifyOnTheDatabase(t *testing.T) {
	env := map[string]string{"EXECUTOR_DATABASE_URL": testkit.DatabaseURL(t)}
	pool := testkit.Open(t, env["EXECUTOR_DATABASE_URL"])
	for _, tenant := range []string{"acme", "default", "default", "default"} {
		recordDeed(t, pool, tenant)
	}
	verify := func(args ...string) result { return execute(t, env, append([]string{"audit", "verify"}, args...)...) }
	view := decode[struct{ Data []chainView }](t, verify("--output", "json").must(t, exitSuccess).stdout)
	if len(view.Data) != 2 || view.Data[1].Tenant != "default" || view.Data[1].Entries != 3 || !strings.HasPrefix(view.Data[1].Head, "3:") {
		t.Fatalf("got %+v", view)
	}
	head := view.Data[1].Head
	verify("--head", head).must(t, exitSuccess)
	if r := verify("--tenant", "acme").must(t, exitSuccess); strings.Contains(r.stdout, "default") || r.stderr != "" {
		t.Errorf("one tenant: stdout %s, stderr %s", r.stdout, r.stderr)
	}
	statement(t, pool, `ALTER TABLE audit DISABLE TRIGGER ALL`)
	statement(t, pool, `ALTER TABLE audit_heads DISABLE TRIGGER ALL`)
	for _, tt := range []struct{ sql, want string }{
		{`DELETE FROM audit WHERE tenant = 'default' AND number = 3`, "tenant default does not hold: entry 3: "},
		{`UPDATE audit_heads SET number = 2, hash = (SELECT hash FROM audit WHERE tenant = 'default' AND number = 2) WHERE tenant = 'default'`, ""},
		{`UPDATE audit SET reason = 'another' WHERE tenant = 'default' AND number = 1`, "tenant default does not hold: entry 1: "},
	} {
		statement(t, pool, tt.sql)
		if tt.want == "" { // cut together with its head: only what was noted tells
			verify().must(t, exitSuccess)
			if r := verify("--head", head).must(t, exitFailure); !strings.Contains(r.stderr, "entry 3 was pinned") {
				t.Errorf("cut: stderr %q", r.stderr)
			}
			continue
		}
		if r := verify().must(t, exitFailure); !strings.Contains(r.stderr, tt.want) || !strings.Contains(r.stdout, "acme") {
			t.Errorf("%s:\n%s%s", tt.sql, r.stdout, r.stderr)
		}
	}
}

func recordDeed(t *testing.T, pool *pgxpool.Pool, tenant string) {
	t.Helper()
	err := pgx.BeginFunc(context.Background(), pool, func(tx pgx.Tx) error {
		return audit.Record(context.Background(), tx, audit.Entry{Tenant: tenant, Actor: "ann", Action: "note", Reason: "r"})
	})
	if err != nil {
		t.Fatal(err)
	}
}
