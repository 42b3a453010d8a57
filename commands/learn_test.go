package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// late is what came late of an attempt.
func late(attempt int, e ending) commands.Knowledge {
	return commands.Knowledge{
		Source: outcome.DecidedByLateEvidence, Actor: "zombie", Attempt: attempt, Evidence: e.evidence, Category: e.category,
		Answer: e.answer, Status: e.status, Reference: e.reference, Body: e.body,
	}
}

func (r *rig) learn(ctx context.Context, id uuid.UUID, k commands.Knowledge) (commands.Effect, error) {
	var (
		effect commands.Effect
		moved  []commands.Moved
	)
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		var err error
		effect, moved, err = r.store.Learn(ctx, tx, id, k)
		return err
	})
	if err == nil {
		r.store.Changed(moved)
	}
	return effect, err
}

// situations are commands of which an attempt's late evidence comes in.
var situations = []struct {
	name    string
	make    func(t *testing.T, r *rig, key string) uuid.UUID
	attempt int // the one that the evidence is about
	effects map[string]string
}{
	{
		"pending, after a lost attempt", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StatePending, lost)
		}, 1, map[string]string{
			"applied": "settled success", "pending": "settled unresolved", "refused": "settled rejected",
			"declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"pending, after another attempt", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StatePending, lost, unclear)
		}, 1, map[string]string{
			"applied": "settled success", "pending": "none", "refused": "none", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"executing the next attempt", func(t *testing.T, r *rig, key string) uuid.UUID {
			id := r.after(t, key, "pay", outcome.StatePending, lost)
			r.begin(t, id)
			return id
		}, 1, map[string]string{
			"applied": "kept", "pending": "kept", "refused": "kept", "declined": "kept", "unclear": "kept", "not_sent": "kept",
		},
	}, {
		"unresolved", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateUnresolved, lost)
		}, 1, map[string]string{
			"applied": "settled success", "pending": "none", "refused": "settled rejected", "declined": "settled cancelled",
			"unclear": "none", "not_sent": "settled cancelled",
		},
	}, {
		"unresolved, in doubt twice", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StateUnresolved, lost, lost)
		}, 1, map[string]string{
			"applied": "settled success", "pending": "none", "refused": "none", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"unresolved, in doubt twice, about the last", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StateUnresolved, lost, lost)
		}, 2, map[string]string{ // 422 speaks for every attempt under the key
			"applied": "settled success", "pending": "none", "refused": "settled rejected", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"success by another attempt", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StateSuccess, lost, applied)
		}, 1, map[string]string{
			"applied": "none", "pending": "none", "refused": "none", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"success by this very attempt", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateSuccess, applied)
		}, 1, map[string]string{
			"applied": "none", "pending": "none", "refused": "conflict", "declined": "conflict", "unclear": "none", "not_sent": "conflict",
		},
	}, {
		"rejected for all attempts", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "pay", outcome.StateRejected, lost, refused)
		}, 1, map[string]string{
			"applied": "conflict", "pending": "conflict", "refused": "none", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"cancelled", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateCancelled, unsent)
		}, 1, map[string]string{
			"applied": "conflict", "pending": "conflict", "refused": "none", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"cancelled without that attempt on record", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "charge", outcome.StateCancelled, unsent)
		}, 7, map[string]string{
			"applied": "conflict", "pending": "conflict", "refused": "none", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	}, {
		"a read, cancelled", func(t *testing.T, r *rig, key string) uuid.UUID {
			return r.after(t, key, "balance", outcome.StateCancelled, lost)
		}, 1, map[string]string{ // it has no effect that could contradict
			"applied": "none", "pending": "none", "refused": "none", "declined": "none", "unclear": "none", "not_sent": "none",
		},
	},
}

// after submits a command and makes these attempts, of which the last leads to
// the state and the others to the next attempt.
func (r *rig) after(t *testing.T, key, operation string, state outcome.State, endings ...ending) uuid.UUID {
	t.Helper()
	id := r.submit(t, submission(key, operation)).ID
	for i, e := range endings {
		to := outcome.StatePending
		if i == len(endings)-1 {
			to = state
		}
		e.wait = time.Hour
		r.attempt(t, id, e, to)
	}
	return id
}

func TestLearn(t *testing.T) {
	evidence := map[string]ending{
		"applied": applied, "pending": accepted, "refused": refused, "declined": declined, "unclear": unclear, "not_sent": unsent,
	}
	r := newRig(t)
	for i, s := range situations {
		for word, e := range evidence {
			t.Run(s.name+"/"+word, func(t *testing.T) {
				id := s.make(t, r, fmt.Sprint(i, word))
				before := r.get(t, id)
				effect, err := r.learn(t.Context(), id, late(s.attempt, e))
				if err != nil {
					t.Fatal(err)
				}
				after := r.get(t, id)
				got := string(effect)
				if effect == commands.EffectSettled {
					got += " " + string(after.State)
				}
				if got != s.effects[word] {
					t.Errorf("%s, want %s", got, s.effects[word])
				}
				r.checkLearnt(t, s.attempt, before, after, effect)
			})
		}
	}
}

// checkLearnt looks at everything that an effect has to leave behind.
func (r *rig) checkLearnt(t *testing.T, attempt int, before, after commands.Command, effect commands.Effect) {
	t.Helper()
	if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1 AND attempt_number = $2 AND effect = $3`, after.ID, attempt, effect); n != 1 {
		t.Errorf("%d findings on record", n)
	}
	if after.Version <= before.Version {
		t.Errorf("version %d after %d: a reader does not see that anything changed", after.Version, before.Version)
	}
	types := r.eventTypes(t, after.ID)
	if conflict := strings.HasSuffix(types, "command.conflict"); conflict != (effect == commands.EffectConflict) {
		t.Errorf("events %s", types)
	}
	if effect != commands.EffectSettled {
		if after.State != before.State || after.Sequence != before.Sequence || !sameOutcome(after.Outcome, before.Outcome) {
			t.Errorf("%s changed %+v into %+v", effect, before, after)
		}
		return
	}
	o := after.Outcome
	if before.State.Absorbing() || after.Sequence != before.Sequence+1 || o.Sequence != after.Sequence || o.State != after.State ||
		o.DecidedBy != outcome.DecidedByLateEvidence || after.FinalizedAt == nil || !strings.HasSuffix(types, "command."+string(after.State)) {
		t.Errorf("settled as %+v, events %s", o, types)
	}
	if !slices.Contains(append(outcome.Reasons(), outcome.ReasonStatus(429)), o.StoppedBy) {
		t.Errorf("stopped by %q", o.StoppedBy)
	}
}

func sameOutcome(a, b *commands.Outcome) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func TestLearnAboutNothing(t *testing.T) {
	r := newRig(t)
	if _, err := r.learn(t.Context(), uuid.New(), late(1, applied)); !errors.Is(err, commands.ErrNotFound) {
		t.Errorf("an unknown command: %v", err)
	}
	if n := r.count(t, `SELECT count(*) FROM findings`); n != 0 {
		t.Errorf("%d findings", n)
	}
}

// TestLearnTwice: a report whose commit is unknown is made again, and counts once.
func TestLearnTwice(t *testing.T) {
	r := newRig(t)
	id := r.after(t, "k", "charge", outcome.StateUnresolved, lost)
	for range 3 {
		if effect, err := r.learn(t.Context(), id, late(1, applied)); err != nil || effect != commands.EffectSettled {
			t.Errorf("%s, %v", effect, err)
		}
	}
	if c := r.get(t, id); c.Sequence != 2 || r.count(t, `SELECT count(*) FROM findings`) != 1 {
		t.Errorf("sequence %d", c.Sequence)
	}
}

// TestLateEvidenceLiesOverItsAttempt, for the rules and for readers; the attempt
// itself stays as it was recorded.
func TestLateEvidenceLiesOverItsAttempt(t *testing.T) {
	r := newRig(t)
	id := r.after(t, "k", "pay", outcome.StatePending, lost, unclear)
	k := late(1, refused)
	k.RetryAfter, k.Code, k.Message, k.Reference = "7", "no", "not so", "ref"
	if _, err := r.learn(t.Context(), id, k); err != nil {
		t.Fatal(err)
	}
	history, err := r.store.History(t.Context(), r.pool, []uuid.UUID{id, uuid.New()})
	if err != nil || len(history) != 1 || len(history[id]) != 2 {
		t.Fatalf("history %+v, %v", history, err)
	}
	first, second := history[id][0], history[id][1]
	if first.Number != 1 || first.Evidence != outcome.EvidenceResponseReceived || first.Answer != outcome.AnswerRefused || first.Status != 422 ||
		first.Category != outcome.CategoryNone || first.RetryAfter != "7" || first.Code != "no" || first.Message != "not so" || first.Reference != "ref" ||
		first.Wait != time.Hour || first.StartedAt.IsZero() || first.EndedAt.IsZero() {
		t.Errorf("the first attempt looks like %+v", first)
	}
	if second.Number != 2 || second.Status != 503 || second.Answer != outcome.AnswerUnclear {
		t.Errorf("the second attempt looks like %+v", second)
	}
	if c := r.get(t, id); c.Record.Boundary != outcome.BoundaryPossiblyCrossed || c.Record.LastResponseClass != "5xx" || c.Record.Attempts != 2 {
		t.Errorf("record %+v", c.Record)
	}
	list, err := r.store.Attempts(t.Context(), tenant, id)
	if err != nil || list[0].Evidence != outcome.EvidenceSentNoResponse || list[0].Category != outcome.CategoryExecutorLost || list[0].Status != 0 {
		t.Errorf("the attempt on record became %+v, %v", list, err)
	}
}

// TestNewestEvidenceCounts, where several processes saw the same attempt.
func TestNewestEvidenceCounts(t *testing.T) {
	r := newRig(t)
	id := r.after(t, "k", "pay", outcome.StatePending, lost, unclear)
	for i, e := range []ending{declined, refused} {
		k := late(1, e)
		k.Actor = fmt.Sprint("zombie ", i)
		if _, err := r.learn(t.Context(), id, k); err != nil {
			t.Fatal(err)
		}
	}
	history, err := r.store.History(t.Context(), r.pool, []uuid.UUID{id})
	if err != nil || history[id][0].Answer != outcome.AnswerRefused {
		t.Errorf("%+v, %v", history[id], err)
	}
}

// TestOpenAttemptsAreNotHistory: the rules see what has ended.
func TestOpenAttemptsAreNotHistory(t *testing.T) {
	r := newRig(t)
	id := r.after(t, "k", "pay", outcome.StatePending, lost)
	r.begin(t, id)
	if history, err := r.store.History(t.Context(), r.pool, []uuid.UUID{id}); err != nil || len(history[id]) != 1 {
		t.Errorf("%+v, %v", history[id], err)
	}
	if history, err := r.store.History(t.Context(), r.pool, nil); err != nil || len(history) != 0 {
		t.Errorf("of nothing: %+v, %v", history, err)
	}
}

// TestResultOfLateEvidence: the body and the headers that came late are the
// command's result, whatever bytes they hold.
func TestResultOfLateEvidence(t *testing.T) {
	r := newRig(t)
	id := r.after(t, "k", "charge", outcome.StateUnresolved, lost)
	k := late(1, applied)
	k.Reference, k.Code, k.Message, k.RetryAfter = "pay\x00\xff9", "c\x00", "m\xff", "\x00"
	k.Body = []byte("{\"id\":\"\x00\xff\"}")
	k.Observation = json.RawMessage(`{"detail":"odd \u0000","response_headers":{"Content-Type":["text/odd"],"X-Odd":["a\u0000b"]},"notes":["\u0000"]}`)
	if effect, err := r.learn(t.Context(), id, k); err != nil || effect != commands.EffectSettled {
		t.Fatalf("%s, %v", effect, err)
	}
	c := r.get(t, id)
	got := c.Outcome.Result
	if got == nil || string(got.Body) != string(k.Body) || got.ContentType != "text/odd" || got.Headers.Get("X-Odd") != "a\x00b" || got.Status != 201 || got.Incomplete {
		t.Errorf("result %+v", got)
	}
	if got.Reference != "pay��9" {
		t.Errorf("reference %q", got.Reference)
	}
	list, _, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant, Reference: got.Reference})
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("listed by it: %+v, %v", list, err)
	}
}
