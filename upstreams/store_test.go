package upstreams_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/upstreams"
)

const source = `
version: 1
upstream: ledger
tenant: %s
base_url: https://ledger.example
description: %s
retry: {budget: {burst: %d}}
operations:
  pay: {method: POST, path: /payments}
`

func profile(t testing.TB, tenant, description string, burst int) *upstreams.Profile {
	t.Helper()
	p, err := upstreams.Parse("ledger.yaml", fmt.Appendf(nil, source, tenant, description, burst))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func apply(t testing.TB, s *upstreams.Store, p *upstreams.Profile) (upstreams.Upstream, bool) {
	t.Helper()
	u, changed, err := s.Apply(context.Background(), p, audit.By{Actor: "anna"})
	if err != nil {
		t.Fatal(err)
	}
	return u, changed
}

func TestApplyMakesVersions(t *testing.T) {
	ctx, pool := context.Background(), testkit.Database(t)
	s := upstreams.NewStore(pool)

	first, changed := apply(t, s, profile(t, "acme", "one", 20))
	if !changed || first.Version != 1 || first.BudgetTokens != 20 || first.Tenant != "acme" || first.Name != "ledger" || first.Profile.Description != "one" {
		t.Fatalf("first: %+v, changed %v", first, changed)
	}
	if again, changed := apply(t, s, profile(t, "acme", "one", 20)); changed || again.Version != 1 || again.ID != first.ID {
		t.Errorf("the same source made version %d", again.Version)
	}
	second, changed := apply(t, s, profile(t, "acme", "two", 5))
	if !changed || second.Version != 2 || second.ID != first.ID || second.BudgetTokens != 5 {
		t.Errorf("second: %+v, changed %v", second, changed)
	}
	if back, changed := apply(t, s, profile(t, "acme", "one", 20)); !changed || back.Version != 3 || back.BudgetTokens != 5 {
		t.Errorf("back to the first source: %+v, changed %v", back, changed)
	}
	other, _ := apply(t, s, profile(t, "zeta", "other", 20))
	if other.ID == first.ID || other.Version != 1 {
		t.Errorf("another tenant's: %+v", other)
	}

	versions, err := s.Versions(ctx, "acme", "ledger")
	if err != nil || len(versions) != 3 || versions[0].Version != 3 || versions[2].AppliedBy != "anna" || len(versions[1].SHA256) != 32 {
		t.Errorf("versions: %+v %v", versions, err)
	}
	pinned, err := upstreams.NewStore(pool).Profile(ctx, first.ID, 2)
	if err != nil || pinned.Description != "two" {
		t.Errorf("version 2: %+v %v", pinned, err)
	}
	mine, err := s.List(ctx, "acme")
	if err != nil || len(mine) != 1 || mine[0].Version != 3 {
		t.Errorf("list: %+v %v", mine, err)
	}
	all, err := s.All(ctx)
	if err != nil || len(all) != 2 {
		t.Errorf("all: %+v %v", all, err)
	}
	byID, err := s.ByID(ctx, other.ID)
	if err != nil || byID.Tenant != "zeta" {
		t.Errorf("by id: %+v %v", byID, err)
	}
}

// A throttle outlasts a new version, unless that says that there is none.
func TestApplyEndsAThrottle(t *testing.T) {
	pool := testkit.Database(t)
	s := upstreams.NewStore(pool)
	apply(t, s, profile(t, "acme", "one", 20))
	if _, err := pool.Exec(t.Context(), `UPDATE upstreams SET throttled_until = now() + interval '30 days'`); err != nil {
		t.Fatal(err)
	}
	if u, _ := apply(t, s, profile(t, "acme", "two", 20)); u.ThrottledUntil == nil {
		t.Error("another version ended the throttle")
	}
	without := strings.Replace(source, "retry: {", "retry: {throttle_pauses_upstream: false, ", 1)
	p, err := upstreams.Parse("ledger.yaml", fmt.Appendf(nil, without, "acme", "three", 20))
	if err != nil {
		t.Fatal(err)
	}
	if u, _ := apply(t, s, p); u.ThrottledUntil != nil {
		t.Errorf("still throttled until %s", u.ThrottledUntil)
	}
}

func TestNotFound(t *testing.T) {
	ctx, s := context.Background(), upstreams.NewStore(testkit.Database(t))
	u, _ := apply(t, s, profile(t, "acme", "one", 20))
	calls := map[string]func() error{
		"get":      func() error { _, err := s.Get(ctx, "zeta", "ledger"); return err },
		"latest":   func() error { _, err := s.Latest(ctx, "zeta", "ledger"); return err },
		"id":       func() error { _, err := s.ByID(ctx, u.ID+1); return err },
		"version":  func() error { _, err := s.Profile(ctx, u.ID, 2); return err },
		"versions": func() error { _, err := s.Versions(ctx, "acme", "other"); return err },
		"pause": func() error {
			_, err := s.Pause(ctx, "zeta", "ledger", audit.By{Actor: "anna", Reason: "why"})
			return err
		},
		"resume": func() error { _, err := s.Resume(ctx, "zeta", "ledger", audit.By{Actor: "anna"}); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, upstreams.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPause(t *testing.T) {
	ctx, s := context.Background(), upstreams.NewStore(testkit.Database(t))
	apply(t, s, profile(t, "acme", "one", 20))
	if u, err := s.Latest(ctx, "acme", "ledger"); err != nil || u.PausedAt != nil {
		t.Fatalf("before: %+v %v", u, err)
	}
	paused, err := s.Pause(ctx, "acme", "ledger", audit.By{Actor: "anna", Reason: "maintenance"})
	if err != nil || paused.PausedAt == nil || paused.PausedBy != "anna" || paused.PausedReason != "maintenance" {
		t.Fatalf("paused: %+v %v", paused, err)
	}
	again, err := s.Pause(ctx, "acme", "ledger", audit.By{Actor: "bert", Reason: "still"})
	if err != nil || !again.PausedAt.Equal(*paused.PausedAt) || again.PausedBy != "bert" {
		t.Errorf("paused again: %+v %v", again, err)
	}
	if u, err := s.Latest(ctx, "acme", "ledger"); err != nil || u.PausedReason != "still" {
		t.Errorf("Latest does not know of the pause: %+v %v", u, err)
	}
	if u, _ := apply(t, s, profile(t, "acme", "two", 20)); u.PausedAt == nil {
		t.Error("a new version ended the pause")
	}
	resumed, err := s.Resume(ctx, "acme", "ledger", audit.By{Actor: "anna"})
	if err != nil || resumed.PausedAt != nil || resumed.PausedBy != "" || resumed.PausedReason != "" {
		t.Errorf("resumed: %+v %v", resumed, err)
	}
}

// TestConcurrentApply: racing appliers make one version for each source, without
// gaps, and the newest is one of theirs.
func TestConcurrentApply(t *testing.T) {
	ctx, pool := context.Background(), testkit.Database(t)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			p := profile(t, "acme", fmt.Sprintf("description %d", i/4), 20)
			if _, _, err := upstreams.NewStore(pool).Apply(ctx, p, audit.By{Actor: "anna"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	versions, err := upstreams.NewStore(pool).Versions(ctx, "acme", "ledger")
	if err != nil || len(versions) < 4 || versions[0].Version != len(versions) {
		t.Fatalf("versions: %+v %v", versions, err)
	}
	for i := 1; i < len(versions); i++ {
		if string(versions[i].SHA256) == string(versions[i-1].SHA256) {
			t.Errorf("versions %d and %d have one source", versions[i].Version, versions[i-1].Version)
		}
	}
}

// TestLatestIsShared: many callers ask, few queries are made, and what another
// store applies is seen.
func TestLatestIsShared(t *testing.T) {
	ctx, pool := context.Background(), testkit.Database(t)
	mine, other := upstreams.NewStore(pool), upstreams.NewStore(pool)
	apply(t, mine, profile(t, "acme", "one", 20))
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if u, err := mine.Latest(ctx, "acme", "ledger"); err != nil || u.Version != 1 {
				t.Errorf("%+v %v", u, err)
			}
		})
	}
	wg.Wait()
	apply(t, other, profile(t, "acme", "two", 20))
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.After(time.Minute); ; {
		u, err := mine.Latest(ctx, "acme", "ledger")
		if err != nil {
			t.Fatal(err)
		}
		if u.Version == 2 {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatal("the other store's version was never seen")
		}
	}
}

// TestBrokenVersion: a row that cannot be read any more names itself.
func TestBrokenVersion(t *testing.T) {
	ctx, pool := context.Background(), testkit.Database(t)
	u, _ := apply(t, upstreams.NewStore(pool), profile(t, "acme", "one", 20))
	exec(t, pool, `UPDATE upstream_versions SET source = 'version: 2'`)
	_, err := upstreams.NewStore(pool).Get(ctx, "acme", "ledger")
	if err == nil || errors.Is(err, upstreams.ErrNotFound) || !strings.Contains(err.Error(), fmt.Sprintf("version 1 of upstream %d", u.ID)) {
		t.Errorf("%v", err)
	}
}

// TestApplyIsAllOrNothing: a version that cannot be written leaves no upstream.
func TestApplyIsAllOrNothing(t *testing.T) {
	ctx, pool := context.Background(), testkit.Database(t)
	exec(t, pool, `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON upstream_versions FOR EACH ROW EXECUTE FUNCTION refuse()`)
	s := upstreams.NewStore(pool)
	if _, _, err := s.Apply(ctx, profile(t, "acme", "one", 20), audit.By{Actor: "anna"}); err == nil {
		t.Fatal("applied")
	}
	if all, err := s.All(ctx); err != nil || len(all) != 0 {
		t.Errorf("left: %+v %v", all, err)
	}
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}
