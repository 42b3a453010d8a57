package reconcile_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/testkit"
	"executor/outcome"
)

// eavesdropper hears every statement of a pool.
type eavesdropper struct {
	mu    sync.Mutex
	heard []pgx.TraceQueryStartData
}

func (e *eavesdropper) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, q)
	return ctx
}

func (*eavesdropper) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// crowd fills the tables with what is over, and with notices about the business of
// others.
func (r *noticeRig) crowd(t *testing.T) {
	t.Helper()
	r.exec(t, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, outcome)
		SELECT gen_random_uuid(), 'default', 'crowd' || i, 1, 'charge', 1, 'success', now(), now(), '{}' FROM generate_series(1, 10000) i`)
	r.exec(t, `
		INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by)
		SELECT id, tenant, 'POST', '/', '[]', '', 'replayable', '', '', '', '', '{}', '', '{}', 'test' FROM commands`)
	r.exec(t, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			evidence, request, bytes_total, body_sha256, reference)
		SELECT id, 1, tenant, 1, 1, 'test', 1, now(), now(), now(), now(), 'response_received', '{}', 0, '', 'attempt' || idempotency_key FROM commands`)
	r.exec(t, `
		INSERT INTO findings (command_id, tenant, at, source, observation, effect, finding, reference)
		SELECT id, tenant, now(), 'lookup', '{}', 'settled', 'applied', 'finding' || idempotency_key FROM commands`)
	r.exec(t, `
		INSERT INTO lookups (command_id, tenant, round, question, instance, profile_version, started_at, ended_at, request, finding, counts, reference)
		SELECT id, tenant, 1, 1, 'test', 1, now(), now(), '{}', 'applied', false, 'lookup' || idempotency_key FROM commands`)
	r.exec(t, `
		INSERT INTO notices (tenant, upstream_id, event_id, profile_version, received_at, named_by, name, weight, finding, notes, body_sha256, state, command_id, next_at, expires_at)
		SELECT 'default', 1, 'crowd' || i, 1, now(), 'key', 'x' || i, 'conclusive', 'applied', '[]', '', CASE WHEN i % 2 = 0 THEN 'done' ELSE 'unmatched' END,
			c.id, CASE WHEN i % 2 = 1 THEN now() + i * interval '1 minute' END, now() + interval '30 days'
		FROM generate_series(1, 10000) i LEFT JOIN commands c ON i % 2 = 0 AND c.idempotency_key = 'crowd' || i`)
	r.exec(t, `ANALYZE`)
}

// TestPlansOfNotices: taking one in and looking again at those that wait reads no
// table from end to end.
func TestPlansOfNotices(t *testing.T) {
	ear := &eavesdropper{}
	config, err := pgxpool.ParseConfig(testkit.DatabaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer = ear
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	r := newNoticeRigOn(t, pool)
	r.crowd(t)
	id := r.attempted(t, "k1", "charge", outcome.AnswerPending, "ch_1")
	busy := r.submit(t, "k2", "charge")
	r.begin(t, busy)
	ear.heard = nil

	r.receive(t, "e1", named(map[string]any{"reference": "ch_1"}, "done", "pay_1"))
	r.receive(t, "e2", named(map[string]any{"id": id.String()}, "failed", ""))
	r.receive(t, "e3", about("k2", "done"))
	r.receive(t, "e4", about("k3", "done"))
	r.exec(t, `UPDATE notices SET next_at = now() WHERE upstream_id = 1 AND event_id IN ('e3', 'e4')`)
	if n, err := r.store.MatchNotices(t.Context()); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	r.wantNotices(t, id, "done settled", "done conflict")

	for _, q := range slices.Clone(ear.heard) {
		if verb := strings.Fields(q.SQL)[0]; !slices.Contains([]string{"SELECT", "UPDATE", "INSERT", "WITH"}, verb) {
			continue
		}
		rows, err := pool.Query(t.Context(), "EXPLAIN "+q.SQL, q.Args...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", q.SQL, err)
		}
		for _, table := range []string{"notices", "commands", "command_requests", "attempts", "findings", "lookups"} {
			if slices.ContainsFunc(plan, func(line string) bool {
				return strings.Contains(line, "Seq Scan on "+table+" ") || strings.Contains(line, "Filter: (next_at")
			}) {
				t.Errorf("%s\nreads all of %s:\n%s", q.SQL, table, strings.Join(plan, "\n"))
			}
		}
	}
}
