package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// wishes are the actions of everyAction as a page asks for them.
func (d desk) wishes(ctx context.Context, a reconcile.Action) map[string]reconcile.Wish {
	return map[string]reconcile.Wish{
		reconcile.ActionResolve:      {Action: reconcile.ActionResolve, Resolution: reconcile.Resolution{State: outcome.StateRejected}},
		reconcile.ActionLookup:       {Action: reconcile.ActionLookup},
		reconcile.ActionResend:       {Action: reconcile.ActionResend},
		reconcile.ActionResendAbsent: {Action: reconcile.ActionResend, Absent: true},
		reconcile.ActionAssign:       {Action: reconcile.ActionAssign, Assignee: "bob"},
		reconcile.ActionNote:         {Action: reconcile.ActionNote},
		reconcile.ActionCorrect:      {Action: reconcile.ActionCorrect, Resolution: d.other(ctx, a)},
		reconcile.ActionDismiss:      {Action: reconcile.ActionCorrect, Resolution: d.same(ctx, a)},
		reconcile.ActionCancel:       {Action: reconcile.ActionCancel},
	}
}

// TestOptionsAndCheckSayWhatHappens: in every situation what is offered, what a
// check says and what doing it answers are the same.
func TestOptionsAndCheckSayWhatHappens(t *testing.T) {
	d := newDesk(t)
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			for name := range d.wishes(t.Context(), reconcile.Action{}) {
				id := s.make(t, d)
				a := d.by(t, id)
				w := d.wishes(t.Context(), a)[name]
				options, err := d.store.Options(t.Context(), tenant, id)
				if err != nil || options.Version != a.Version {
					t.Fatalf("options %+v, %v", options, err)
				}
				offered := "done"
				if refused := options.Refusal(name); refused != nil {
					offered = refused.Code
				}
				checked, done := code(d.store.Check(t.Context(), a, w)), code(d.store.Do(t.Context(), a, w))
				if offered != checked || checked != done {
					t.Errorf("%s: offered %s, checked %s, answered %s", name, offered, checked, done)
				}
			}
		})
	}
}

// TestCancelIsOnRecord: a person's cancel has a reason and a version, and an entry
// in the audit.
func TestCancelIsOnRecord(t *testing.T) {
	d := newDesk(t)
	id := d.waiting(t, "transfer")
	a := d.by(t, id)
	stale := a
	stale.Version++
	if _, err := d.store.Cancel(t.Context(), stale); !strings.HasPrefix(code(err), "stale") {
		t.Errorf("a stale cancel: %v", err)
	}
	if result, err := d.store.Cancel(t.Context(), a); err != nil || result != commands.CancelInDoubt {
		t.Errorf("cancel: %s, %v", result, err)
	}
	if !d.get(t, id).CancelRequested || d.deeds(t, id) != "command."+reconcile.ActionCancel {
		t.Errorf("deeds %s", d.deeds(t, id))
	}
	if _, err := d.store.Cancel(t.Context(), d.by(t, id)); code(err) != reconcile.RefusedCancelRequested {
		t.Errorf("a second cancel: %v", err)
	}
	d.sound(t)
}

// TestOptionsOfAnotherTenant: there is no such command.
func TestOptionsOfAnotherTenant(t *testing.T) {
	d := newDesk(t)
	id := d.waiting(t, "transfer")
	if _, err := d.store.Options(t.Context(), "other", id); !errors.Is(err, commands.ErrNotFound) {
		t.Errorf("options: %v", err)
	}
	a := d.by(t, id)
	a.Tenant = "other"
	if err := d.store.Check(t.Context(), a, reconcile.Wish{Action: reconcile.ActionNote}); !errors.Is(err, commands.ErrNotFound) {
		t.Errorf("check: %v", err)
	}
}

// TestBulkOfASelection: what was picked, as it was seen: what moved on since is left
// alone, and nobody else's commands are touched.
func TestBulkOfASelection(t *testing.T) {
	d := newDesk(t)
	picked := []reconcile.Selected{}
	for range 3 {
		id := d.waiting(t, "transfer")
		picked = append(picked, reconcile.Selected{Command: id, Version: d.get(t, id).Version})
	}
	spared := d.waiting(t, "transfer")
	if err := d.store.Note(t.Context(), d.by(t, picked[1].Command)); err != nil {
		t.Fatal(err)
	}
	r := rejectTransfers()
	r.Selection, r.DryRun = append(picked, picked[0]), true
	b, err := d.store.StartBulk(t.Context(), r)
	if err != nil || b.Count != 3 || b.Problems["stale"] != 1 || len(b.Selection) != 3 {
		t.Fatalf("dry run: %+v, %v", b, err)
	}
	r.DryRun = false
	if b, err = d.store.StartBulk(t.Context(), r); err != nil || b.Count != 3 || b.Order.Picked.Count != 3 {
		t.Fatalf("started: %+v, %v", b, err)
	}
	if again, err := d.store.StartBulk(t.Context(), r); err != nil || again.Count != 3 {
		t.Errorf("started again: %+v, %v", again, err)
	}
	other := r
	other.Selection = picked[:1]
	if _, err := d.store.StartBulk(t.Context(), other); code(err) != reconcile.RefusedIDReused {
		t.Errorf("another selection under the same id: %v", err)
	}
	d.work(t)
	b = d.ended(t, r.ID)
	if b.Done != 2 || b.Items[1].Problem != "stale" || d.get(t, spared).State != outcome.StateUnresolved {
		t.Errorf("ended: %+v", b)
	}
	list, next, err := d.store.Bulks(t.Context(), tenant, "", 10)
	if err != nil || next != "" || len(list) != 1 || list[0].Done != 2 || list[0].Refused != 1 || list[0].State != reconcile.BulkStateDone || list[0].Reason != r.Reason {
		t.Errorf("list %+v, %q, %v", list, next, err)
	}
}

// TestASelectionIsTheTenants: an id that is not theirs refuses all of it.
func TestASelectionIsTheTenants(t *testing.T) {
	d := newDesk(t)
	id := d.waiting(t, "transfer")
	r := rejectTransfers()
	r.Selection = []reconcile.Selected{{Command: id, Version: d.get(t, id).Version}, {Command: uuid.New(), Version: 1}}
	for _, dry := range []bool{true, false} {
		r.DryRun = dry
		if _, err := d.store.StartBulk(t.Context(), r); code(err) != "invalid /selection" {
			t.Errorf("dry run %v: %v", dry, err)
		}
	}
	r.Tenant, r.DryRun, r.Selection = "other", false, r.Selection[:1]
	if _, err := d.store.StartBulk(t.Context(), r); code(err) != "invalid /selection" {
		t.Errorf("another tenant: %v", err)
	}
}
