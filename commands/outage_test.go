package commands_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestDatabaseAway: whoever asks is told that asking again helps, and a caller
// that went away is told nothing else.
func TestDatabaseAway(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "pay")).ID
	calls := func(ctx context.Context) map[string]func() error {
		return map[string]func() error{
			"submit":   func() error { _, err := r.store.Submit(ctx, submission("other", "pay")); return err },
			"dry run":  func() error { _, err := r.store.DryRun(ctx, submission("k", "pay")); return err },
			"get":      func() error { _, err := r.store.Get(ctx, tenant, id); return err },
			"list":     func() error { _, _, err := r.store.List(ctx, commands.Filter{Tenant: tenant}); return err },
			"cancel":   func() error { _, _, err := r.store.Cancel(ctx, tenant, id, audit.By{Actor: "caller"}); return err },
			"attempts": func() error { _, err := r.store.Attempts(ctx, tenant, id); return err },
			"events":   func() error { _, err := r.store.Events(ctx, tenant, id); return err },
			"overdue":  func() error { _, err := r.store.CloseOverdue(ctx); return err },
			"heal":     func() error { _, err := r.store.Heal(ctx); return err },
			"park":     func() error { return r.store.Park(ctx, id, commands.WaitCredential, time.Minute) },
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range calls(gone) {
		if err := call(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: %v", name, err)
		}
	}
	r.pool.Close()
	for name, call := range calls(t.Context()) {
		if err := call(); !errors.Is(err, commands.ErrUnavailable) {
			t.Errorf("%s, the database away: %v", name, err)
		}
	}
}

// TestUnknownCommits: a submit or a cancel whose COMMIT is lost says so, and a
// repeat finds out. No batch item is told more than is known.
func TestUnknownCommits(t *testing.T) {
	for name, fate := range map[string]testkit.Fate{"never made": {LoseRequest: true}, "made": {LoseReply: true}} {
		t.Run(name, func(t *testing.T) {
			plain := testkit.Database(t)
			proxy := testkit.NewProxy(t, plain.Config().ConnString())
			r := newRigOn(t, testkit.Open(t, proxy.URL))
			room := &starter{epoch: r.lease(t, "live", true), room: 5}
			r.store.SetStarter(room)
			first := r.submit(t, submission("first", "pay"))
			lose := func() { proxy.OnCommit(func(testkit.Commit) testkit.Fate { return fate }) }
			mend := func() { proxy.OnCommit(nil) }

			lose()
			if _, err := r.store.Submit(t.Context(), submission("k", "pay")); !errors.Is(err, commands.ErrUnavailable) {
				t.Errorf("submit: %v", err)
			}
			for i, res := range r.store.SubmitBatch(t.Context(), []commands.Submission{submission("a", "pay"), submission("b", "pay")}) {
				if !errors.Is(res.Err, commands.ErrUnavailable) {
					t.Errorf("item %d: %+v", i, res)
				}
			}
			if _, _, err := r.store.Cancel(t.Context(), tenant, first.ID, audit.By{Actor: "caller"}); !errors.Is(err, commands.ErrUnavailable) {
				t.Errorf("cancel: %v", err)
			}
			mend()
			if len(room.launched) != 1 || room.room != 4 {
				t.Errorf("%d launched, room for %d", len(room.launched), room.room)
			}
			made := fate.LoseReply
			for _, key := range []string{"k", "a", "b"} {
				if a, err := r.store.Submit(t.Context(), submission(key, "pay")); err != nil || a.Replayed != made {
					t.Errorf("%s again: replayed %v, %v", key, a.Replayed, err)
				}
			}
			want := commands.CancelCancelled
			if made {
				want = commands.CancelTooLate
			}
			if c, result, err := r.store.Cancel(t.Context(), tenant, first.ID, audit.By{Actor: "caller"}); err != nil || result != want || c.State != outcome.StateCancelled {
				t.Errorf("cancel again: %s, %v", result, err)
			}
			if n := r.count(t, `SELECT count(*) FROM commands`); n != 4 {
				t.Errorf("%d commands, want 4", n)
			}
		})
	}
}
