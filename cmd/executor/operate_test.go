package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/upstreams"
)

// databaseEnv is the environment of somebody who operates a database.
func databaseEnv(url string) map[string]string {
	return map[string]string{"EXECUTOR_DATABASE_URL": url, "EXECUTOR_DEPLOYMENT_ID": "test"}
}

// adopted is a migrated database that belongs to the deployment "test".
func adopted(t testing.TB) map[string]string {
	t.Helper()
	env := databaseEnv(testkit.DatabaseURL(t))
	execute(t, env, "migrate").must(t, exitSuccess)
	return env
}

func statement(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestMigrate(t *testing.T) {
	env := databaseEnv(testkit.EmptyDatabaseURL(t))
	first := execute(t, env, "migrate").must(t, exitSuccess)
	if want := "schema      migrated\ndeployment  test (adopted)\n"; first.stdout != want || first.stderr != "" {
		t.Errorf("first run: stdout %q, want %q; stderr %q", first.stdout, want, first.stderr)
	}
	again := execute(t, env, "migrate").must(t, exitSuccess)
	if want := "schema      already current\ndeployment  test\n"; again.stdout != want || again.stderr != "" {
		t.Errorf("second run: stdout %q, want %q; stderr %q", again.stdout, want, again.stderr)
	}
	env["EXECUTOR_DEPLOYMENT_ID"] = "other"
	other := execute(t, env, "migrate", "--output", "json").must(t, exitSuccess)
	if m := decode[migration](t, other.stdout); m.Migrated || m.Adopted || m.DeploymentID != "test" {
		t.Errorf("another deployment: %+v", m)
	}
	other = execute(t, env, "migrate").must(t, exitSuccess)
	if !strings.Contains(other.stderr, "start frozen") {
		t.Errorf("another deployment: stderr %q", other.stderr)
	}
}

func TestMigrateWithoutDeploymentID(t *testing.T) {
	env := map[string]string{"EXECUTOR_DATABASE_URL": testkit.EmptyDatabaseURL(t)}
	r := execute(t, env, "migrate").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "none yet") || !strings.Contains(r.stderr, "EXECUTOR_DEPLOYMENT_ID") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
}

// A database with commands and no owner may be a copy: only a person adopts it.
func TestMigrateDoesNotAdoptData(t *testing.T) {
	pool := testkit.Database(t)
	statement(t, pool, `
		INSERT INTO upstreams (tenant, name, version, budget_tokens, budget_at, created_at, updated_at) VALUES ('default', 'u', 0, 0, now(), now(), now())`)
	statement(t, pool, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, next_attempt_at)
		SELECT gen_random_uuid(), 'default', 'k', id, 'o', 1, 'pending', now(), now(), now() FROM upstreams`)
	env := databaseEnv(pool.Config().ConnString())
	r := execute(t, env, "migrate").must(t, exitSuccess)
	if !strings.Contains(r.stderr, "deployment adopt") {
		t.Errorf("stderr %q", r.stderr)
	}
	execute(t, env, "deployment", "show").must(t, exitFailure)
	r = execute(t, env, "deployment", "adopt").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "deployment  test") {
		t.Errorf("stdout %q", r.stdout)
	}
}

func TestOperatorsNeedTheSchema(t *testing.T) {
	env := databaseEnv(testkit.EmptyDatabaseURL(t))
	for _, args := range [][]string{{"keys", "list"}, {"deployment", "show"}, {"freeze", "--reason", "x"}, {"serve", "--listen", "127.0.0.1:0"}} {
		r := execute(t, env, args...).must(t, exitFailure)
		if !strings.Contains(r.stderr, `run "executor migrate"`) {
			t.Errorf("%v: stderr %q", args, r.stderr)
		}
	}
}

func TestDatabaseAway(t *testing.T) {
	env := databaseEnv("postgres://me:hunter2@127.0.0.1:1/none?sslmode=disable")
	for _, args := range [][]string{{"migrate"}, {"keys", "list"}, {"serve", "--database-wait", "0s"}} {
		r := execute(t, env, args...).must(t, exitFailure)
		if !strings.Contains(r.stderr, "127.0.0.1:1") || strings.Contains(r.stderr, "hunter2") {
			t.Errorf("%v: stderr %q", args, r.stderr)
		}
	}
}

func TestKeys(t *testing.T) {
	env := adopted(t)
	created := decode[createdKey](t, execute(t, env, "keys", "create", "--name", "billing", "--scopes", "commands:write,commands:read", "--tenant", "acme", "--output", "json").must(t, exitSuccess).stdout)
	if created.Name != "billing" || created.Tenant != "acme" || !strings.HasPrefix(created.Key, "exk_") || len(created.Scopes) != 2 || created.ID == "" {
		t.Errorf("created %+v", created)
	}
	shown := execute(t, env, "keys", "create", "--name", "me", "--scopes", "admin").must(t, exitSuccess)
	if !strings.Contains(shown.stdout, "exk_") || !strings.Contains(shown.stderr, "cannot be shown again") {
		t.Errorf("stdout %q, stderr %q", shown.stdout, shown.stderr)
	}
	list := execute(t, env, "keys", "list", "--tenant", "acme").must(t, exitSuccess).stdout
	if !strings.Contains(list, "billing") || strings.Contains(list, created.Key) || strings.Contains(list, "admin") {
		t.Errorf("list:\n%s", list)
	}
	execute(t, env, "keys", "create", "--name", "billing", "--scopes", "admin", "--tenant", "acme").must(t, exitFailure)
	execute(t, env, "keys", "create", "--name", "x", "--scopes", "nope").must(t, exitUsage)
	execute(t, env, "keys", "revoke", "billing").must(t, exitNotFound) // of another tenant
	execute(t, env, "keys", "revoke", "billing", "--tenant", "acme").must(t, exitSuccess)
	execute(t, env, "keys", "revoke", "billing", "--tenant", "acme").must(t, exitNotFound)
	keys := decode[struct{ Data []keyView }](t, execute(t, env, "keys", "list", "--tenant", "acme", "--output", "json").must(t, exitSuccess).stdout)
	if len(keys.Data) != 1 || keys.Data[0].RevokedAt == nil {
		t.Errorf("after the revocation: %+v", keys.Data)
	}
}

func TestFreezeAndResume(t *testing.T) {
	env := adopted(t)
	show := func() deploymentView {
		return decode[deploymentView](t, execute(t, env, "deployment", "show", "--output", "json").must(t, exitSuccess).stdout)
	}
	if s := show(); s.Frozen || s.ID != "test" {
		t.Fatalf("at first: %+v", s)
	}
	r := execute(t, env, "freeze", "--reason", "an incident").must(t, exitSuccess)
	if s := show(); !s.Frozen || s.FrozenReason != "an incident" || s.FrozenBy != actor() || !strings.Contains(r.stdout, "an incident") {
		t.Errorf("frozen: %+v\n%s", s, r.stdout)
	}
	execute(t, env, "resume").must(t, exitSuccess)
	if s := show(); s.Frozen {
		t.Errorf("resumed: %+v", s)
	}
	env["EXECUTOR_DEPLOYMENT_ID"] = "copy"
	if r := execute(t, env, "resume").must(t, exitFailure); !strings.Contains(r.stderr, "deployment adopt") {
		t.Errorf("resume of another's data: %q", r.stderr)
	}
	execute(t, env, "deployment", "adopt").must(t, exitSuccess)
	if s := show(); s.ID != "copy" {
		t.Errorf("adopted: %+v", s)
	}
}

// findingsOf runs the doctor and returns its findings by check.
func findingsOf(t *testing.T, env map[string]string) (map[string]finding, int) {
	t.Helper()
	r := execute(t, env, "doctor", "--output", "json")
	report := decode[struct {
		OK     bool
		Checks []finding
	}](t, r.stdout)
	if report.OK != (r.code == exitSuccess) {
		t.Errorf("ok is %v and the exit code %d", report.OK, r.code)
	}
	byCheck := map[string]finding{}
	for _, f := range report.Checks {
		byCheck[f.Check] = f
		if (f.Status == statusOK) != (f.Fix == "") {
			t.Errorf("%s: what is not ok says what to do, and nothing else: %+v", f.Check, f)
		}
	}
	return byCheck, r.code
}

func TestDoctor(t *testing.T) {
	env := adopted(t)
	pool := testkit.Open(t, env["EXECUTOR_DATABASE_URL"])
	byCheck, _ := findingsOf(t, env)
	for check, want := range map[string]status{
		"database": statusOK, "server": statusOK, "synchronous_commit": statusOK, "clock": statusOK, "schema": statusOK,
		"deployment": statusOK, "sending": statusOK, "processes": statusWarn, "attempts": statusOK, "upstreams": statusWarn,
		"backlog": statusOK, "unresolved": statusOK,
	} {
		if byCheck[check].Status != want {
			t.Errorf("%s: %+v, want %s", check, byCheck[check], want)
		}
	}

	statement(t, pool, `UPDATE deployment SET system_identifier = 'another'`)
	execute(t, env, "freeze", "--reason", "an incident").must(t, exitSuccess)
	statement(t, pool, `INSERT INTO leases (instance, acquired_at, renewed_at, expires_at) VALUES ('i', now(), now(), now() + interval '1 hour')`)
	byCheck, _ = findingsOf(t, env)
	for check, want := range map[string]status{"deployment": statusWarn, "sending": statusWarn, "processes": statusOK} {
		if byCheck[check].Status != want {
			t.Errorf("%s: %+v, want %s", check, byCheck[check], want)
		}
	}

	env["EXECUTOR_DEPLOYMENT_ID"] = "other"
	if byCheck, code := findingsOf(t, env); byCheck["deployment"].Status != statusFail || code != exitFailure {
		t.Errorf("another's data: %+v, exit code %d", byCheck["deployment"], code)
	}
}

const secretProfile = `version: 1
upstream: bank
base_url: https://bank.example
auth: {type: bearer, token: env:EXECUTOR_SECRET_BANK}
operations:
  ping: {method: GET, path: /, body: none, idempotency: {kind: safe}}
`

// What somebody has to look at is a warning, with the way out.
func TestDoctorFindsWhatWaits(t *testing.T) {
	env := adopted(t)
	pool := testkit.Open(t, env["EXECUTOR_DATABASE_URL"])
	profile, err := upstreams.Parse("bank.yaml", []byte(secretProfile))
	if err != nil {
		t.Fatal(err)
	}
	store := upstreams.NewStore(pool)
	u, _, err := store.Apply(context.Background(), profile, audit.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(check string, want status, detail string) {
		t.Helper()
		byCheck, _ := findingsOf(t, env)
		if f := byCheck[check]; f.Status != want || !strings.Contains(f.Detail, detail) {
			t.Errorf("%s: %+v, want %s with %q", check, f, want, detail)
		}
	}
	expect("upstream bank", statusWarn, "env:EXECUTOR_SECRET_BANK is missing")
	env["EXECUTOR_SECRET_BANK"] = "s3cret"
	expect("upstream bank", statusOK, "version 1")
	statement(t, pool, `UPDATE upstreams SET throttled_until = now() + interval '1 hour'`)
	expect("upstream bank", statusWarn, "left alone until")
	if _, err := store.Pause(context.Background(), "default", "bank", audit.By{Actor: "me", Reason: "they are down"}); err != nil {
		t.Fatal(err)
	}
	expect("upstream bank", statusWarn, "paused by me")

	expect("backlog", statusOK, "")
	statement(t, pool, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, next_attempt_at)
		VALUES (gen_random_uuid(), 'default', 'late', $1, 'ping', 1, 'pending', now(), now() + interval '1 hour', now() - interval '10 minutes')`, u.ID)
	expect("backlog", statusWarn, "due for 10m")
	expect("files", "", "")
	statement(t, pool, `UPDATE commands SET wait_for = 'file'`)
	expect("files", statusWarn, "a file of their body: 1")
	statement(t, pool, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, phase, created_at, deadline, outcome, finalized_at)
		VALUES (gen_random_uuid(), 'default', 'doubt', $1, 'ping', 1, 'unresolved', 'review', now() - interval '4 hours', now(), '{}', now() - interval '3 hours')`, u.ID)
	expect("unresolved", statusWarn, "1 waits for a person, the oldest for 3h0m0s; 0 are being looked up")
	statement(t, pool, `UPDATE commands SET phase = 'lookup' WHERE idempotency_key = 'doubt'`)
	expect("unresolved", statusOK, "1 is being looked up")
	statement(t, pool, `
		INSERT INTO doubts (command_id, tenant, upstream_id, since, next_at)
		SELECT id, tenant, upstream_id, now(), now() - interval '5 minutes' FROM commands WHERE idempotency_key = 'doubt'`)
	expect("lookups", statusFail, "due for 5m")
	expect("webhooks", "", "")
	statement(t, pool, `
		INSERT INTO webhook_endpoints (id, tenant, url, description, events, upstreams, ordered, created_at, updated_at)
		VALUES (gen_random_uuid(), 'default', 'https://shop.example/', '', '{}', '{}', false, now(), now())`)
	expect("webhooks", statusWarn, "no EXECUTOR_ENCRYPTION_KEY here")
	env["EXECUTOR_ENCRYPTION_KEY"] = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	expect("webhooks", statusWarn, "1 without a secret")
	statement(t, pool, `
		INSERT INTO webhook_secrets (id, endpoint_id, tenant, sealed, created_at)
		SELECT gen_random_uuid(), id, tenant, '', now() FROM webhook_endpoints`)
	expect("webhooks", statusWarn, "1 not verified")
	statement(t, pool, `UPDATE webhook_endpoints SET verified_at = now(), verified_by = 'challenge'`)
	expect("webhooks", statusOK, "1 receiver")
	statement(t, pool, `
		INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, sequence, type, at, next_at)
		SELECT gen_random_uuid(), id, tenant, 1, 'command.success', now(), now() - interval '5 minutes' FROM webhook_endpoints`)
	expect("webhooks", statusFail, "due for 5m")
	statement(t, pool, `UPDATE webhook_endpoints SET disabled_at = now(), disabled_by = 'gone', disabled_reason = 'it said 410'`)
	expect("webhooks", statusWarn, "1 disabled")
	statement(t, pool, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, request, bytes_total, body_sha256)
		SELECT id, 1, tenant, upstream_id, 1, 'gone', 1, now() - interval '1 hour', now() - interval '1 hour', now() - interval '1 hour', '{}', 0, ''
		FROM commands WHERE idempotency_key = 'late'`)
	expect("attempts", statusFail, "1 open long after their end")
}

func TestDoctorOnTheUnpreparedAndTheAbsent(t *testing.T) {
	byCheck, code := findingsOf(t, databaseEnv(testkit.EmptyDatabaseURL(t)))
	if byCheck["schema"].Status != statusFail || code != exitFailure {
		t.Errorf("not migrated: %+v, exit code %d", byCheck["schema"], code)
	}
	byCheck, code = findingsOf(t, databaseEnv("postgres://me@127.0.0.1:1/none?sslmode=disable"))
	if byCheck["database"].Status != statusFail || code != exitFailure || len(byCheck) != 1 {
		t.Errorf("away: %+v, exit code %d", byCheck, code)
	}
}

func TestDoctorFindsUnsafeSettings(t *testing.T) {
	env := adopted(t)
	env["EXECUTOR_DATABASE_URL"] += "&options=-c%20synchronous_commit%3Doff"
	byCheck, code := findingsOf(t, env)
	if byCheck["synchronous_commit"].Status != statusFail || code != exitFailure {
		t.Errorf("got %+v, exit code %d", byCheck["synchronous_commit"], code)
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234567 * time.Nanosecond: "1ms", 1540 * time.Millisecond: "1.5s", 90*time.Minute + 400*time.Millisecond: "1h30m0s",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}
