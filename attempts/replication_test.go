package attempts_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestCancelledReplication: the synchronous standby is away, and whoever waits for it
// is cancelled, so that the primary calls everything committed that the standby does
// not have. Nothing counts as accepted then, nothing is sent under such a commit, and
// what was seen is recorded again and again, until the standby that took over has it.
func TestCancelledReplication(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers := testkit.NewReplication(t, true)
	pool := servers.Database()
	adopt(t, pool)
	answer := make(chan struct{})
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, key string, _ int) {
		if key != "sent" || hang(r, answer) {
			reply(w, 201, paid)
		}
	})
	p := startProcess(t, testkit.Open(t, servers.URL), options{})
	p.apply(t, brief("up", up.URL, ample, ""))
	sent := p.submit(t, order("sent", "charge")).ID
	eventually(t, "the request", func() bool { return len(up.all()) == 1 })
	servers.Standby.Stop()
	stop := servers.Primary.CancelWaits()
	for range 2 { // the second one finds the command of the first
		if a, err := p.commands.Submit(ctx, order("doubtful", "charge")); !errors.Is(err, commands.ErrUnavailable) {
			t.Errorf("submit while commits are not replicated: replayed %t, %v; want it unavailable", a.Replayed, err)
		}
	}
	seen := func(what, sql string) {
		t.Helper()
		eventually(t, what, func() bool {
			var yes bool
			err := pool.QueryRow(ctx, sql).Scan(&yes)
			return err == nil && yes
		})
	}
	seen("an attempt that the standby does not have", `
		SELECT EXISTS (SELECT FROM attempts JOIN commands c ON c.id = command_id WHERE idempotency_key = 'doubtful')`)
	close(answer)
	seen("an end that the standby does not have", `SELECT state = 'success' FROM commands WHERE idempotency_key = 'sent'`)
	servers.Primary.Kill()
	stop()
	servers.Standby.Start()
	servers.Promote()
	pool.Reset()

	deployment := p.engine.Deployment()
	eventually(t, "the freeze", func() bool {
		state, err := deployment.Show(ctx)
		return err == nil && state.Frozen() && state.Doubtful
	})
	if n := len(up.of("doubtful")); n != 0 {
		t.Errorf("%d requests under a commit that is lost", n)
	}
	if c := p.final(t, sent); c.State != outcome.StateSuccess || evidences(p.attempts(t, sent)) != "response_received/none/applied" {
		t.Errorf("what was seen while nothing was replicated is recorded as %s: %s", c.State, evidences(p.attempts(t, sent)))
	}
	if _, err := deployment.Resume(ctx, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	again := p.submit(t, order("doubtful", "charge")).ID
	if c := p.final(t, again); c.State != outcome.StateSuccess || len(up.of("doubtful")) != 1 {
		t.Errorf("the command that was not accepted at first is %s, sent %d times", c.State, len(up.of("doubtful")))
	}
	up.verify(t, pool)
}
