package commands_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestRaces lets several processes cancel, begin, finish, learn and close many
// commands at once. Every history that comes out is one that the table of
// transitions allows, and nothing that ended is ever changed again.
func TestRaces(t *testing.T) {
	const many = 30
	pool := testkit.Database(t)
	rigs := []*rig{newRigOn(t, pool), newRigOn(t, pool)}
	watchTransitions(t, rigs[0])
	ids := make([]uuid.UUID, many)
	for i := range ids {
		operation := []string{"pay", "charge", "balance"}[i%3]
		ids[i] = rigs[0].submit(t, submission(fmt.Sprint(i), operation)).ID
	}
	rigs[0].exec(t, `UPDATE commands SET deadline = now() + interval '1100 milliseconds' WHERE idempotency_key LIKE '%4'`)
	var racing sync.WaitGroup
	for i, id := range ids {
		r := rigs[i%2]
		other := rigs[(i+1)%2]
		racing.Go(func() { r.play(t, id) })
		racing.Go(func() { other.meddle(t, id) })
	}
	racing.Go(func() {
		for range 20 {
			if _, err := rigs[0].store.CloseOverdue(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	racing.Wait()
	for _, id := range ids {
		rigs[0].checkHistory(t, id)
	}
}

// play makes attempts until the command is over, as an engine would.
func (r *rig) play(t *testing.T, id uuid.UUID) {
	for range 6 {
		if err := r.tryBegin(t.Context(), id); err != nil {
			if c := r.get(t, id); !c.Final() {
				t.Errorf("begin while it is %s: %v", c.State, err)
			}
			return // the step out of a final state is refused
		}
		seen := []ending{lost, applied, refused, declined, unclear}[rand.IntN(5)]
		if err := r.finishByRules(t.Context(), id, seen); err != nil {
			t.Errorf("finish: %v", err)
			return
		}
	}
}

// finishByRules ends the open attempt and moves the command as the rules say.
func (r *rig) finishByRules(ctx context.Context, id uuid.UUID, e ending) error {
	return r.inTx(ctx, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		if err := closeAttempt(ctx, tx, c, e); err != nil {
			return nil, err
		}
		history, err := r.store.History(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return nil, err
		}
		terms, err := r.store.Terms(ctx, c)
		if err != nil {
			return nil, err
		}
		facts := commands.FactsOf(terms, c, history[id])
		facts.BudgetTokens = 1
		d := outcome.Decide(facts)
		m := commands.Move{Command: c, To: outcome.StatePending, Attempts: c.Attempts, NextAttemptAt: d.RetryAt}
		if d.Outcome != nil {
			m.To, m.Outcome = d.Outcome.State, commands.FinalOf(*d.Outcome, d.Reason, outcome.DecidedByAttempt, history[id])
		}
		return r.store.Move(ctx, tx, []commands.Move{m})
	})
}

// meddle cancels, tells of late evidence and reads, in any order.
func (r *rig) meddle(t *testing.T, id uuid.UUID) {
	deeds := []func() error{
		func() error {
			_, _, err := r.store.Cancel(t.Context(), tenant, id, audit.By{Actor: "caller"})
			return err
		},
		func() error { _, err := r.store.Get(t.Context(), tenant, id); return err },
		func() error { _, err := r.store.Events(t.Context(), tenant, id); return err },
	}
	for i, e := range []ending{applied, refused, accepted, declined, unsent, unclear} {
		k := late(1+i%2, e)
		k.Actor = fmt.Sprint("zombie ", i)
		deeds = append(deeds, func() error { _, err := r.learn(t.Context(), id, k); return err })
	}
	rand.Shuffle(len(deeds), func(i, j int) { deeds[i], deeds[j] = deeds[j], deeds[i] })
	for _, do := range deeds {
		if err := do(); err != nil {
			t.Errorf("meddle: %v", err)
		}
	}
}

// watchTransitions has the database itself write down every change of a state.
func watchTransitions(t *testing.T, r *rig) {
	t.Helper()
	r.exec(t, `CREATE TABLE steps (n bigint GENERATED ALWAYS AS IDENTITY, id uuid, before text, after text, version int, sequence int)`)
	r.exec(t, `
		CREATE FUNCTION step() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO steps (id, before, after, version, sequence) VALUES (NEW.id, OLD.state, NEW.state, NEW.version, NEW.sequence);
			IF NEW.version <> OLD.version AND NEW.version <> OLD.version + 1 THEN RAISE 'version % after %', NEW.version, OLD.version; END IF;
			RETURN NEW;
		END $$`)
	r.exec(t, `CREATE TRIGGER step AFTER UPDATE ON commands FOR EACH ROW EXECUTE FUNCTION step()`)
}

func (r *rig) checkHistory(t *testing.T, id uuid.UUID) {
	t.Helper()
	rows, err := r.pool.Query(t.Context(), `SELECT before, after, sequence FROM steps WHERE id = $1 ORDER BY n`, id)
	if err != nil {
		t.Fatal(err)
	}
	type step struct {
		Before, After outcome.State
		Sequence      int
	}
	steps, err := pgx.CollectRows(rows, pgx.RowToStructByPos[step])
	if err != nil {
		t.Fatal(err)
	}
	at, ends := outcome.StatePending, 0
	for _, s := range steps {
		if s.Before != at || (s.After != s.Before && !outcome.CanMove(s.Before, s.After)) {
			t.Errorf("command %s went from %s to %s, being %s", id, s.Before, s.After, at)
		}
		if s.After != s.Before && s.After.Final() {
			ends++
		}
		if s.Sequence != ends {
			t.Errorf("command %s has sequence %d after %d ends", id, s.Sequence, ends)
		}
		at = s.After
	}
	c := r.get(t, id)
	if c.State != at || c.Sequence != ends || c.Outcome == nil || c.Outcome.Sequence != ends || c.Outcome.State != c.State {
		t.Errorf("command %s is %s with %d ends, told %+v", id, c.State, ends, c.Outcome)
	}
	r.checkEvents(t, id, c)
}

// checkEvents: numbers and sequences grow, and the last outcome is what is told.
func (r *rig) checkEvents(t *testing.T, id uuid.UUID, c commands.Command) {
	t.Helper()
	var sequences []int
	last := ""
	ids := make(map[uuid.UUID]bool)
	for i, e := range r.events(t, id) {
		if e.Number != i+1 || ids[e.ID] {
			t.Errorf("command %s: event %+v in place %d", id, e, i+1)
		}
		ids[e.ID] = true
		if e.Sequence > 0 {
			sequences, last = append(sequences, e.Sequence), e.Type
		}
	}
	want := make([]int, c.Sequence)
	for i := range want {
		want[i] = i + 1
	}
	if !slices.Equal(sequences, want) || last != commands.EventType(c.State) {
		t.Errorf("command %s is %s: sequences %v, the last of %s", id, c.State, sequences, last)
	}
}

// TestStaleStep: what was read before somebody else's step can no longer be
// acted on.
func TestStaleStep(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "pay")).ID
	var stale commands.Locked
	_ = r.inTx(t.Context(), id, func(_ pgx.Tx, c commands.Locked) ([]commands.Moved, error) { stale = c; return nil, nil })
	if _, err := r.learn(t.Context(), id, late(1, unclear)); err != nil {
		t.Fatal(err)
	}
	err := r.tryMove(t.Context(), id, func(commands.Locked) commands.Move { return into(outcome.StateExecuting)(stale) })
	if !errors.Is(err, commands.ErrConflict) {
		t.Errorf("got %v", err)
	}
}

// TestLockWaits: two steps of one command queue up behind its row.
func TestLockWaits(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "pay")).ID
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	locked, err := r.store.Lock(t.Context(), tx, []uuid.UUID{id})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan commands.CancelResult, 1)
	go func() {
		_, res, err := r.store.Cancel(bounded(t), tenant, id, audit.By{Actor: "caller"})
		if err != nil {
			t.Error(err)
		}
		result <- res
	}()
	eventually(t, "the cancel's wait for the lock", func() bool {
		return r.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 1
	})
	if _, err := r.store.Move(t.Context(), tx, []commands.Move{into(outcome.StateExecuting)(locked[id])}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := <-result; res != commands.CancelRequested {
		t.Errorf("cancel of what had just begun: %s", res)
	}
}

// eventually waits for a state that something else brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, ok)
}
