package upstreams_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/upstreams"
)

// onRecord is what a sound chain says, the oldest first.
func onRecord(t *testing.T, pool *pgxpool.Pool, tenant string) (lines []string) {
	t.Helper()
	report, err := audit.Verify(t.Context(), pool, "")
	if err != nil || !report.Sound() {
		t.Fatal(report, err)
	}
	entries, _, err := audit.List(t.Context(), pool, audit.Filter{Tenant: tenant, Limit: audit.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		lines = append(lines, fmt.Sprintf("%s, %s → %s", e, e.Before, e.After))
	}
	return lines
}

func TestWhatPeopleDoToAnUpstreamIsOnRecord(t *testing.T) {
	ctx, pool := t.Context(), testkit.Database(t)
	s := upstreams.NewStore(pool)
	for _, do := range []func() error{
		func() error {
			_, _, err := s.Apply(ctx, profile(t, "acme", "one", 20), audit.By{Actor: "ann", Reason: "new"})
			return err
		},
		func() error {
			_, _, err := s.Apply(ctx, profile(t, "acme", "one", 20), audit.By{Actor: "bert"})
			return err
		},
		func() error {
			_, _, err := s.Apply(ctx, profile(t, "acme", "two", 20), audit.By{Actor: "bert"})
			return err
		},
		func() error { _, err := s.Resume(ctx, "acme", "ledger", audit.By{Actor: "ann"}); return err },
		func() error {
			_, err := s.Pause(ctx, "acme", "ledger", audit.By{Actor: "ann", Reason: "down"})
			return err
		},
		func() error {
			_, err := s.Pause(ctx, "acme", "ledger", audit.By{Actor: "ann", Reason: "down"})
			return err
		},
		func() error {
			_, err := s.Pause(ctx, "acme", "ledger", audit.By{Actor: "bert", Reason: "still"})
			return err
		},
		func() error {
			_, err := s.Resume(ctx, "acme", "ledger", audit.By{Actor: "ann", Reason: "up"})
			return err
		},
		func() error {
			_, err := s.Resume(ctx, "acme", "ledger", audit.By{Actor: "ann", Reason: "up"})
			return err
		},
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Pause(ctx, "acme", "other", audit.By{Actor: "ann"}); err == nil {
		t.Error("an unknown upstream was paused")
	}
	want := []string{
		`1 profile.apply ledger by ann: new,  → {"version":1}`,
		`2 profile.apply ledger by bert: , {"version":1} → {"version":2}`,
		`3 upstream.pause ledger by ann: down, {"paused":false} → {"paused":true,"paused_by":"ann","paused_reason":"down"}`,
		`4 upstream.pause ledger by bert: still, {"paused":true,"paused_by":"ann","paused_reason":"down"} → {"paused":true,"paused_by":"bert","paused_reason":"still"}`,
		`5 upstream.resume ledger by ann: up, {"paused":true,"paused_by":"bert","paused_reason":"still"} → {"paused":false}`,
	}
	if diff := cmp.Diff(want, onRecord(t, pool, "acme")); diff != "" {
		t.Error(diff)
	}
}

// TestWhatIsNotOnRecordDidNotHappen: without its entry a deed is undone.
func TestWhatIsNotOnRecordDidNotHappen(t *testing.T) {
	ctx, pool := t.Context(), testkit.Database(t)
	s := upstreams.NewStore(pool)
	apply(t, s, profile(t, "acme", "one", 20))
	exec(t, pool, `ALTER TABLE audit ADD CHECK (number < 2)`)
	if _, err := s.Pause(ctx, "acme", "ledger", audit.By{Actor: "ann"}); err == nil {
		t.Error("paused")
	}
	if _, _, err := s.Apply(ctx, profile(t, "acme", "two", 20), audit.By{Actor: "ann"}); err == nil {
		t.Error("applied")
	}
	if u, err := s.Get(ctx, "acme", "ledger"); err != nil || u.PausedAt != nil || u.Version != 1 {
		t.Errorf("%+v, %v", u, err)
	}
	if got := onRecord(t, pool, "acme"); len(got) != 1 {
		t.Error(got)
	}
}

// TestManyPauseAtOnce: one that changes nothing leaves no entry, and each entry
// begins where the one before ended.
func TestManyPauseAtOnce(t *testing.T) {
	pool := testkit.Database(t)
	apply(t, upstreams.NewStore(pool), profile(t, "acme", "one", 20))
	var each sync.WaitGroup
	for range 8 {
		each.Go(func() {
			_, err := upstreams.NewStore(pool).Pause(context.Background(), "acme", "ledger", audit.By{Actor: "ann", Reason: "down"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	each.Wait()
	if got := onRecord(t, pool, "acme"); len(got) != 2 {
		t.Errorf("%d entries: %q", len(got), got)
	}
}
