package commands_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
)

// withBacklog is a store whose tenants may have so many commands without an outcome.
func withBacklog(limit int64) func(*commands.Config) {
	return func(c *commands.Config) { c.Backlog = limit }
}

func isFull(err error) bool { return errors.As(err, new(*commands.BacklogFull)) }

// TestBacklogOfATenant: above the limit nothing is accepted, but what was accepted
// before is still answered, and others go on. Room that an outcome makes is found.
func TestBacklogOfATenant(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := newRig(t, withBacklog(3), func(c *commands.Config) { c.Registry = registry })
	r.apply(t, profile+"tenant: other\n")
	first := r.submit(t, submission("k1", "pay"))
	r.submit(t, submission("k2", "pay"))
	if a, err := r.store.Submit(t.Context(), submission("k2", "pay")); err != nil || !a.Replayed { // which takes no room
		t.Fatalf("a repeat: %+v, %v", a, err)
	}
	r.submit(t, submission("k3", "pay"))
	for _, key := range []string{"k4", "k5"} {
		if _, err := r.store.Submit(t.Context(), submission(key, "pay")); !isFull(err) {
			t.Fatalf("%s: %v, want a full backlog", key, err)
		}
	}
	if a, err := r.store.Submit(t.Context(), submission("k1", "pay")); err != nil || !a.Replayed || a.Command.ID != first.ID {
		t.Errorf("a repeat while the backlog is full: %+v, %v", a, err)
	}
	if _, err := r.store.Submit(t.Context(), submission("k1", "charge")); !errors.As(err, new(*commands.KeyMismatch)) {
		t.Errorf("another request under a known key: %v", err)
	}
	if _, err := r.store.DryRun(t.Context(), submission("k9", "pay")); err != nil {
		t.Errorf("a dry run accepts nothing: %v", err)
	}
	theirs := submission("k1", "pay")
	theirs.Tenant = "other"
	if _, err := r.store.Submit(t.Context(), theirs); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	if n := counted(t, registry, "executor_backlog_refused_total"); n != 2 {
		t.Errorf("%v refusals are counted, want 2", n)
	}
	if _, _, err := r.store.Cancel(t.Context(), tenant, first.ID, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		_, err := r.store.Submit(t.Context(), submission("k4", "pay"))
		if err == nil {
			break
		}
		if !isFull(err) || time.Now().After(deadline) {
			t.Fatalf("room was made, and is not found: %v", err)
		}
	}
	if _, err := r.store.Submit(t.Context(), submission("k5", "pay")); !isFull(err) {
		t.Errorf("one outcome made room for two: %v", err)
	}
}

// counted is the value of a counter without labels.
func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// TestBacklogUnderACrowd: many at once get no more room than there is, in one
// process; another one that looks afterwards finds it full. Folding changes nothing.
func TestBacklogUnderACrowd(t *testing.T) {
	pool := testkit.Database(t)
	r := newRigOn(t, pool, withBacklog(10))
	var accepted, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			switch _, err := r.store.Submit(t.Context(), submission(fmt.Sprint("k", i), "ping")); {
			case err == nil:
				accepted.Add(1)
			case isFull(err):
				refused.Add(1)
			default:
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
	if accepted.Load() != 10 || refused.Load() != 30 {
		t.Errorf("%d were accepted, %d refused", accepted.Load(), refused.Load())
	}
	if n, err := r.store.Fold(t.Context()); err != nil || n == 0 {
		t.Fatalf("folded %d, %v", n, err)
	}
	second := newRigOn(t, pool, withBacklog(10))
	for i, result := range second.store.SubmitBatch(t.Context(), []commands.Submission{submission("new", "ping"), submission("newer", "ping")}) {
		if !isFull(result.Err) {
			t.Errorf("item %d at another process: %+v", i, result)
		}
	}
	wider := newRigOn(t, pool, withBacklog(11))
	wider.submit(t, submission("new", "ping"))
}

// TestBacklogsThatCannotBeRead keep nobody from submitting.
func TestBacklogsThatCannotBeRead(t *testing.T) {
	r := newRig(t, withBacklog(2))
	breakReads(t, r.pool)
	r.submit(t, submission("k1", "ping"))
	r.submit(t, submission("k2", "ping"))
	if _, err := r.store.Submit(t.Context(), submission("k3", "ping")); !isFull(err) {
		t.Errorf("what this process counts by itself: %v", err)
	}
}

// breakReads makes the query of the backlogs fail, and no other.
func breakReads(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `ALTER TABLE tally_totals RENAME COLUMN stock TO stock_elsewhere`); err != nil {
		t.Fatal(err)
	}
}
