package commands_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/internal/testkit"
)

// statement is one that the store sent.
type statement struct {
	sql  string
	args []any
}

// listener hears every statement of a pool.
type listener struct {
	mu    sync.Mutex
	heard []statement
}

func (l *listener) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, statement{q.SQL, q.Args})
	return ctx
}

func (*listener) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// all is everything that a call sends.
func (l *listener) all(t *testing.T, call func() error) []statement {
	t.Helper()
	l.mu.Lock()
	l.heard = nil
	l.mu.Unlock()
	if err := call(); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.heard)
}

// during is the first statement with the text that a call sends.
func (l *listener) during(t *testing.T, text string, call func() error) statement {
	t.Helper()
	sent := l.all(t, call)
	i := slices.IndexFunc(sent, func(s statement) bool { return strings.Contains(s.sql, text) })
	if i < 0 {
		t.Fatalf("no statement has %q", text)
	}
	return sent[i]
}

// tracedPool is a pool whose statements are heard.
func tracedPool(t *testing.T, heard *listener) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(testkit.DatabaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.Tracer, config.MaxConns = heard, 4
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// node is a node of a query plan.
type node struct {
	Type  string `json:"Node Type"`
	Table string `json:"Relation Name"`
	Index string `json:"Index Name"`
	Cond  string `json:"Index Cond"`
	Plans []node
}

// each calls visit for every node.
func (n node) each(visit func(node)) {
	visit(n)
	for _, p := range n.Plans {
		p.each(visit)
	}
}

func (r *rig) explain(t *testing.T, s statement) node {
	t.Helper()
	var text []byte
	r.scan(t, "EXPLAIN (FORMAT JSON) "+s.sql, s.args, &text)
	var plans []struct{ Plan node }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	return plans[0].Plan
}

// crowd fills the tables with commands of many tenants and states, most of them
// over.
func (r *rig) crowd(t *testing.T) {
	t.Helper()
	r.exec(t, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, next_attempt_at, outcome, phase)
		SELECT gen_random_uuid(), CASE WHEN i % 3 = 0 THEN 'default' ELSE 'tenant' || i % 7 END, 'crowd' || i, 1, 'pay', 1, s.state, now() - i * interval '1 second',
			now() + i * interval '1 minute', CASE WHEN s.state = 'pending' THEN now() + i * interval '1 minute' END,
			CASE WHEN s.state <> 'pending' THEN json_build_object('state', s.state) END, CASE WHEN s.state = 'unresolved' THEN 'review' END
		FROM generate_series(1, 20000) i, LATERAL (SELECT CASE WHEN i % 10 = 0 THEN 'pending' WHEN i % 501 = 0 THEN 'unresolved' ELSE 'success' END AS state) s`)
	r.exec(t, `
		INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by)
		SELECT id, tenant, 'POST', '/', '[]', '', 'replayable', '', '', '', '', '{}', '', CASE WHEN idempotency_key LIKE '%7' THEN json_build_object('order', idempotency_key) ELSE '{}' END, 'test'
		FROM commands WHERE idempotency_key LIKE 'crowd%'`)
	r.exec(t, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			evidence, request, bytes_total, body_sha256, reference)
		SELECT id, 1, tenant, 1, 1, 'test', 1, now(), now(), now(), now(), 'response_received', '{}', 0, '', 'ref' || idempotency_key FROM commands WHERE state = 'success'`)
	r.exec(t, `ANALYZE`)
}

// TestPlans: what is asked all the time goes by an index, through no more rows
// than it returns, however many commands there are.
func TestPlans(t *testing.T) {
	heard := &listener{}
	r := newRigOn(t, tracedPool(t, heard))
	r.crowd(t)
	list := func(f commands.Filter) func() error {
		return func() error {
			f.Tenant = tenant
			_, _, err := r.store.List(t.Context(), f)
			return err
		}
	}
	_, cursor, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant, States: []string{"pending"}})
	if err != nil {
		t.Fatal(err)
	}
	id := r.submit(t, submission("one", "pay")).ID
	tests := []struct {
		name, text, index, cond string
		call                    func() error
	}{
		{"list", "FROM commands c", "commands_list", "tenant", list(commands.Filter{})},
		{"next page", "FROM commands c", "commands_list", "ROW(created_at, id) <", list(commands.Filter{Cursor: cursor})},
		{"list by state", "FROM commands c", "commands_list", "tenant", list(commands.Filter{States: []string{"pending"}})},
		{"list unresolved", "FROM commands c", "commands_unresolved", "tenant", list(commands.Filter{States: []string{"unresolved"}})},
		{"list by time", "FROM commands c", "commands_list", "created_at >", list(commands.Filter{CreatedAfter: new(time.Now().Add(-time.Minute))})},
		{"list by upstream", "FROM commands c", "commands_list", "tenant", list(commands.Filter{Upstream: "up"})},
		{"find by key", "FROM commands c", "commands_tenant_idempotency_key_key", "idempotency_key", list(commands.Filter{Key: "crowd9"})},
		{"find by reference", "FROM commands c", "attempts_reference", "reference", list(commands.Filter{Reference: "refcrowd3"})},
		{"find by metadata", "FROM commands c", "command_requests_metadata", "metadata @>", list(commands.Filter{Metadata: map[string]string{"order": "crowd27"}})},
		{"get", "FROM commands c", "commands_pkey", "id =", func() error { _, err := r.store.Get(t.Context(), tenant, id); return err }},
		{"overdue", "deadline <=", "commands_deadline", "deadline <=", func() error { _, err := r.store.CloseOverdue(t.Context()); return err }},
		{"stranded", "max(next_attempt_at)", "commands_due", "next_attempt_at <", func() error { _, err := r.store.Heal(t.Context()); return err }},
		{"claims", "claimed_by IS NOT NULL", "commands_claimed", "", func() error { _, err := r.store.Unclaim(t.Context()); return err }},
		{"own claims", "claimed_by =", "commands_claimed", "claimed_by =", func() error { _, err := r.store.Claimed(t.Context(), 7); return err }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found := false
			r.explain(t, heard.during(t, tt.text, tt.call)).each(func(n node) {
				if n.Type == "Seq Scan" && (n.Table == "commands" || n.Table == "command_requests") {
					t.Errorf("scans the table %s", n.Table)
				}
				if n.Index == tt.index {
					found = true
					if !strings.Contains(n.Cond, tt.cond) {
						t.Errorf("goes through all of %s, by %q", n.Index, n.Cond)
					}
				}
			})
			if !found {
				t.Errorf("does not go by %s", tt.index)
			}
		})
	}
}
