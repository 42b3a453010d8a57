package commands_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// TestCancelInEachState: what the caller is told, and what becomes of it.
func TestCancelInEachState(t *testing.T) {
	tests := []struct {
		name   string
		make   func(t *testing.T, r *rig, key string) uuid.UUID
		result commands.CancelResult
		state  outcome.State
		reason outcome.OutcomeReason
		event  string
	}{
		{"never sent", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.submit(t, submission(key, "pay")).ID
		}, commands.CancelCancelled, outcome.StateCancelled, outcome.OutcomeReasonCancelledByCaller, "command.cancelled"},
		{"declined, waiting", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StatePending, declined)
		}, commands.CancelCancelled, outcome.StateCancelled, outcome.OutcomeReasonCancelledByCaller, "command.cancelled"},
		{"in doubt, waiting", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StatePending, lost)
		}, commands.CancelInDoubt, outcome.StateUnresolved, outcome.OutcomeReasonNoResponse, "command.unresolved"},
		{"refused, waiting for a fresh credential", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StatePending, answered(outcome.AnswerRefused, 401))
		}, commands.CancelTooLate, outcome.StateRejected, outcome.OutcomeReasonRefused, "command.rejected"},
		{"executing", func(t *testing.T, r *rig, key string) uuid.UUID {
			id := r.submit(t, submission(key, "pay")).ID
			r.begin(t, id)
			return id
		}, commands.CancelRequested, outcome.StateExecuting, "", "command.cancel_requested"},
		{"unresolved", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateUnresolved, lost)
		}, commands.CancelInDoubt, outcome.StateUnresolved, outcome.OutcomeReasonNoResponse, "command.cancel_requested"},
		{"success", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateSuccess, applied)
		}, commands.CancelTooLate, outcome.StateSuccess, outcome.OutcomeReasonApplied, "command.success"},
		{"rejected", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateRejected, refused)
		}, commands.CancelTooLate, outcome.StateRejected, outcome.OutcomeReasonRefused, "command.rejected"},
		{"cancelled", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateCancelled, unsent)
		}, commands.CancelTooLate, outcome.StateCancelled, outcome.OutcomeReasonNeverSent, "command.cancelled"},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := tt.make(t, r, tt.name)
			before := r.get(t, id)
			c, result, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: "caller"})
			if err != nil || result != tt.result || c.State != tt.state || c.ID != id {
				t.Fatalf("%s, now %s, %v; want %s, %s", result, c.State, err, tt.result, tt.state)
			}
			if tt.reason != "" && c.Outcome.Reason != tt.reason {
				t.Errorf("reason %s, want %s", c.Outcome.Reason, tt.reason)
			}
			if c.CancelRequested == before.State.Absorbing() {
				t.Errorf("cancel requested: %v", c.CancelRequested)
			}
			if types := r.eventTypes(t, id); !strings.HasSuffix(types, tt.event) {
				t.Errorf("events %s", types)
			}
			if before.State == outcome.StatePending {
				if o := c.Outcome; o.DecidedBy != outcome.DecidedByCancel || o.StoppedBy != outcome.ReasonCancelRequested || o.SafeToResubmit != (o.State == outcome.StateCancelled) {
					t.Errorf("outcome %+v", o)
				}
			}
			again, second, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: "caller"})
			if err != nil || again.Version != c.Version || again.State != c.State {
				t.Errorf("a second time: %s, version %d after %d, %v", second, again.Version, c.Version, err)
			}
			if !c.State.Absorbing() && second != result {
				t.Errorf("a second time: %s after %s", second, result)
			}
		})
	}
	if _, _, err := r.store.Cancel(t.Context(), tenant, uuid.New(), audit.By{Actor: "caller"}); !errors.Is(err, commands.ErrNotFound) {
		t.Errorf("an unknown command: %v", err)
	}
}

// TestCancelIsOnRecord: once for each wish, and not where there was nothing to wish.
func TestCancelIsOnRecord(t *testing.T) {
	r := newRig(t)
	waiting, late := r.submit(t, submission("waiting", "pay")).ID, r.after(t, "late", "charge", outcome.StateSuccess, applied)
	under := r.submit(t, submission("under way", "pay")).ID
	r.begin(t, under)
	for _, id := range []uuid.UUID{waiting, late, under} {
		for _, who := range []string{"shop", "ann"} {
			if _, _, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: who, Reason: "a mistake"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for id, want := range map[uuid.UUID]string{
		waiting: `{"state":"pending","cancel_requested":false} {"state":"cancelled","cancel_requested":true} {"result":"cancelled"}`,
		under:   `{"state":"executing","cancel_requested":false} {"state":"executing","cancel_requested":true} {"result":"requested"}`,
		late:    "",
	} {
		list, _, err := audit.List(t.Context(), r.pool, audit.Filter{Tenant: tenant, Command: &id})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range list {
			got += fmt.Sprintf("%s %s %s", e.Before, e.After, e.Details)
			if e.Action != "command.cancel" || e.Actor != "shop" || e.Reason != "a mistake" {
				t.Errorf("%s", e)
			}
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if report, err := audit.Verify(t.Context(), r.pool, tenant); err != nil || !report.Sound() {
		t.Error(report, err)
	}
}

// TestACancelThatIsNotOnRecordDidNotHappen also where the command ended by it.
func TestACancelThatIsNotOnRecordDidNotHappen(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "pay")).ID
	if _, err := r.pool.Exec(t.Context(), `ALTER TABLE audit ADD CHECK (action <> 'command.cancel')`); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: "ann"}); !errors.Is(err, commands.ErrUnavailable) {
		t.Error(err)
	}
	if c := r.get(t, id); c.State != outcome.StatePending || c.CancelRequested {
		t.Errorf("%s, cancel requested: %v", c.State, c.CancelRequested)
	}
}

// TestCancelIsHeeded: the evidence of the attempt on the wire decides, and a
// cancel that came meanwhile shows in it.
func TestCancelIsHeeded(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		seen  ending
		state outcome.State
		why   outcome.OutcomeReason
	}{
		{applied, outcome.StateSuccess, outcome.OutcomeReasonApplied},
		{refused, outcome.StateRejected, outcome.OutcomeReasonRefused},
		{declined, outcome.StateCancelled, outcome.OutcomeReasonCancelledByCaller},
		{lost, outcome.StateUnresolved, outcome.OutcomeReasonNoResponse},
	} {
		t.Run(string(tt.state), func(t *testing.T) {
			id := r.submit(t, submission(string(tt.state), "pay")).ID
			r.begin(t, id)
			if _, _, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: "caller"}); err != nil {
				t.Fatal(err)
			}
			r.finish(t, id, tt.seen, tt.state)
			if c := r.get(t, id); c.Outcome.Reason != tt.why {
				t.Errorf("reason %s, want %s", c.Outcome.Reason, tt.why)
			}
		})
	}
}

// TestCancelWakesWaiters: it ends the command in the same request.
func TestCancelWakesWaiters(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "charge")).ID
	got := r.waiting(t, bounded(t), id)
	if _, _, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: "caller"}); err != nil {
		t.Fatal(err)
	}
	if c := <-got; c.State != outcome.StateCancelled {
		t.Errorf("woken while it is %s", c.State)
	}
}

// TestCloseOverdue ends what waits past its deadline, wherever it waits, and
// nothing else.
func TestCloseOverdue(t *testing.T) {
	r := newRig(t)
	overdue := func(id uuid.UUID) uuid.UUID {
		r.exec(t, `UPDATE commands SET deadline = now() - interval '1 second' WHERE id = $1`, id)
		return id
	}
	overdue(r.submit(t, submission("in its turn", "pay")).ID)
	r.exec(t, `UPDATE commands SET wait_for = 'credential' WHERE id = $1`, overdue(r.submit(t, submission("no secret", "pay")).ID))
	if n, err := r.store.CloseOverdue(t.Context()); err != nil || n != 2 {
		t.Fatalf("closed %d, %v; want 2", n, err)
	}
	want := map[uuid.UUID]outcome.State{
		overdue(r.submit(t, submission("never sent", "pay")).ID):                             outcome.StateCancelled,
		overdue(r.after(t, "declined", "charge", outcome.StatePending, declined)):            outcome.StateCancelled,
		overdue(r.after(t, "in doubt", "pay", outcome.StatePending, lost)):                   outcome.StateUnresolved,
		overdue(r.after(t, "read", "balance", outcome.StatePending, lost)):                   outcome.StateCancelled,
		r.submit(t, submission("in time", "pay")).ID:                                         outcome.StatePending,
		overdue(r.after(t, "already unresolved", "charge", outcome.StateUnresolved, lost)):   outcome.StateUnresolved,
		overdue(r.after(t, "already successful", "charge", outcome.StateSuccess, applied)):   outcome.StateSuccess,
		overdue(r.in(t, "executing", outcome.StateExecuting)):                                outcome.StateExecuting,
		overdue(r.after(t, "after a pause", "charge", outcome.StatePending, unsent, unsent)): outcome.StateCancelled,
	}
	if _, err := r.ups.Pause(t.Context(), tenant, "up", audit.By{Actor: "test", Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	if n, err := r.store.CloseOverdue(t.Context()); err != nil || n != 5 {
		t.Errorf("closed %d, %v; want 5", n, err)
	}
	for id, state := range want {
		c := r.get(t, id)
		if c.State != state {
			t.Errorf("%s is %s, want %s", c.Key, c.State, state)
		}
	}
	for key, waited := range map[string]commands.WaitFor{"never sent": commands.WaitPaused, "no secret": commands.WaitCredential, "in its turn": ""} {
		if o := r.get(t, r.byKey(t, key)).Outcome; o.WaitedFor != waited {
			t.Errorf("%s waited for %q, want %q", key, o.WaitedFor, waited)
		}
	}
	c := r.get(t, r.byKey(t, "in doubt"))
	if o := c.Outcome; o.DecidedBy != outcome.DecidedByDeadline || o.StoppedBy != outcome.ReasonDeadline || o.SafeToResubmit || o.Reason != outcome.OutcomeReasonNoResponse {
		t.Errorf("outcome %+v", o)
	}
	if n, err := r.store.CloseOverdue(t.Context()); err != nil || n != 0 {
		t.Errorf("closed %d more, %v", n, err)
	}
}

func (r *rig) byKey(t testing.TB, key string) uuid.UUID {
	t.Helper()
	var id uuid.UUID
	r.scan(t, `SELECT id FROM commands WHERE idempotency_key = $1`, []any{key}, &id)
	return id
}

// TestOverdueButLocked: a command that somebody is working on is left for the
// next round; nobody waits for the lock.
func TestOverdueButLocked(t *testing.T) {
	r := newRig(t)
	a, b := r.submit(t, submission("a", "pay")).ID, r.submit(t, submission("b", "pay")).ID
	r.exec(t, `UPDATE commands SET deadline = now()`)
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := r.store.Lock(t.Context(), tx, []uuid.UUID{a}); err != nil {
		t.Fatal(err)
	}
	if n, err := r.store.CloseOverdue(bounded(t)); err != nil || n != 1 || r.get(t, b).State != outcome.StateCancelled {
		t.Errorf("closed %d, %v", n, err)
	}
}

// TestUnreadableContract: a profile that can no longer be read, after an upgrade
// for instance, keeps nobody from an end. It promises nothing: what may have been
// sent is in doubt.
func TestUnreadableContract(t *testing.T) {
	r := newRig(t)
	r.apply(t, strings.Replace(profile, "upstream: up", "upstream: odd", 1))
	odd := func(key, operation string) uuid.UUID {
		s := submission(key, operation)
		s.Upstream = "odd"
		return r.submit(t, s).ID
	}
	unsentID, read, fine := odd("unsent", "pay"), odd("read", "balance"), r.submit(t, submission("fine", "pay")).ID
	r.attempt(t, read, lost, outcome.StatePending)
	waits := odd("waits", "pay")
	r.exec(t, `UPDATE upstream_versions SET source = 'version: 0' WHERE upstream_id = (SELECT id FROM upstreams WHERE name = 'odd')`)
	r.exec(t, `UPDATE commands SET deadline = now() WHERE id <> $1`, waits)
	late := newRigOn(t, r.pool) // has read nothing yet
	if n, err := late.store.CloseOverdue(t.Context()); err != nil || n != 3 {
		t.Fatalf("closed %d, %v", n, err)
	}
	for id, want := range map[uuid.UUID]outcome.State{unsentID: outcome.StateCancelled, read: outcome.StateUnresolved, fine: outcome.StateCancelled, waits: outcome.StatePending} {
		if c := late.get(t, id); c.State != want {
			t.Errorf("%s is %s, want %s", c.Key, c.State, want)
		}
	}
	if list, _, err := late.store.List(t.Context(), commands.Filter{Tenant: tenant}); err != nil || len(list) != 4 {
		t.Errorf("listed %d, %v", len(list), err)
	}
}

// TestPark lets a due command wait for something other than time.
func TestPark(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "pay")).ID
	before := r.get(t, id)
	if err := r.store.Park(t.Context(), id, commands.WaitCredential, time.Minute); err != nil {
		t.Fatal(err)
	}
	c := r.get(t, id)
	if c.State != outcome.StatePending || c.Attempts != 0 || c.Version != before.Version+1 || c.Waiting == nil || c.Waiting.For != commands.WaitCredential {
		t.Errorf("parked: %+v, waiting for %+v", c, c.Waiting)
	}
	if wait := c.NextAttemptAt.Sub(before.CreatedAt); wait < time.Minute || wait > 2*time.Minute {
		t.Errorf("looks again in %s", wait)
	}
	var job string
	r.scan(t, `SELECT j.state::text FROM river_job j JOIN commands c ON c.job_id = j.id WHERE c.id = $1`, []any{id}, &job)
	if job != "scheduled" {
		t.Errorf("its job is %s", job)
	}
}

// TestParkOnlyWhatIsDue: a command that moved on meanwhile is left alone.
func TestParkOnlyWhatIsDue(t *testing.T) {
	r := newRig(t)
	for name, id := range map[string]uuid.UUID{
		"executing": r.in(t, "executing", outcome.StateExecuting),
		"final":     r.in(t, "final", outcome.StateCancelled),
		"waiting":   r.after(t, "waiting", "charge", outcome.StatePending, declined),
	} {
		before := r.get(t, id)
		if err := r.store.Park(t.Context(), id, commands.WaitCredential, time.Second); err != nil {
			t.Error(err)
		}
		if c := r.get(t, id); c.Version != before.Version {
			t.Errorf("%s: parked until %v", name, c.NextAttemptAt)
		}
	}
	if err := r.store.Park(t.Context(), uuid.New(), commands.WaitCredential, time.Second); err != nil {
		t.Errorf("an unknown command: %v", err)
	}
}
