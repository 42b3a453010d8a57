package seed_test

import (
	"testing"

	"executor/bench/seed"
	"executor/commands"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// TestFill: what was seeded reads as what was written by the stores, and the
// tallies say what is in the tables.
func TestFill(t *testing.T) {
	pool := testkit.Database(t)
	size := seed.Size{Commands: 5000, Unresolved: 100, Conflicts: 10, Audit: 20}
	if err := seed.Fill(t.Context(), pool, size); err != nil {
		t.Fatal(err)
	}
	ups := upstreams.NewStore(pool)
	store := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups})
	defer store.Close()
	reviews := reconcile.NewStore(reconcile.Config{Pool: pool, Commands: store, Upstreams: ups})
	o, err := store.Overview(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range outcome.States() {
		var want int64
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM commands WHERE tenant = 'default' AND state = $1`, state).Scan(&want); err != nil {
			t.Fatal(err)
		}
		if got := o.States[state]; got.N != want || want == 0 && state != outcome.StateExecuting {
			t.Errorf("%s: %s in the overview, %d in the table", state, got, want)
		}
	}
	for _, tenant := range []string{"default", "other"} {
		f := commands.Filter{Tenant: tenant, Limit: commands.MaxPage}
		for n := 0; ; n++ {
			page, err := store.Page(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			if f.Cursor = page.Next; f.Cursor == "" {
				break
			}
		}
		if _, _, err := reviews.Reviews(t.Context(), reconcile.ReviewFilter{Tenant: tenant}); err != nil {
			t.Error(err)
		}
	}
	if n, err := reviews.CountReviews(t.Context(), reconcile.ReviewFilter{Tenant: "default", Kinds: []string{reconcile.ReviewConflict}}); err != nil || n.N != 10 {
		t.Errorf("%v conflicts, %v", n, err)
	}
}
