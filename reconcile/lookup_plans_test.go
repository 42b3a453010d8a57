package reconcile_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// TestPlansOfLookups: with many doubts, a round and the search for forgotten ones
// read no table from end to end.
func TestPlansOfLookups(t *testing.T) {
	ear := &eavesdropper{}
	r := newRigOn(t, tracedPool(t, ear))
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	r.exec(t, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, outcome, phase)
		SELECT gen_random_uuid(), 'other', 'crowd' || i, 1, 'charge', 1, 'unresolved', now() - i * interval '1 second', now(), '{}',
			CASE WHEN i % 2 = 0 THEN 'lookup' ELSE 'review' END
		FROM generate_series(1, 30000) i`)
	r.exec(t, `
		INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by)
		SELECT id, tenant, 'POST', '/', '[]', '', 'replayable', '', '', '', '', '{}', '', '{}', 'test' FROM commands`)
	r.exec(t, `
		INSERT INTO doubts (command_id, tenant, upstream_id, since, next_at, gives_up_at, handed_at)
		SELECT id, tenant, 1, now(), CASE phase WHEN 'lookup' THEN now() + interval '1 hour' END, now() + interval '2 hours',
			CASE phase WHEN 'review' THEN now() END FROM commands`)
	r.exec(t, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			evidence, request, bytes_total, body_sha256)
		SELECT id, 1, tenant, 1, 1, 'test', 1, now(), now(), now(), now(), 'sent_no_response', '{}', 0, '' FROM commands`)
	r.exec(t, `
		INSERT INTO lookups (command_id, tenant, round, question, instance, profile_version, started_at, ended_at, request, finding, counts)
		SELECT id, tenant, 1, 1, 'test', 1, now(), now(), '{}', 'unknown', false FROM commands`)
	r.exec(t, `
		INSERT INTO findings (command_id, tenant, at, source, observation, effect, finding)
		SELECT id, tenant, now(), 'lookup', '{}', 'none', 'pending' FROM commands`)
	r.exec(t, `ANALYZE`)
	id := r.unresolved(t, "k1", lost)
	ear.mu.Lock()
	ear.heard = nil
	ear.mu.Unlock()
	r.start(t)
	r.reaches(t, id, outcome.StateSuccess)

	ear.mu.Lock()
	heard := slices.Clone(ear.heard)
	ear.mu.Unlock()
	seen := map[string]bool{}
	for _, q := range heard {
		verb := strings.Fields(q.SQL)[0]
		if seen[q.SQL] || !slices.Contains([]string{"SELECT", "UPDATE", "INSERT", "WITH"}, verb) {
			continue
		}
		seen[q.SQL] = true
		rows, err := r.pool.Query(t.Context(), "EXPLAIN "+q.SQL, q.Args...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", q.SQL, err)
		}
		for _, table := range []string{"commands", "command_requests", "attempts", "findings", "lookups", "doubts"} {
			if slices.ContainsFunc(plan, func(line string) bool { return strings.Contains(line, "Seq Scan on "+table+" ") }) {
				t.Errorf("%s\nreads all of %s:\n%s", q.SQL, table, strings.Join(plan, "\n"))
			}
		}
	}
	for _, text := range []string{"WITH due AS", "SELECT c.id, c.tenant, c.created_at", "UPDATE doubts SET claimed_until", "SELECT c.id, c.operation"} {
		if !slices.ContainsFunc(heard, func(q pgx.TraceQueryStartData) bool { return strings.Contains(q.SQL, text) }) {
			t.Errorf("nothing was heard of %q", text)
		}
	}
}
