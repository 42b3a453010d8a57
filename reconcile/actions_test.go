package reconcile_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// TestResolve: the person's word settles the doubt, and everything about it is on
// record.
func TestResolve(t *testing.T) {
	d := newDesk(t)
	tests := []struct {
		resolution reconcile.Resolution
		reason     outcome.OutcomeReason
		check      func(o *commands.Outcome) bool
	}{
		{reconcile.Resolution{State: outcome.StateSuccess, Reference: " pay_7 "}, outcome.OutcomeReasonApplied,
			func(o *commands.Outcome) bool { return o.Result.Reference == "pay_7" }},
		{reconcile.Resolution{State: outcome.StateSuccess}, outcome.OutcomeReasonApplied,
			func(o *commands.Outcome) bool { return o.Result.Reference == "T-1" }},
		{reconcile.Resolution{State: outcome.StateRejected, Code: "closed", Message: "account closed"}, outcome.OutcomeReasonRefused,
			func(o *commands.Outcome) bool {
				return o.Rejection.Code == "closed" && o.Rejection.Message == "account closed"
			}},
		{reconcile.Resolution{State: outcome.StateCancelled}, outcome.OutcomeReasonConfirmedAbsent,
			func(o *commands.Outcome) bool { return o.SafeToResubmit }},
	}
	for _, tt := range tests {
		id := d.waiting(t, "transfer")
		before := d.get(t, id)
		if err := d.store.Resolve(t.Context(), d.by(t, id), tt.resolution); err != nil {
			t.Fatal(err)
		}
		c := d.get(t, id)
		if c.State != tt.resolution.State || c.Outcome.DecidedBy != outcome.DecidedByOperator || c.Outcome.Reason != tt.reason || !tt.check(c.Outcome) {
			t.Errorf("%+v gives %+v", tt.resolution, c.Outcome)
		}
		if _, waits := d.item(t, id); waits {
			t.Errorf("%s: still in the queue", c.State)
		}
		e := d.entries(t, id)[0]
		var was, is struct {
			State   outcome.State
			Version int
		}
		if json.Unmarshal(e.Before, &was) != nil || json.Unmarshal(e.After, &is) != nil {
			t.Fatalf("audit: %s, %s", e.Before, e.After)
		}
		if e.Action != "command.resolve" || e.Actor != "ann" || e.Reason != "seen in the statement" || e.EvidenceReference != "T-1" ||
			was.State != outcome.StateUnresolved || was.Version != before.Version || is.State != c.State || is.Version != c.Version ||
			!strings.Contains(string(e.Details), `"attempts":1`) {
			t.Errorf("audit: %+v before %s after %s details %s", e, e.Before, e.After, e.Details)
		}
		if n := d.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND sequence = 2 AND actor = 'ann' AND data ->> 'previous_state' = 'unresolved'`, id); n != 1 {
			t.Errorf("%s: %d events announce it", c.State, n)
		}
	}
	d.sound(t)
}

// TestWhatAnActionNeeds: who, why, on what version, and evidence where a finding is
// claimed. Nothing else is wrong with these actions.
func TestWhatAnActionNeeds(t *testing.T) {
	d := newDesk(t)
	id := d.waiting(t, "transfer")
	good := d.by(t, id)
	for name, do := range d.everyAction() {
		for want, spoil := range map[string]func(a *reconcile.Action){
			"version_required":            func(a *reconcile.Action) { a.Version = 0 },
			"stale":                       func(a *reconcile.Action) { a.Version-- },
			"invalid /actor":              func(a *reconcile.Action) { a.Actor = "" },
			"invalid /reason":             func(a *reconcile.Action) { a.Reason = " \n " },
			"invalid /evidence_reference": func(a *reconcile.Action) { a.EvidenceReference = "two\nlines" },
			"not_found":                   func(a *reconcile.Action) { a.Tenant = "other" },
		} {
			a := good
			spoil(&a)
			if got := code(do(t.Context(), a)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		for _, reason := range []string{strings.Repeat("x", 2001), "nul\x00", "bad\xff", "bell\a"} {
			a := good
			a.Reason = reason
			if got := code(do(t.Context(), a)); got != "invalid /reason" {
				t.Errorf("%s with the reason %.10q: %s", name, reason, got)
			}
		}
	}
	bare := good
	bare.EvidenceReference = ""
	for want, err := range map[string]error{
		"invalid /evidence_reference": d.store.Resolve(t.Context(), bare, reconcile.Resolution{State: outcome.StateSuccess}),
		"invalid /state":              d.store.Resolve(t.Context(), bare, reconcile.Resolution{State: outcome.StateUnresolved}),
		"invalid /code":               d.store.Resolve(t.Context(), bare, reconcile.Resolution{State: outcome.StateRejected, Code: "a\nb"}),
		"invalid /assignee":           d.store.Assign(t.Context(), bare, strings.Repeat("x", 201)),
	} {
		if code(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got := code(d.store.Resend(t.Context(), bare, true)); got != "invalid /evidence_reference" {
		t.Errorf("a finding without evidence: %s", got)
	}
	if after := d.get(t, id); after.Version != good.Version || d.deeds(t, id) != "" {
		t.Errorf("refused actions left %+v, %s", after, d.deeds(t, id))
	}
}

// TestTheQueueOffersWhatIsAccepted: in every situation the allowed actions are those
// that are done, and the others are refused and leave nothing behind.
func TestTheQueueOffersWhatIsAccepted(t *testing.T) {
	d := newDesk(t)
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			offered, shown := d.item(t, s.make(t, d))
			for name, do := range d.everyAction() {
				id := s.make(t, d)
				before, deeds := d.get(t, id), d.deeds(t, id)
				err := do(t.Context(), d.by(t, id))
				var refused bool
				if got := code(err); got != "done" {
					refused = slices.Contains(reconcile.RefusalCodes(), got)
					if !refused {
						t.Errorf("%s: %v", name, err)
					}
				}
				if shown && slices.Contains(offered.Actions, name) == refused {
					t.Errorf("%s: offered %v, answered %v", name, offered.Actions, err)
				}
				if after := d.get(t, id); refused && (after.Version != before.Version || d.deeds(t, id) != deeds) {
					t.Errorf("%s was refused and left %+v", name, after)
				} else if !refused && (d.deeds(t, id) == deeds || after.Version <= before.Version) {
					t.Errorf("%s was done: version %d after %d, audit %q", name, after.Version, before.Version, d.deeds(t, id))
				}
			}
		})
	}
	d.sound(t)
}

// TestTwoOperators: of many who decide on the same version one wins, also where
// each has a process of their own, and the others are told the new version.
func TestTwoOperators(t *testing.T) {
	one := newDesk(t)
	two := desk{newRigOn(t, one.pool)}
	for round := range 5 {
		id := one.waiting(t, "transfer")
		a := one.by(t, id)
		var (
			wg      sync.WaitGroup
			answers [8]error
		)
		for i := range answers {
			wg.Go(func() {
				mine := a
				mine.Actor = fmt.Sprintf("operator %d", i)
				store, state := one.store, outcome.StateSuccess
				if i%2 == 1 {
					store, state = two.store, outcome.StateRejected
				}
				answers[i] = store.Resolve(context.Background(), mine, reconcile.Resolution{State: state})
			})
		}
		wg.Wait()
		winner, c := -1, one.get(t, id)
		for i, err := range answers {
			switch got := code(err); {
			case got == "done" && winner < 0:
				winner = i
			case got != "stale" || err.(*reconcile.Stale).Version != c.Version:
				t.Errorf("round %d, operator %d: %v", round, i, err)
			}
		}
		entries := one.entries(t, id)
		if winner < 0 || len(entries) != 1 || entries[0].Actor != fmt.Sprintf("operator %d", winner) || (c.State == outcome.StateSuccess) != (winner%2 == 0) {
			t.Errorf("round %d: operator %d won, the command is %s, audit %+v", round, winner, c.State, entries)
		}
	}
	one.sound(t)
}

// TestAResolveCrossesALookup: whichever comes first, nothing is lost. After the
// person the finding is a conflict; after the finding the person is told.
func TestAResolveCrossesALookup(t *testing.T) {
	d := newDesk(t)
	first := d.waiting(t, "charge")
	if err := d.store.Resolve(t.Context(), d.by(t, first), reconcile.Resolution{State: outcome.StateCancelled}); err != nil {
		t.Fatal(err)
	}
	if effect := d.learn(t, first, outcome.FindingApplied); effect != commands.EffectConflict {
		t.Errorf("after the person: %s", effect)
	}
	item, shown := d.item(t, first)
	if !shown || item.Kind != reconcile.ReviewConflict || item.Command.State != outcome.StateCancelled || len(item.Conflicts) != 1 ||
		item.Conflicts[0].Finding != outcome.FindingApplied || item.Conflicts[0].Reference != "found_1" {
		t.Errorf("in the queue: %+v", item)
	}

	second := d.waiting(t, "charge")
	a := d.by(t, second)
	if effect := d.learn(t, second, outcome.FindingApplied); effect != commands.EffectSettled {
		t.Fatalf("before the person: %s", effect)
	}
	if got := code(d.store.Resolve(t.Context(), a, reconcile.Resolution{State: outcome.StateCancelled})); got != "stale" {
		t.Errorf("after the finding: %s", got)
	}
	if c := d.get(t, second); c.State != outcome.StateSuccess || c.Outcome.Result.Reference != "found_1" {
		t.Errorf("after the finding: %+v", c.Outcome)
	}

	agreed := d.waiting(t, "charge")
	if err := d.store.Resolve(t.Context(), d.by(t, agreed), reconcile.Resolution{State: outcome.StateSuccess}); err != nil {
		t.Fatal(err)
	}
	if effect := d.learn(t, agreed, outcome.FindingApplied); effect != commands.EffectNone {
		t.Errorf("a finding that agrees: %s", effect)
	}
}

// TestADyingActionLeavesNothing: the process that acts dies at its last step, the
// record. There is neither the deed nor the record, and it can be done again.
func TestADyingActionLeavesNothing(t *testing.T) {
	d := newDesk(t)
	d.exec(t, `CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(1); RETURN NEW; END $$`)
	for _, name := range []string{
		reconcile.ActionResolve, reconcile.ActionLookup, reconcile.ActionResendAbsent, reconcile.ActionAssign, reconcile.ActionNote,
	} {
		do := d.everyAction()[name]
		id := d.waiting(t, "charge")
		before, a := d.get(t, id), d.by(t, id)
		d.exec(t, `CREATE TRIGGER die AFTER INSERT ON audit FOR EACH ROW EXECUTE FUNCTION die()`)
		if got := code(do(t.Context(), a)); got != "unavailable" {
			t.Errorf("%s: %s", name, got)
		}
		d.exec(t, `DROP TRIGGER die ON audit`)
		if after := d.get(t, id); after.Version != before.Version || after.State != before.State || d.deeds(t, id) != "" ||
			d.count(t, `SELECT count(*) FROM findings WHERE command_id = $1`, id) != 0 {
			t.Errorf("%s left %+v, %s", name, after, d.deeds(t, id))
		}
		if err := do(t.Context(), a); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
	}
	d.sound(t)
}

// TestAssign: who has taken it on shows on the command, also where there never was
// a doubt.
func TestAssign(t *testing.T) {
	d := newDesk(t)
	for _, id := range []uuid.UUID{d.waiting(t, "transfer"), d.disputed(t, outcome.StateSuccess)} {
		for _, name := range []string{" bob ", "eve", ""} {
			if err := d.store.Assign(t.Context(), d.by(t, id), name); err != nil {
				t.Fatal(err)
			}
			item, _ := d.item(t, id)
			want := strings.TrimSpace(name)
			if c := d.get(t, id); c.Reconciliation.Assignee != want || item.Assignee != want {
				t.Errorf("assigned to %q: %+v", c.Reconciliation.Assignee, item)
			}
		}
		if got := d.deeds(t, id); got != "command.assign command.assign command.assign" {
			t.Errorf("audit: %s", got)
		}
	}
}

// TestCorrect: a person changes a settled state, or holds on to it, and either way
// the conflicts are over.
func TestCorrect(t *testing.T) {
	d := newDesk(t)
	for _, from := range outcome.States() {
		for _, to := range outcome.States() {
			if !from.Absorbing() || !to.Absorbing() {
				continue
			}
			id := d.disputed(t, from)
			before := d.get(t, id)
			a := d.by(t, id)
			a.EvidenceReference = ""
			needs := code(d.store.Correct(t.Context(), a, reconcile.Resolution{State: to}))
			if (needs == "invalid /evidence_reference") != (to == outcome.StateSuccess && from != to) {
				t.Errorf("from %s to %s without evidence: %s", from, to, needs)
			}
			if needs != "done" {
				a.EvidenceReference = "T-3"
				if err := d.store.Correct(t.Context(), a, reconcile.Resolution{State: to}); err != nil {
					t.Fatal(err)
				}
			}
			c := d.get(t, id)
			deed, events := "command.correct", 1
			if from == to {
				deed, events = "command.dismiss", 0
			}
			if c.State != to || c.Version <= before.Version || d.deeds(t, id) != deed ||
				d.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND type = 'command.corrected'`, id) != events {
				t.Errorf("from %s to %s: %+v, audit %s", from, to, c.Outcome, d.deeds(t, id))
			}
			if _, waits := d.item(t, id); waits {
				t.Errorf("from %s to %s: still in the queue", from, to)
			}
		}
	}
	// Evidence that comes up again later is a new conflict.
	id := d.disputed(t, outcome.StateCancelled)
	if err := d.store.Correct(t.Context(), d.by(t, id), reconcile.Resolution{State: outcome.StateCancelled}); err != nil {
		t.Fatal(err)
	}
	d.learn(t, id, outcome.FindingApplied)
	if item, waits := d.item(t, id); !waits || len(item.Conflicts) != 1 {
		t.Errorf("later evidence: %+v", item)
	}
	d.sound(t)
}
