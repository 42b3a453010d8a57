package reconcile_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/testkit"
	"executor/reconcile"
)

// queueStatement is the last one that read the queue. One at a time.
type queueStatement struct {
	sql  string
	args []any
}

func (q *queueStatement) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "'unresolved' AS kind") && !strings.HasPrefix(data.SQL, "EXPLAIN") {
		q.sql, q.args = data.SQL, data.Args
	}
	return ctx
}

func (*queueStatement) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// tracedPool is a pool whose statements are heard.
func tracedPool(t *testing.T, heard pgx.QueryTracer) *pgxpool.Pool {
	t.Helper()
	config := testkit.Database(t).Config()
	config.ConnConfig.Tracer = heard
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// TestReviewPlan: a page of the queue goes along the index of what is open, however
// many doubts are settled.
func TestReviewPlan(t *testing.T) {
	heard := &queueStatement{}
	pool := tracedPool(t, heard)
	d := newDeskOn(t, pool)
	d.crowd(t, 3000, 12000)
	page, cursor, err := d.store.Reviews(t.Context(), reconcile.ReviewFilter{Tenant: tenant, Limit: 100})
	if err != nil || len(page) != 100 {
		t.Fatal(len(page), err)
	}
	for name, f := range map[string]reconcile.ReviewFilter{
		"first page": {}, "next page": {Cursor: cursor}, "nobody's": {Assignee: new("")}, "one operation": {Operation: "transfer"},
		"evidence": {Evidence: []string{"sent_no_response"}},
	} {
		f.Tenant, f.Limit = tenant, 100
		if _, _, err := d.store.Reviews(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		rows, err := pool.Query(t.Context(), "EXPLAIN "+heard.sql, heard.args...)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if !strings.Contains(plan, "doubts_review") || strings.Contains(plan, "Seq Scan on doubts") || strings.Contains(plan, "Seq Scan on commands") || strings.Contains(plan, "Seq Scan on attempts") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}
