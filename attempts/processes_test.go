package attempts_test

import (
	"testing"
	"time"

	"executor/attempts"
	"executor/internal/testkit"
)

// TestProcesses: who sends, who did until lately, and what nobody has taken up.
func TestProcesses(t *testing.T) {
	pool := testkit.Database(t)
	d := attempts.NewDeployment(pool, "", nil)
	exec := func(sql string) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`
		INSERT INTO leases (instance, acquired_at, renewed_at, expires_at, ended_at)
		SELECT name, now() - interval '1 hour', now() - age, now() + interval '10 seconds' - age, ended
		FROM (VALUES ('long ago', interval '2 days', now() - interval '2 days'), ('ended', interval '1 hour', now() - interval '1 hour'),
			('lapsed', interval '1 minute', NULL), ('live', interval '1 second', NULL)) l(name, age, ended)`)
	exec(`
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, request, bytes_total, body_sha256)
		SELECT gen_random_uuid(), 1, tenant, 1, epoch, instance, 1, now(), now(), now(), '{}', 0, ''
		FROM leases, unnest(ARRAY['t', 't', 'another']) tenant WHERE instance = 'lapsed'`)
	list, err := d.Processes(t.Context(), "t")
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for i, want := range []struct {
		instance string
		live     bool
		open     int
	}{{"live", true, 0}, {"lapsed", false, 2}, {"ended", false, 0}} {
		p := list[i]
		if p.Instance != want.instance || p.Live() != want.live || p.Open != want.open || p.SinceRenewal() < time.Second {
			t.Errorf("process %d is %+v, want %+v", i, p, want)
		}
	}
	if o, err := d.Overdue(t.Context()); err != nil || o.Commands+o.Lookups+o.Deliveries+o.BulkItems != 0 {
		t.Errorf("with nothing to do: %+v, %v", o, err)
	}
	exec(`
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, next_attempt_at)
		VALUES (gen_random_uuid(), 't', 'k', 1, 'pay', 1, 'pending', now(), now(), now() - interval '1 hour')`)
	exec(`INSERT INTO upstreams (tenant, name, version, budget_tokens, budget_at, created_at, updated_at) VALUES ('t', 'up', 1, 0, now(), now(), now())`)
	exec(`INSERT INTO doubts (command_id, tenant, upstream_id, since, next_at) SELECT gen_random_uuid(), 't', id, now(), now() - interval '2 hours' FROM upstreams`)
	exec(`
		INSERT INTO webhook_endpoints (id, tenant, url, description, events, upstreams, ordered, created_at, updated_at)
		VALUES (gen_random_uuid(), 't', 'u', '', '{}', '{}', false, now(), now())`)
	exec(`
		INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, sequence, type, at, next_at)
		SELECT gen_random_uuid(), id, 't', 1, 'x', now(), now() - interval '3 hours' FROM webhook_endpoints`)
	exec(`INSERT INTO bulk_actions (tenant, id, action, actor, request, created_at) VALUES ('t', gen_random_uuid(), 'note', 'a', '{}', now())`)
	exec(`INSERT INTO bulk_items (tenant, bulk_id, number, command_id, version, next_at) SELECT 't', id, 1, gen_random_uuid(), 1, now() - interval '4 hours' FROM bulk_actions`)
	o, err := d.Overdue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range []time.Duration{o.Commands, o.Lookups, o.Deliveries, o.BulkItems} {
		if hours := time.Duration(i+1) * time.Hour; got < hours || got > hours+time.Hour/2 {
			t.Errorf("%s overdue, want %s: %+v", got, hours, o)
		}
	}
}
