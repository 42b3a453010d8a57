package commands_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// found is what a lookup says about a command.
func found(f outcome.Finding) commands.Knowledge {
	return commands.Knowledge{
		Source: outcome.DecidedByLookup, Actor: "looker", Finding: f, Status: 200, Reference: "pay_9", Code: "declined", Message: "no funds",
	}
}

// TestFindings enumerates every state and every finding.
func TestFindings(t *testing.T) {
	r := newRig(t)
	effects := map[outcome.State]map[outcome.Finding]string{
		outcome.StatePending:    {"applied": "kept", "refused": "kept", "pending": "none", "absent": "none", "unknown": "none"},
		outcome.StateExecuting:  {"applied": "kept", "refused": "kept", "pending": "none", "absent": "none", "unknown": "none"},
		outcome.StateUnresolved: {"applied": "settled success", "refused": "settled rejected", "pending": "none", "absent": "settled cancelled", "unknown": "none"},
		outcome.StateSuccess:    {"applied": "none", "refused": "conflict", "pending": "none", "absent": "none", "unknown": "none"},
		outcome.StateRejected:   {"applied": "conflict", "refused": "none", "pending": "conflict", "absent": "none", "unknown": "none"},
		outcome.StateCancelled:  {"applied": "conflict", "refused": "none", "pending": "conflict", "absent": "none", "unknown": "none"},
	}
	for _, state := range outcome.States() {
		for _, f := range outcome.Findings() {
			t.Run(fmt.Sprintf("%s/%s", state, f), func(t *testing.T) {
				id := r.in(t, uuid.NewString(), state)
				before := r.get(t, id)
				effect, err := r.learn(t.Context(), id, found(f))
				if err != nil {
					t.Fatal(err)
				}
				after := r.get(t, id)
				got := string(effect)
				if effect == commands.EffectSettled {
					got += " " + string(after.State)
				} else if after.State != before.State || !sameOutcome(after.Outcome, before.Outcome) {
					t.Errorf("%s moved the command from %+v to %+v", effect, before, after)
				}
				if want := effects[state][f]; got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if shown := after.Reconciliation != nil && after.Reconciliation.Conflicts == 1; shown != (effect == commands.EffectConflict) {
					t.Errorf("%s is shown as %+v", effect, after.Reconciliation)
				}
				if after.Version <= before.Version {
					t.Errorf("version %d after %d", after.Version, before.Version)
				}
				if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1 AND finding = $2 AND effect = $3`, id, f, effect); n != 1 {
					t.Errorf("%d findings on record", n)
				}
				if n := r.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND type = 'command.conflict'`, id); (n == 1) != (effect == commands.EffectConflict) {
					t.Errorf("%d conflicts shown", n)
				}
			})
		}
	}
}

// TestAnEarlyFinding: one that says done settles a waiting command only if an
// attempt of it may have acted.
func TestAnEarlyFinding(t *testing.T) {
	r := newRig(t)
	for name, tt := range map[string]struct {
		attempts []ending
		want     commands.Effect
	}{
		"never sent":      {nil, commands.EffectKept},
		"sent nothing":    {[]ending{unsent}, commands.EffectKept},
		"told not now":    {[]ending{declined}, commands.EffectKept},
		"may have acted":  {[]ending{lost}, commands.EffectSettled},
		"the first might": {[]ending{lost, unsent}, commands.EffectSettled},
	} {
		id := r.submit(t, submission(uuid.NewString(), "pay")).ID
		if len(tt.attempts) > 0 {
			id = r.after(t, uuid.NewString(), "pay", outcome.StatePending, tt.attempts...)
		}
		if effect, err := r.learn(t.Context(), id, found(outcome.FindingApplied)); err != nil || effect != tt.want {
			t.Errorf("%s: %s, %v; want %s", name, effect, err, tt.want)
		}
	}
}

// TestWhatAFindingGives: the outcome names its source, its reference or reason,
// and what was announced before.
func TestWhatAFindingGives(t *testing.T) {
	r := newRig(t)
	tests := []struct {
		finding outcome.Finding
		reason  outcome.OutcomeReason
		check   func(o *commands.Outcome) bool
	}{
		{outcome.FindingApplied, outcome.OutcomeReasonApplied, func(o *commands.Outcome) bool { return o.Result.Reference == "pay_9" }},
		{outcome.FindingRefused, outcome.OutcomeReasonRefused, func(o *commands.Outcome) bool {
			return o.Rejection.Code == "declined" && o.Rejection.Message == "no funds"
		}},
		{outcome.FindingAbsent, outcome.OutcomeReasonConfirmedAbsent, func(o *commands.Outcome) bool { return o.SafeToResubmit }},
	}
	for _, tt := range tests {
		id := r.after(t, uuid.NewString(), "charge", outcome.StateUnresolved, lost)
		if _, err := r.learn(t.Context(), id, found(tt.finding)); err != nil {
			t.Fatal(err)
		}
		c := r.get(t, id)
		if c.Outcome.Reason != tt.reason || c.Outcome.DecidedBy != outcome.DecidedByLookup || c.Outcome.StoppedBy == "" || !tt.check(c.Outcome) {
			t.Errorf("%s gives %+v", tt.finding, c.Outcome)
		}
		if c.Reconciliation == nil || c.Reconciliation.Phase != commands.PhaseClosed || c.Reconciliation.NextLookupAt != nil {
			t.Errorf("%s leaves the doubt %+v", tt.finding, c.Reconciliation)
		}
		settled := r.count(t, `SELECT count(*) FROM attempts WHERE command_id = $1 AND settled_by = 'lookup'`, id)
		if (settled == 1) != (tt.finding == outcome.FindingAbsent) {
			t.Errorf("%s settled %d attempts", tt.finding, settled)
		}
		var previous *string
		r.scan(t, `SELECT data ->> 'previous_state' FROM events WHERE command_id = $1 AND sequence = 2`, []any{id}, &previous)
		if previous == nil || *previous != "unresolved" {
			t.Errorf("%s: previous state %v", tt.finding, previous)
		}
	}
}

// TestWhatWasKeptIsWeighedAtOnce: a finding that came while an attempt was under
// way makes the doubt due as soon as it opens, also where nobody can be asked.
func TestWhatWasKeptIsWeighedAtOnce(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("kept", "charge")).ID
	r.begin(t, id)
	if effect, err := r.learn(t.Context(), id, found(outcome.FindingApplied)); err != nil || effect != commands.EffectKept {
		t.Fatal(effect, err)
	}
	r.finish(t, id, lost, outcome.StateUnresolved)
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND next_at <= now()`, id); n != 1 {
		t.Error("nobody is told that something is known already")
	}
	other := r.in(t, "other", outcome.StateUnresolved)
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND next_at IS NULL AND handed_reason = $2`, other, commands.ReviewNoLookup); n != 1 {
		t.Error("an operation without a lookup is not handed to a person")
	}
}

const lookupProfile = profile + `
  search:
    method: POST
    path: /search-payments
    body: json
    lookup:
      path: /payments
      query: {reference: "{key}"}
      findings: [{when: status == 200, finding: applied}]
      schedule: {first_after: 3s, factor: 2, max_interval: 1m, give_up_after: 1h}
      absence: {settles_after: 1m, then: resend}
  repeat:
    method: POST
    path: /repeats
    body: json
    idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h}
    lookup: {replay: true, schedule: {first_after: 3s, factor: 2, max_interval: 1m, give_up_after: 1h}}
`

// TestADoubtIsFollowedUp: the plan of lookups is committed with the outcome.
func TestADoubtIsFollowedUp(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)
	id := r.unresolved(t, "followed")
	c := r.get(t, id)
	rec := c.Reconciliation
	if rec == nil || rec.Phase != "lookup" || rec.NextLookupAt == nil || c.Outcome.NextAction != outcome.NextActionLookup {
		t.Fatalf("%+v", rec)
	}
	if wait := rec.NextLookupAt.Sub(*c.FinalizedAt); wait != 3*time.Second {
		t.Errorf("first lookup after %s", wait)
	}
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND gives_up_at = since + interval '1 hour'`, id); n != 1 {
		t.Error("the schedule has no end")
	}
	err := r.inTx(t.Context(), id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		return nil, r.store.HandToReview(t.Context(), tx, c, "schedule_used_up")
	})
	if err != nil {
		t.Fatal(err)
	}
	c = r.get(t, id)
	if c.State != outcome.StateUnresolved || c.Reconciliation.Phase != "review" || c.Reconciliation.NextLookupAt != nil || c.Outcome.NextAction != outcome.NextActionReview {
		t.Errorf("after the schedule: %+v %+v", c.Reconciliation, c.Outcome)
	}
}

func (r *rig) unresolved(t *testing.T, key string) uuid.UUID {
	t.Helper()
	s := submission(key, "search")
	s.Body, s.HasBody = []byte(`{"amount":100}`), true
	id := r.submit(t, s).ID
	r.attempt(t, id, lost, outcome.StateUnresolved)
	return id
}

// resend asks for one more attempt.
func (r *rig) resend(t *testing.T, id uuid.UUID, how commands.Resend, settledBy string) error {
	t.Helper()
	return r.inTx(t.Context(), id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		return r.store.Resend(t.Context(), tx, c, how, settledBy, "ann")
	})
}

// TestAResendIsOneAttempt: it is allowed where it is safe, is consumed by one
// attempt, and leaves the caller's outcome as it was until then.
func TestAResendIsOneAttempt(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)
	id := r.unresolved(t, "resent")
	var unsafe *commands.NotResendable
	if err := r.resend(t, id, commands.ResendOperator, ""); !errors.As(err, &unsafe) || unsafe.Reason != outcome.ReasonAmbiguous {
		t.Fatalf("a doubtful keyless command: %v", err)
	}
	before := r.get(t, id)
	if err := r.resend(t, id, commands.ResendOperator, "operator"); err != nil {
		t.Fatal(err)
	}
	c := r.get(t, id)
	if c.State != outcome.StatePending || c.Final() || !sameOutcome(c.Outcome, before.Outcome) || !c.Deadline.After(before.Deadline) || c.Reconciliation.Phase != "review" {
		t.Errorf("after the resend: %+v", c)
	}
	if n := r.count(t, `SELECT count(*) FROM river_job j JOIN commands c ON c.job_id = j.id WHERE c.id = $1`, id); n != 1 {
		t.Error("no job for the one attempt")
	}
	r.begin(t, id)
	f := r.facts(t, id)
	if !f.OutcomeDelivered {
		t.Error("after the attempt another would be allowed")
	}
	r.finish(t, id, lost, outcome.StateUnresolved)
	if c := r.get(t, id); c.Outcome.Sequence != 2 || r.count(t, `SELECT count(*) FROM commands WHERE id = $1 AND resend IS NULL`, id) != 1 {
		t.Errorf("after the one attempt: %+v", c.Outcome)
	}
}

// facts are those after the command's open attempt.
func (r *rig) facts(t *testing.T, id uuid.UUID) (f outcome.Facts) {
	t.Helper()
	err := r.inTx(t.Context(), id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		terms, err := r.store.Terms(t.Context(), c)
		f = commands.FactsOf(terms, c, nil)
		return nil, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestAReplayIsAQuestion: one that leaves the doubt announces nothing, and the
// schedule goes on where it was.
func TestAReplayIsAQuestion(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)
	id := r.repeated(t, "replayed")
	r.exec(t, `UPDATE doubts SET rounds = 2, absents = 1 WHERE command_id = $1`, id)
	if err := r.resend(t, id, commands.ResendReplay, ""); err != nil {
		t.Fatal(err)
	}
	r.attempt(t, id, lost, outcome.StateUnresolved)
	c := r.get(t, id)
	if c.Outcome.Sequence != 1 || c.Sequence != 1 || c.Reconciliation.NextLookupAt == nil || c.Reconciliation.AbsentInARow != 1 {
		t.Errorf("after a replay without an answer: %+v %+v", c.Outcome, c.Reconciliation)
	}
	if n := r.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND sequence > 0`, id); n != 1 {
		t.Errorf("%d outcomes announced", n)
	}
	if err := r.resend(t, id, commands.ResendReplay, ""); err != nil {
		t.Fatal(err)
	}
	r.attempt(t, id, applied, outcome.StateSuccess)
	var previous string
	r.scan(t, `SELECT data ->> 'previous_state' FROM events WHERE command_id = $1 AND sequence = 2`, []any{id}, &previous)
	if previous != "unresolved" {
		t.Errorf("previous state %q", previous)
	}
}

// repeated is a command in doubt that may be sent again as a question.
func (r *rig) repeated(t *testing.T, key string) uuid.UUID {
	t.Helper()
	s := submission(key, "repeat")
	s.Body, s.HasBody = []byte(`{"amount":100}`), true
	id := r.submit(t, s).ID
	r.attempt(t, id, lost, outcome.StateUnresolved)
	return id
}

// TestAReplayOfWhatAPersonHas leaves it with them, and so does one after which nobody
// can be asked any more.
func TestAReplayOfWhatAPersonHas(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)
	theirs := r.repeated(t, "theirs")
	err := r.inTx(t.Context(), theirs, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		return nil, r.store.HandToReview(t.Context(), tx, c, "schedule_used_up")
	})
	if err != nil {
		t.Fatal(err)
	}
	unreadable := r.repeated(t, "unreadable")
	for _, id := range []uuid.UUID{theirs, unreadable} {
		if err := r.resend(t, id, commands.ResendReplay, ""); err != nil {
			t.Fatal(err)
		}
	}
	r.attempt(t, theirs, lost, outcome.StateUnresolved)
	r.exec(t, `UPDATE upstream_versions SET source = 'version: 0'`)
	upgraded := newRigOn(t, r.pool) // has read nothing yet
	upgraded.attempt(t, unreadable, lost, outcome.StateUnresolved)
	for id, why := range map[uuid.UUID]string{theirs: "schedule_used_up", unreadable: commands.ReviewNoLookup} {
		c := r.get(t, id)
		if c.Reconciliation.Phase != "review" || c.Reconciliation.NextLookupAt != nil || c.Outcome.NextAction != outcome.NextActionReview || c.Sequence != 1 {
			t.Errorf("%s: %+v, %+v", why, c.Reconciliation, c.Outcome)
		}
		if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND handed_at IS NOT NULL AND handed_reason = $2`, id, why); n != 1 {
			t.Errorf("%s: it is in nobody's queue", why)
		}
	}
}

// TestAnAbsencesResendKeepsToTheDeadline: a confirmed absence gives no new time.
func TestAnAbsencesResendKeepsToTheDeadline(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)
	id := r.unresolved(t, "late")
	r.exec(t, `UPDATE commands SET deadline = now() WHERE id = $1`, id)
	var no *commands.NotResendable
	if err := r.resend(t, id, commands.ResendAbsence, "lookup"); !errors.As(err, &no) || no.Reason != outcome.ReasonDeadline {
		t.Errorf("after the deadline: %v", err)
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE command_id = $1 AND settled_by <> ''`, id); n != 0 {
		t.Error("a refused resend settled an attempt")
	}
}

// TestCorrect: a person, and nothing else, changes an absorbed state.
func TestCorrect(t *testing.T) {
	r := newRig(t)
	for _, from := range outcome.States() {
		for _, to := range outcome.States() {
			id := r.in(t, uuid.NewString(), from)
			err := r.inTx(t.Context(), id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
				return r.store.Correct(t.Context(), tx, c, commands.Correction{State: to, Reference: "pay_1"}, "ann")
			})
			if legal := outcome.CanCorrect(from, to); (err == nil) != legal {
				t.Errorf("from %s to %s: %v", from, to, err)
			} else if !legal {
				continue
			}
			c := r.get(t, id)
			if c.State != to || c.Outcome.DecidedBy != outcome.DecidedByOperator || c.Outcome.Sequence != 2 {
				t.Errorf("from %s to %s: %+v", from, to, c.Outcome)
			}
			if n := r.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND type = 'command.corrected' AND data ->> 'previous_state' = $2 AND actor = 'ann'`, id, from); n != 1 {
				t.Errorf("from %s to %s: %d events", from, to, n)
			}
		}
	}
}
