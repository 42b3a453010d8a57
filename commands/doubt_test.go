package commands_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/internal/audit"
	"executor/outcome"
)

// TestALostAttemptMayBeUnderWay: where the record of an attempt may be lost, nothing
// of its command is sent again before that attempt must have ended, whichever way it
// was counted, and whoever allows it.
func TestALostAttemptMayBeUnderWay(t *testing.T) {
	r := newRig(t)
	overdue, cancelled := r.submit(t, submission("overdue", "pay")).ID, r.submit(t, submission("cancelled", "pay")).ID
	unresolved := r.submit(t, submission("unresolved", "pay")).ID
	r.attempt(t, unresolved, lost, outcome.StateUnresolved)
	r.exec(t, `INSERT INTO deployment (id, system_identifier, timeline, frozen_at, doubtful) VALUES ('test', '', 1, now(), true)`)
	r.exec(t, `UPDATE commands SET deadline = now() WHERE id = $1`, overdue)
	if n, err := r.store.CloseOverdue(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, _, err := r.store.Cancel(t.Context(), tenant, cancelled, audit.By{Actor: "caller"}); err != nil {
		t.Fatal(err)
	}
	check := func(what string, id uuid.UUID) {
		t.Helper()
		var held bool
		r.scan(t, `SELECT coalesce(blocked_until > frozen_at + interval '5 seconds', false) FROM commands, deployment WHERE commands.id = $1`, []any{id}, &held)
		if !held {
			t.Errorf("the %s one may be sent again at once", what)
		}
	}
	check("overdue", overdue)
	check("cancelled", cancelled)
	if n, err := r.store.CountAsSent(t.Context(), time.Now().Add(time.Hour)); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	check("unresolved", unresolved)
}
