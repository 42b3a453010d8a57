package attempts_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"executor/outcome"
)

// TestLostUnderUnreadableProfile: the process that made an attempt is dead, and
// the one that takes over cannot read the profile's version any more. Such a
// profile promises nothing: the attempt is closed, nothing is sent again.
func TestLostUnderUnreadableProfile(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, func(_ http.ResponseWriter, r *http.Request, _ string, _ int) { hang(r, nil) })
	a := startMortal(t, pool, options{})
	a.apply(t, brief("up", up.URL, time.Second, ""))
	c := a.submit(t, order("keyed", "pay"))
	eventually(t, "the request", func() bool { return len(up.all()) == 1 })
	a.proxy.Cut()
	if _, err := pool.Exec(context.Background(), `UPDATE upstream_versions SET source = 'version: 0'`); err != nil {
		t.Fatal(err)
	}
	b := startProcess(t, pool, options{leaseTTL: shortLease})
	if got := b.final(t, c.ID); got.State != outcome.StateUnresolved || got.Outcome.StoppedBy != outcome.ReasonMaxAttempts {
		t.Errorf("ended %s, stopped by %s", got.State, got.Outcome.StoppedBy)
	}
	if n := len(up.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}
