package reconcile_test

import (
	"sync/atomic"
	"testing"

	"executor/internal/testkit"
	"executor/reconcile"
)

// TestTheCommitsAnswerIsLost: whoever asks again, as they have to, does nothing a
// second time.
func TestTheCommitsAnswerIsLost(t *testing.T) {
	plain := testkit.Database(t)
	proxy := testkit.NewProxy(t, plain.Config().ConnString())
	d := newDeskOn(t, plain)
	behind := desk{newRigOn(t, testkit.Open(t, proxy.URL))}
	for name, do := range behind.everyAction() {
		if name == reconcile.ActionResend || name == reconcile.ActionCorrect || name == reconcile.ActionDismiss {
			continue // refused for a keyless command in doubt
		}
		for again, fate := range map[string]testkit.Fate{"done": {LoseRequest: true}, "stale": {LoseReply: true}} {
			id := d.waiting(t, "charge")
			a := d.by(t, id)
			var lost atomic.Bool
			proxy.OnCommit(func(c testkit.Commit) testkit.Fate {
				if c.Did("INSERT INTO audit") && lost.CompareAndSwap(false, true) {
					return fate
				}
				return testkit.Fate{}
			})
			if got := code(do(t.Context(), a)); got != "unavailable" {
				t.Errorf("%s: %s", name, got)
			}
			if got := code(do(t.Context(), a)); got != again {
				t.Errorf("%s again: %s, want %s", name, got, again)
			}
			if entries := d.entries(t, id); len(entries) != 1 || d.get(t, id).Version != a.Version+1 {
				t.Errorf("%s: %d entries in the audit, version %d after %d", name, len(entries), d.get(t, id).Version, a.Version)
			}
		}
	}
	d.sound(t)
}

// TestABulkActionWithLostCommits: nobody hears of any first commit of an item.
func TestABulkActionWithLostCommits(t *testing.T) {
	plain := testkit.Database(t)
	proxy := testkit.NewProxy(t, plain.Config().ConnString())
	d := newDeskOn(t, plain)
	behind := desk{newRigOn(t, testkit.Open(t, proxy.URL))}
	const n = 8
	for range n {
		d.waiting(t, "transfer")
	}
	r := rejectTransfers()
	if _, err := d.store.StartBulk(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var items atomic.Int32
	proxy.OnCommit(func(c testkit.Commit) testkit.Fate {
		if !c.Did("UPDATE bulk_items SET result") {
			return testkit.Fate{}
		}
		i := items.Add(1)
		return testkit.Fate{LoseReply: i%2 == 0, LoseRequest: i%3 == 1}
	})
	behind.work(t)
	eventually(t, "the end", func() bool {
		d.exec(t, `UPDATE bulk_items SET next_at = now() WHERE result = 'pending'`) // instead of waiting for the claims to end
		return d.bulk(t, r.ID).State == reconcile.BulkStateDone
	})
	b := d.bulk(t, r.ID)
	if b.Done != n {
		t.Errorf("%+v", b)
	}
	for _, i := range b.Items {
		if got := d.deeds(t, i.Command); got != "command.resolve" || d.get(t, i.Command).Outcome.Sequence != 2 {
			t.Errorf("%s: audit %s", i.Command, got)
		}
	}
	d.sound(t)
}
