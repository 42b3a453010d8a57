package reconcile_test

import (
	"net/http"
	"sync"
	"testing"

	"executor/attempts"
	"executor/internal/audit"
	"executor/outcome"
)

// TestARestoreStartsTheSettleTimeAnew: a command in doubt may have been sent once
// more, and the record of that be what the restore lost. What is not found a moment
// later proves nothing, whoever resumes how often.
func TestARestoreStartsTheSettleTimeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, nothing) })
	r.apply(t, profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 1h, confirmations: 1, spacing: 0s}"), ""))
	id := r.unresolved(t, "k1", lost)
	open := r.submit(t, "open").ID
	r.begin(t, open, lost)
	r.exec(t, `UPDATE attempts SET started_at = started_at - interval '1 day', latest_end = latest_end - interval '1 day'`)
	r.deployment(t, "test")
	deployment := attempts.OpenDeployment(r.pool, "test", r.commands, r.ups)
	if _, err := deployment.Doubt(t.Context(), audit.By{Actor: "test", Reason: "restored"}); err != nil {
		t.Fatal(err)
	}
	meanwhile := r.unresolved(t, "k2", lost)
	var operators sync.WaitGroup
	for range 4 {
		operators.Go(func() {
			if _, err := deployment.Resume(t.Context(), audit.By{Actor: "test"}); err != nil {
				t.Errorf("resume: %v", err)
			}
		})
	}
	operators.Wait()
	if c, other := r.get(t, id), r.get(t, meanwhile); c.State != outcome.StateUnresolved || c.Attempts != 2 || c.Sequence != 1 || other.Attempts != 1 {
		t.Errorf("%s after %d attempts and %d outcomes; %d attempts of the one from during the freeze", c.State, c.Attempts, c.Sequence, other.Attempts)
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE command_id = $1 AND latest_end > (SELECT created_at FROM commands WHERE id = $2)`, open, meanwhile); n != 1 {
		t.Error("whatever followed the open attempt is forgotten")
	}
	r.start(t)
	eventually(t, "a round", func() bool { return r.findings(t, id) != "" })
	if n := r.count(t, `SELECT count(*) FROM lookups WHERE command_id = $1 AND counts`, id); n != 0 {
		t.Error("an absence of a moment after the restore counts")
	}
	if c := r.get(t, id); c.State != outcome.StateUnresolved {
		t.Errorf("the command is %s", c.State)
	}
}
