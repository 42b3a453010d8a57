package reconcile_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
	"executor/reconcile"
)

// work runs a process's bulk runner until the test ends.
func (d desk) work(t testing.TB) (stop func()) {
	t.Helper()
	runner := d.store.BulkRunner()
	runner.Start()
	var once sync.Once
	stop = func() { once.Do(func() { runner.Stop(context.Background()) }) }
	t.Cleanup(stop)
	return stop
}

func (d desk) bulk(t testing.TB, id uuid.UUID) reconcile.Bulk {
	t.Helper()
	b, err := d.store.Bulk(context.Background(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ended waits for the end of a bulk action.
func (d desk) ended(t testing.TB, id uuid.UUID) (b reconcile.Bulk) {
	t.Helper()
	eventually(t, "the bulk action's end", func() bool {
		b = d.bulk(t, id)
		return b.State == reconcile.BulkStateDone
	})
	return b
}

// rejectTransfers is a bulk action on every transfer in the queue.
func rejectTransfers() reconcile.BulkRequest {
	return reconcile.BulkRequest{
		ID: uuid.New(), Tenant: tenant, Actor: "ann", Action: reconcile.ActionResolve, Reason: "the bank says so", EvidenceReference: "T-2",
		Filter: reconcile.ReviewFilter{Operation: "transfer"}, Resolution: reconcile.Resolution{State: outcome.StateRejected, Code: "closed"},
	}
}

// TestBulk: a dry run says what it would be, starting it does it, and each command
// has its own result and its own entry in the audit.
func TestBulk(t *testing.T) {
	d := newDesk(t)
	var ids []uuid.UUID
	for range 12 {
		ids = append(ids, d.waiting(t, "transfer"))
	}
	disputed := d.disputed(t, outcome.StateSuccess) // a transfer too, but there is nothing to resolve
	other := d.waiting(t, "put")

	r := rejectTransfers()
	r.DryRun = true
	b, err := d.store.StartBulk(t.Context(), r)
	if err != nil || b.State != reconcile.BulkStatePreview || b.Count != 13 || b.Refused != 1 || b.Problems["not_unresolved"] != 1 || len(b.Sample) != 13 || b.Sample[0].Command != ids[0] {
		t.Fatalf("dry run: %+v, %v", b, err)
	}
	if _, err := d.store.Bulk(t.Context(), tenant, r.ID); code(err) != reconcile.ErrBulkNotFound.Error() {
		t.Errorf("a dry run started something: %v", err)
	}
	r.DryRun, r.ExpectedCount = false, &b.Count
	if b, err = d.store.StartBulk(t.Context(), r); err != nil || b.State != reconcile.BulkStateRunning || b.Count != 13 {
		t.Fatalf("started: %+v, %v", b, err)
	}
	// One moves on before it is its turn, another comes too late to be meant.
	if err := d.store.Assign(t.Context(), d.by(t, ids[11]), "bob"); err != nil {
		t.Fatal(err)
	}
	late := d.waiting(t, "transfer")
	d.work(t)
	b = d.ended(t, r.ID)
	if b.Done != 11 || b.Refused != 2 || b.Problems["stale"] != 1 || b.Problems["not_unresolved"] != 1 || b.Actor != "ann" || b.Reason != r.Reason {
		t.Errorf("ended: %+v", b)
	}
	for _, id := range ids[:11] {
		c, e := d.get(t, id), d.entries(t, id)
		if c.State != outcome.StateRejected || c.Outcome.Rejection.Code != "closed" || len(e) != 1 || e[0].Actor != "ann" || !strings.Contains(string(e[0].Details), r.ID.String()) {
			t.Errorf("%+v, audit %+v", c.Outcome, e)
		}
	}
	for _, id := range []uuid.UUID{ids[11], late, other} {
		if c := d.get(t, id); c.State != outcome.StateUnresolved {
			t.Errorf("%s is %s", id, c.State)
		}
	}
	if c := d.get(t, disputed); c.State != outcome.StateSuccess {
		t.Errorf("the disputed one is %s", c.State)
	}
	if list, _, err := audit.List(t.Context(), d.pool, audit.Filter{Tenant: tenant, Action: "bulk.start"}); err != nil || len(list) != 1 {
		t.Errorf("%d entries about the start, %v", len(list), err)
	}
	d.sound(t)
}

// TestBulkRefuses: no filter, no id, another count, another request, bad values.
func TestBulkRefuses(t *testing.T) {
	d := newDesk(t)
	d.waiting(t, "transfer")
	for want, spoil := range map[string]func(r *reconcile.BulkRequest){
		"invalid /filter": func(r *reconcile.BulkRequest) { r.Filter = reconcile.ReviewFilter{Tenant: tenant, Limit: 5} },
		"invalid /id":     func(r *reconcile.BulkRequest) { r.ID = uuid.Nil },
		"invalid /action": func(r *reconcile.BulkRequest) { r.Action = reconcile.ActionCorrect },
		"invalid /state":  func(r *reconcile.BulkRequest) { r.Resolution.State = outcome.StatePending },
		"invalid /reason": func(r *reconcile.BulkRequest) { r.Reason = "" },
		"invalid /kind":   func(r *reconcile.BulkRequest) { r.Filter.Kinds = []string{"all"} },
		"invalid /evidence_reference": func(r *reconcile.BulkRequest) {
			r.Action, r.Absent, r.EvidenceReference = reconcile.ActionResend, true, ""
		},
		"invalid /assignee":           func(r *reconcile.BulkRequest) { r.Action, r.Assignee = reconcile.ActionAssign, "a\nb" },
		reconcile.RefusedCountDiffers: func(r *reconcile.BulkRequest) { r.ExpectedCount = new(2) },
	} {
		for _, dry := range []bool{false, true} {
			r := rejectTransfers()
			r.DryRun = dry
			spoil(&r)
			if _, err := d.store.StartBulk(t.Context(), r); code(err) != want && (!dry || want != "invalid /id") {
				t.Errorf("%v (dry run: %v), want %s", err, dry, want)
			}
		}
	}
	if n := d.count(t, `SELECT count(*) FROM bulk_actions`) + d.count(t, `SELECT count(*) FROM audit WHERE action = 'bulk.start'`); n != 0 {
		t.Errorf("%d rows are left behind", n)
	}
}

// TestABulkActionIsStartedOnce: the same request again, also by many at once, is the
// same action; another under its id is refused.
func TestABulkActionIsStartedOnce(t *testing.T) {
	d := newDesk(t)
	id := d.waiting(t, "transfer")
	r := rejectTransfers()
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if b, err := d.store.StartBulk(context.Background(), r); err != nil || b.Count != 1 {
				t.Errorf("%+v, %v", b, err)
			}
		})
	}
	wg.Wait()
	d.work(t)
	d.ended(t, r.ID)
	next := d.waiting(t, "transfer")
	if b, err := d.store.StartBulk(t.Context(), r); err != nil || b.State != reconcile.BulkStateDone || b.Count != 1 {
		t.Errorf("again, when it is done: %+v, %v", b, err)
	}
	for name, change := range map[string]func(r *reconcile.BulkRequest){
		"filter": func(r *reconcile.BulkRequest) { r.Filter.Upstream = "up" },
		"action": func(r *reconcile.BulkRequest) { r.Action = reconcile.ActionNote },
		"reason": func(r *reconcile.BulkRequest) { r.Reason = "another" },
		"state":  func(r *reconcile.BulkRequest) { r.Resolution.State = outcome.StateCancelled },
	} {
		changed := r
		change(&changed)
		if _, err := d.store.StartBulk(t.Context(), changed); code(err) != reconcile.RefusedIDReused {
			t.Errorf("another %s under the id: %v", name, err)
		}
	}
	if got := d.deeds(t, id); got != "command.resolve" || d.get(t, next).State != outcome.StateUnresolved {
		t.Errorf("audit %s; a later command is %s", got, d.get(t, next).State)
	}
	d.sound(t)
}

// TestEveryBulkAction does each of them to one command.
func TestEveryBulkAction(t *testing.T) {
	d := newDesk(t)
	d.work(t)
	for _, action := range reconcile.BulkActions() {
		id := d.waiting(t, "charge")
		r := rejectTransfers()
		r.Action, r.Filter, r.Assignee, r.Absent = action, reconcile.ReviewFilter{Operation: "charge", Assignee: new("")}, "bob", true
		if action == reconcile.ActionLookup {
			d.exec(t, `DELETE FROM doubts WHERE command_id <> $1`, id)
		}
		b, err := d.store.StartBulk(t.Context(), r)
		if err != nil || b.Count != 1 {
			t.Fatalf("%s: %+v, %v", action, b, err)
		}
		if b = d.ended(t, r.ID); b.Done != 1 || d.deeds(t, id) != "command."+action {
			t.Errorf("%s: %+v, audit %s", action, b, d.deeds(t, id))
		}
		d.exec(t, `DELETE FROM doubts WHERE command_id = $1`, id)
	}
}

// TestBulkSurvives: processes die in the middle of items, again and again, and two go
// on at a time. Each item happens once.
func TestBulkSurvives(t *testing.T) {
	one := newDesk(t)
	two := desk{newRigOn(t, one.pool)}
	const n = 60
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = one.waiting(t, "transfer")
	}
	// Every third item's process dies at its first try, after the deed and its record.
	one.exec(t, `CREATE SEQUENCE deaths`) // what a sequence counts is not undone
	one.exec(t, `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM nextval('deaths'), pg_terminate_backend(pg_backend_pid()), pg_sleep(1);
			RETURN NEW;
		END $$`)
	one.exec(t, `CREATE TRIGGER die AFTER UPDATE ON bulk_items FOR EACH ROW
		WHEN (NEW.number % 3 = 0 AND NEW.tries = 1 AND NEW.result = 'done') EXECUTE FUNCTION die()`)
	r := rejectTransfers()
	if _, err := one.store.StartBulk(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	one.work(t)
	two.work(t)
	eventually(t, "the others", func() bool { return one.bulk(t, r.ID).Done >= n-n/3 })
	eventually(t, "the deaths", func() bool { return one.count(t, `SELECT last_value FROM deaths`) == n/3 })
	one.exec(t, `UPDATE bulk_items SET next_at = now() WHERE result = 'pending'`) // instead of waiting for the claims to end
	b := one.ended(t, r.ID)
	if b.Done != n || b.Refused != 0 {
		t.Errorf("ended: %+v", b)
	}
	for _, id := range ids {
		if c := one.get(t, id); c.State != outcome.StateRejected || c.Outcome.Sequence != 2 || one.deeds(t, id) != "command.resolve" {
			t.Errorf("%s: %+v, audit %s", id, c.Outcome, one.deeds(t, id))
		}
	}
	one.sound(t)
}

// TestABulkItemThatAlwaysFails is given up, and keeps nothing else from its end.
func TestABulkItemThatAlwaysFails(t *testing.T) {
	d := newDesk(t)
	bad, good := d.waiting(t, "transfer"), d.waiting(t, "transfer")
	d.exec(t, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'broken'; END $$`)
	d.exec(t, `CREATE TRIGGER fail BEFORE INSERT ON findings FOR EACH ROW WHEN (NEW.command_id = '`+bad.String()+`') EXECUTE FUNCTION fail()`)
	r := rejectTransfers()
	if _, err := d.store.StartBulk(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	d.work(t)
	eventually(t, "the end of the bad one", func() bool {
		d.exec(t, `UPDATE bulk_items SET next_at = now() WHERE result = 'pending'`) // instead of waiting for the claims to end
		return d.bulk(t, r.ID).State == reconcile.BulkStateDone
	})
	b := d.bulk(t, r.ID)
	if b.Done != 1 || b.Problems["internal_error"] != 1 || d.get(t, bad).State != outcome.StateUnresolved || d.get(t, good).State != outcome.StateRejected {
		t.Errorf("%+v", b)
	}
}

// TestBulkIsFair: a tenant with many items does not hold up another with one.
func TestBulkIsFair(t *testing.T) {
	d := newDesk(t)
	d.crowd(t, 3000, 0)
	crowd := rejectTransfers()
	crowd.Action, crowd.Filter = reconcile.ActionNote, reconcile.ReviewFilter{Upstream: "up"}
	if b, err := d.store.StartBulk(t.Context(), crowd); err != nil || b.Count != 3000 {
		t.Fatalf("%+v, %v", b, err)
	}
	d.apply(t, strings.ReplaceAll(deskProfile, "upstream: up", "upstream: up\ntenant: small"))
	a, err := d.commands.Submit(t.Context(), commands.Submission{
		Tenant: "small", Key: "one", Upstream: "up", Operation: "transfer", Actor: "test", Body: []byte(`{}`), HasBody: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.begin(t, a.Command.ID, lost)
	d.finish(t, a.Command.ID, lost)
	small := rejectTransfers()
	small.Tenant = "small"
	if b, err := d.store.StartBulk(t.Context(), small); err != nil || b.Count != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	d.work(t)
	eventually(t, "the small tenant's end", func() bool {
		b, err := d.store.Bulk(context.Background(), "small", small.ID)
		return err == nil && b.State == reconcile.BulkStateDone
	})
	if b := d.bulk(t, crowd.ID); b.State != reconcile.BulkStateRunning {
		t.Errorf("the crowd was first: %+v", b.Problems)
	}
}

// TestBulkHasABound: more than one action takes is refused with the number.
func TestBulkHasABound(t *testing.T) {
	d := newDesk(t)
	d.crowd(t, reconcile.MaxBulk+5, 0)
	for _, dry := range []bool{true, false} {
		r := rejectTransfers()
		r.DryRun = dry
		_, err := d.store.StartBulk(t.Context(), r)
		if refused, ok := err.(*reconcile.Refused); !ok || refused.Code != reconcile.RefusedTooMany || refused.Count != reconcile.MaxBulk+5 {
			t.Errorf("dry run %v: %v", dry, err)
		}
	}
	if n := d.count(t, `SELECT count(*) FROM bulk_items`); n != 0 {
		t.Errorf("%d items are left behind", n)
	}
}
