package commands_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// resent is a command without a key whose attempt was lost, that an absence has
// settled since and that is to be sent once more.
func (r *rig) resent(t *testing.T) uuid.UUID {
	t.Helper()
	id := r.unresolved(t, uuid.NewString())
	if err := r.resend(t, id, commands.ResendAbsence, "lookup"); err != nil {
		t.Fatal(err)
	}
	return id
}

func (r *rig) learned(t *testing.T, id uuid.UUID, k commands.Knowledge, effect commands.Effect, state outcome.State) {
	t.Helper()
	got, err := r.learn(t.Context(), id, k)
	if err != nil {
		t.Fatal(err)
	}
	if c := r.get(t, id); got != effect || c.State != state {
		t.Errorf("it is %s and %s, want %s and %s", got, c.State, effect, state)
	}
}

// TestAnUpstreamThatHadItAfterAll: its own answer, that it is at work on an attempt,
// outweighs the absence that settled it, in whatever state it comes.
func TestAnUpstreamThatHadItAfterAll(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)

	waiting := r.resent(t)
	r.learned(t, waiting, late(1, accepted), commands.EffectSettled, outcome.StateUnresolved)
	if o := r.get(t, waiting).Outcome; o.Reason != outcome.OutcomeReasonRemotePending || o.SafeToResubmit {
		t.Errorf("outcome %+v", o)
	}

	sending := r.resent(t)
	r.begin(t, sending)
	r.learned(t, sending, late(1, accepted), commands.EffectKept, outcome.StateExecuting)
	r.finish(t, sending, refused, outcome.StateUnresolved)

	sent := r.resent(t)
	r.attempt(t, sent, lost, outcome.StateUnresolved)
	r.learned(t, sent, late(1, accepted), commands.EffectNone, outcome.StateUnresolved)
	r.learned(t, sent, late(2, refused), commands.EffectNone, outcome.StateUnresolved)

	cancelled := r.unresolved(t, "cancelled")
	r.learned(t, cancelled, found(outcome.FindingAbsent), commands.EffectSettled, outcome.StateCancelled)
	r.learned(t, cancelled, late(1, accepted), commands.EffectConflict, outcome.StateCancelled)
}

// TestAFindingDeniesTheAbsence because of which a command waits to be sent once more:
// nothing is sent on the word of an absence that was none.
func TestAFindingDeniesTheAbsence(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)

	r.learned(t, r.resent(t), found(outcome.FindingApplied), commands.EffectSettled, outcome.StateSuccess)

	there := r.resent(t)
	r.learned(t, there, found(outcome.FindingPending), commands.EffectSettled, outcome.StateUnresolved)
	c := r.get(t, there)
	if c.Outcome.Reason != outcome.OutcomeReasonNoResponse || c.Outcome.NextAction != outcome.NextActionLookup || c.Sequence != 2 {
		t.Errorf("outcome %+v", c.Outcome)
	}
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND seen AND next_at IS NOT NULL`, there); n != 1 {
		t.Error("the sight of it is forgotten, or nobody asks")
	}
	if err := r.resend(t, there, commands.ResendOperator, ""); err == nil {
		t.Error("it may be sent once more without anybody's finding")
	}

	// Under a living key nothing was settled: the repeat is as safe as before.
	keyed := r.after(t, "keyed", "pay", outcome.StateUnresolved, lost)
	if err := r.resend(t, keyed, commands.ResendOperator, ""); err != nil {
		t.Fatal(err)
	}
	r.learned(t, keyed, found(outcome.FindingPending), commands.EffectNone, outcome.StatePending)
}

// TestASightOutlivesAResend that leaves the old doubt: what was there once and is not
// found after it is no absence. Who settles the old attempts takes the sight back.
func TestASightOutlivesAResend(t *testing.T) {
	r := newRig(t)
	for settledBy, want := range map[string]int{"": 1, "operator": 0} {
		id := r.after(t, uuid.NewString(), "pay", outcome.StateUnresolved, lost)
		r.exec(t, `UPDATE doubts SET seen = true, absents = 1, last_absent_at = now() WHERE command_id = $1`, id)
		if err := r.resend(t, id, commands.ResendOperator, settledBy); err != nil {
			t.Fatal(err)
		}
		r.attempt(t, id, lost, outcome.StateUnresolved)
		if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND seen`, id); n != want {
			t.Errorf("settled by %q it is seen %d times, want %d", settledBy, n, want)
		}
		if n := r.count(t, `SELECT absents FROM doubts WHERE command_id = $1`, id); n != 0 {
			t.Errorf("%d absents from before the resend", n)
		}
	}
}

// TestWhatWasKeptContradicts: a finding that had to wait for an attempt is a conflict
// if the attempt ends in something else, and not lost.
func TestWhatWasKeptContradicts(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)
	for name, tt := range map[string]struct {
		finding   outcome.Finding
		source    outcome.DecidedBy
		early     bool // it comes before the attempt
		end       ending
		state     outcome.State
		conflicts int
	}{
		"done, then refused":           {"applied", outcome.DecidedByLookup, false, refused, outcome.StateRejected, 1},
		"done, then not sent":          {"applied", outcome.DecidedByReport, false, unsent, outcome.StateCancelled, 1},
		"done, then done":              {"applied", outcome.DecidedByLookup, false, applied, outcome.StateSuccess, 0},
		"refused, then done":           {"refused", outcome.DecidedByLookup, false, applied, outcome.StateSuccess, 1},
		"refused before it, then done": {"refused", outcome.DecidedByLookup, true, applied, outcome.StateSuccess, 0},
		"refused, then refused":        {"refused", outcome.DecidedByLookup, false, refused, outcome.StateRejected, 0},
		"a notice is weighed as such":  {"applied", outcome.DecidedByNotice, false, refused, outcome.StateRejected, 0},
	} {
		t.Run(name, func(t *testing.T) {
			id := r.submit(t, submission(uuid.NewString(), "charge")).ID
			if !tt.early {
				r.begin(t, id)
			}
			k := found(tt.finding)
			k.Source = tt.source
			if effect, err := r.learn(t.Context(), id, k); err != nil || effect != commands.EffectKept {
				t.Fatal(effect, err)
			}
			if tt.early {
				r.begin(t, id)
			}
			before := r.get(t, id).Version
			r.finish(t, id, tt.end, tt.state)
			if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1 AND effect = 'conflict'`, id); n != tt.conflicts {
				t.Errorf("%d conflicts, want %d", n, tt.conflicts)
			}
			if n := r.count(t, `SELECT count(*) FROM events WHERE command_id = $1 AND type = 'command.conflict'`, id); n != tt.conflicts {
				t.Errorf("%d conflicts shown, want %d", n, tt.conflicts)
			}
			if c := r.get(t, id); c.Version != before+1+tt.conflicts {
				t.Errorf("version %d after %d", c.Version, before)
			}
		})
	}
}

// TestARefusalOfAnEarlierMoment does not speak for an attempt that came after it,
// whenever it is told.
func TestARefusalOfAnEarlierMoment(t *testing.T) {
	r := newRig(t)
	r.apply(t, lookupProfile)
	id := r.unresolved(t, "asked")
	var asked time.Time
	r.scan(t, `SELECT clock_timestamp()`, nil, &asked)
	if err := r.resend(t, id, commands.ResendAbsence, "lookup"); err != nil {
		t.Fatal(err)
	}
	old := found(outcome.FindingRefused)
	old.AsOf = asked
	r.begin(t, id)
	r.learned(t, id, old, commands.EffectNone, outcome.StateExecuting)
	r.finish(t, id, lost, outcome.StateUnresolved)
	r.learned(t, id, old, commands.EffectNone, outcome.StateUnresolved)
	r.scan(t, `SELECT clock_timestamp()`, nil, &old.AsOf)
	r.learned(t, id, old, commands.EffectSettled, outcome.StateRejected)

	unsent := r.unresolved(t, "unsent")
	r.scan(t, `SELECT clock_timestamp()`, nil, &old.AsOf)
	r.exec(t, `UPDATE attempts SET started_at = clock_timestamp(), boundary = 'not_crossed' WHERE command_id = $1`, unsent)
	r.learned(t, unsent, old, commands.EffectSettled, outcome.StateRejected)
}
