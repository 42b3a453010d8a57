package webhooks_test

import (
	"errors"
	"testing"

	"executor/internal/groupcommit"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestNobodyIsToldOfWhatMayBeLost: an outcome that the synchronous standby does not
// have is told to nobody, though the primary shows it.
func TestNobodyIsToldOfWhatMayBeLost(t *testing.T) {
	t.Parallel()
	server := testkit.Cluster(t)
	r := newRigOn(t, server.Database())
	r.endpoint(t, "http://127.0.0.1:4242/hook")
	id := r.submit(t, "k")
	server.Alone()
	stop := server.CancelWaits()
	r.end(t, id, outcome.StateSuccess)
	if n, err := r.hooks.Claim(t.Context()); n != 0 || !errors.Is(err, groupcommit.ErrUnknown) {
		t.Errorf("%d deliveries, %v; want none, for what is not replicated", n, err)
	}
	server.Set("synchronous_standby_names", "")
	stop()
	if _, err := r.pool.Exec(t.Context(), `UPDATE webhook_deliveries SET claimed_until = now()`); err != nil {
		t.Fatal(err)
	}
	if n, err := r.hooks.Claim(t.Context()); n != 1 || err != nil {
		t.Errorf("%d deliveries, %v, once it is replicated", n, err)
	}
}
