package attempts_test

import (
	"testing"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestRestoredBackups: a base backup is taken before commands are sent, and comes to
// life afterwards: elsewhere, as a restore from an archive and as a copy of another
// deployment, and in the place of the original under a living process. None of them
// sends anything, and what is not safe to repeat is not sent again on resume either.
func TestRestoredBackups(t *testing.T) {
	t.Parallel()
	server := testkit.Cluster(t)
	pool := server.Database()
	adopt(t, pool)
	up := newLedger(t, always(201, paid))
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", up.URL, short, ""))
	unkeyed, keyed := front.submit(t, order("unkeyed", "charge")).ID, front.submit(t, order("keyed", "pay")).ID
	elsewhere, inPlace := server.Backup(), server.Backup()
	p := startProcess(t, testkit.Open(t, server.URL), options{leaseTTL: shortLease})
	p.final(t, unkeyed)
	p.final(t, keyed)

	elsewhere.Restore(true)
	restored := testkit.Open(t, elsewhere.URL)
	foreign := startProcess(t, restored, options{expected: "staging"})
	foreign.waitsFor(t, unkeyed, commands.WaitFrozen)
	foreign.stop()
	own := attempts.NewDeployment(restored, "test", nil)
	if state, err := own.Check(t.Context(), "test", false); err != nil || !state.Frozen() || !state.Doubtful || state.Foreign() {
		t.Errorf("restored elsewhere: %+v, %v", state, err)
	}

	server.Stop()
	inPlace.TakePlaceOf(server)
	inPlace.Restore(false)
	pool.Reset()
	deployment := p.engine.Deployment()
	eventually(t, "the freeze", func() bool {
		state, err := deployment.Show(t.Context())
		return err == nil && state.Frozen() && state.Doubtful && !state.Moved
	})
	if n := len(up.all()); n != 2 {
		t.Errorf("%d requests before anybody resumed, want the 2 of the original", n)
	}
	if _, err := deployment.Resume(t.Context(), audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if c := p.final(t, unkeyed); c.State != outcome.StateUnresolved || len(up.of("unkeyed")) != 1 {
		t.Errorf("after the resume the one without a key is %s, sent %d times", c.State, len(up.of("unkeyed")))
	}
	if c := p.final(t, keyed); c.State != outcome.StateSuccess || len(up.of("keyed")) != 2 {
		t.Errorf("after the resume the keyed one is %s, sent %d times", c.State, len(up.of("keyed")))
	}
}
