package attempts_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/outcome"
)

// stopping stops a process and tells when that is over, and how.
func (p *process) stopping() <-chan error {
	engine := p.engine
	p.engine = nil
	done := make(chan error, 1)
	go func() { done <- engine.Stop(context.Background()) }()
	return done
}

// draining waits until a process takes up nothing more: what it accepts goes to
// the queue.
func draining(t testing.TB, pool *pgxpool.Pool, p *process) (queued []uuid.UUID) {
	t.Helper()
	eventually(t, "the drain", func() bool {
		id := p.submit(t, order(uuid.NewString(), "pay")).ID
		queued = append(queued, id)
		return count(t, pool, `SELECT count(*) AS n FROM commands WHERE id = $1 AND job_id IS NOT NULL`, id) == 1
	})
	return queued
}

// TestDrain: a process that stops finishes and records what it has on the wire,
// and hands back what waits.
func TestDrain(t *testing.T) {
	t.Parallel()
	pool := database(t)
	release := make(chan struct{})
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		if hang(r, release) {
			reply(w, 201, paid)
		}
	})
	a := startProcess(t, pool, options{})
	a.apply(t, brief("up", up.URL, time.Minute, "limits: {max_in_flight: 4}"))
	var ids []uuid.UUID
	for i := range 10 {
		ids = append(ids, a.submit(t, order(fmt.Sprintf("k%d", i), "charge")).ID)
	}
	eventually(t, "requests on the wire", func() bool { return len(up.all()) == 4 })
	stopped := a.stopping()
	ids = append(ids, draining(t, pool, a)...)
	close(release)
	if err := <-stopped; err != nil {
		t.Errorf("stop: %v", err)
	}
	states := map[outcome.State]int{}
	for _, c := range commandsIn(t, pool) {
		states[c.State]++
	}
	if states[outcome.StateSuccess] != 4 || states[outcome.StatePending] != len(ids)-4 || len(up.all()) != 4 {
		t.Errorf("after the stop %d were sent: %v", len(up.all()), states)
	}
	b := startProcess(t, pool, options{})
	for _, id := range ids {
		if c := b.final(t, id); c.State != outcome.StateSuccess || c.Attempts != 1 {
			t.Errorf("%s ended %s after %d attempts", c.Key, c.State, c.Attempts)
		}
	}
	up.verify(t, pool)
}

// TestDrainBound: an upstream that stalls does not hold up the stop. Others take
// the attempt over, whatever is left of its lease.
func TestDrainBound(t *testing.T) {
	t.Parallel()
	pool := database(t)
	never := make(chan struct{})
	up := newLedger(t, func(_ http.ResponseWriter, r *http.Request, _ string, _ int) { hang(r, never) })
	a := startProcess(t, pool, options{drain: time.Second})
	a.apply(t, brief("up", up.URL, time.Minute, ""))
	id := a.submit(t, order("k", "charge")).ID
	eventually(t, "the request", func() bool { return len(up.all()) == 1 })
	if err := <-a.stopping(); err == nil {
		t.Error("the stop does not say that an attempt was on the wire")
	}
	if _, err := pool.Exec(context.Background(), `DELETE FROM leases`); err != nil { // not even its lease is left
		t.Fatal(err)
	}
	b := startProcess(t, pool, options{leaseTTL: shortLease})
	c := b.final(t, id)
	if list := b.attempts(t, id); c.State != outcome.StateUnresolved || len(list) != 1 || list[0].Category != outcome.CategoryExecutorLost {
		t.Errorf("ended %s: %s", c.State, evidences(list))
	}
	up.verify(t, pool)
}

// TestStopWithoutDatabase: neither does a database whose connections stand still.
func TestStopWithoutDatabase(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, always(201, paid))
	p, proxy := startBehind(t, pool, up, options{leaseTTL: shortLease, drain: time.Second})
	defer proxy.Cut() // what stands still would hold up the pool's end
	stalled := proxy.StallAt(finishing)
	id := p.submit(t, order("k", "charge")).ID
	<-stalled
	proxy.Stall()
	select {
	case <-p.stopping():
	case <-time.After(patience):
		t.Errorf("the stop takes longer than %s", patience)
	}
	b := startProcess(t, pool, options{leaseTTL: shortLease})
	if c := b.final(t, id); c.State != outcome.StateUnresolved {
		t.Errorf("ended %s", c.State)
	}
}
