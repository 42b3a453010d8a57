package attempts_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"executor/outcome"
)

// TestEarlyJob: a job that comes before its command is due spends nothing on it,
// least of all an attempt: Retry-After is kept though the upstream is gone by then.
func TestEarlyJob(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	front.apply(t, profileOf("up", up.URL, ""))
	s := submission("k", "pay")
	s.Timeout = time.Hour
	id := front.submit(t, s).ID
	p := startProcess(t, pool, options{})
	eventually(t, "the 503", func() bool {
		list := p.attempts(t, id)
		return len(list) == 1 && list[0].EndedAt != nil
	})
	up.Close()
	ctx := context.Background()
	if _, err := pool.Exec(ctx, `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE state = 'scheduled'`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the early job's return to the queue", func() bool {
		var snoozed bool
		err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE state = 'scheduled' AND (metadata ->> 'snoozes')::int > 0)`).Scan(&snoozed)
		return err == nil && snoozed
	})
	if c, err := p.commands.Get(ctx, "default", id); err != nil || c.State != outcome.StatePending || c.Attempts != 1 {
		t.Errorf("%s after %d attempts, %v", c.State, c.Attempts, err)
	}
}

// TestHeldRow: a row of one upstream that somebody holds does not hold up another
// upstream's commands.
func TestHeldRow(t *testing.T) {
	t.Parallel()
	pool := database(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	slow := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		close(arrived)
		<-release
		w.WriteHeader(http.StatusCreated)
	})
	fast := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusCreated) })
	p := startProcess(t, pool, options{})
	p.apply(t, brief("slow", slow.URL, 30*time.Second, ""))
	p.apply(t, brief("fast", fast.URL, 30*time.Second, ""))
	held := submission("held", "charge")
	held.Upstream = "slow"
	id := p.submit(t, held).ID
	<-arrived
	ctx := context.Background()
	tx, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM commands WHERE id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
	close(release)
	other := submission("other", "charge")
	other.Upstream = "fast"
	if c := p.final(t, p.submit(t, other).ID); c.State != outcome.StateSuccess {
		t.Errorf("the other upstream's command ended %s", c.State)
	}
	if c, err := p.commands.Get(ctx, "default", id); err != nil || c.Final() {
		t.Errorf("the held command is %s, %v", c.State, err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if c := p.final(t, id); c.State != outcome.StateSuccess {
		t.Errorf("the held command ended %s", c.State)
	}
}
