package commands_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// move takes one step.
func (r *rig) move(t testing.TB, id uuid.UUID, step func(commands.Locked) commands.Move) {
	t.Helper()
	if err := r.tryMove(t.Context(), id, step); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) tryMove(ctx context.Context, id uuid.UUID, step func(commands.Locked) commands.Move) error {
	return r.inTx(ctx, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		return r.store.Move(ctx, tx, []commands.Move{step(c)})
	})
}

// final is some outcome in a state.
func final(state outcome.State) *commands.Final {
	return &commands.Final{
		Outcome:   outcome.Outcome{State: state, Reason: outcome.OutcomeReasonNoEffect, NextAction: outcome.NextActionNone},
		StoppedBy: outcome.ReasonDeadline, DecidedBy: outcome.DecidedByDeadline,
	}
}

// into builds a step into a state with all that the state needs.
func into(to outcome.State) func(commands.Locked) commands.Move {
	return func(c commands.Locked) commands.Move {
		m := commands.Move{Command: c, To: to, Attempts: c.Attempts, NextAttemptAt: c.Now}
		if to.Final() {
			m.Outcome = final(to)
			if to == outcome.StateUnresolved {
				m.Outcome.NextAction = outcome.NextActionReview
			}
		}
		return m
	}
}

// in brings a new command into a state.
func (r *rig) in(t testing.TB, key string, state outcome.State) uuid.UUID {
	t.Helper()
	id := r.submit(t, submission(key, "charge")).ID
	if state != outcome.StatePending {
		r.move(t, id, into(outcome.StateExecuting))
	}
	if state.Final() {
		r.move(t, id, into(state))
	}
	return id
}

// TestTransitions tries every step between two states: the table says which are
// legal, and one that is not leaves nothing behind.
func TestTransitions(t *testing.T) {
	r := newRig(t)
	for _, from := range outcome.States() {
		for _, to := range outcome.States() {
			id := r.in(t, fmt.Sprintf("%s to %s", from, to), from)
			before, jobs := r.get(t, id), r.count(t, `SELECT count(*) FROM river_job`)
			err := r.tryMove(t.Context(), id, into(to))
			after := r.get(t, id)
			switch {
			case (err == nil) != outcome.CanMove(from, to):
				t.Errorf("%s to %s: %v", from, to, err)
			case err != nil && (after.State != from || after.Version != before.Version || r.count(t, `SELECT count(*) FROM river_job`) != jobs):
				t.Errorf("the refused step from %s to %s left %+v", from, to, after)
			case err == nil && (after.State != to || after.Version != before.Version+1):
				t.Errorf("%s to %s led to %s, version %d after %d", from, to, after.State, after.Version, before.Version)
			}
		}
	}
}

func TestMoveGuards(t *testing.T) {
	tests := []struct {
		name     string
		from     outcome.State
		step     func(commands.Locked) commands.Move
		conflict bool
	}{
		{"stale version", outcome.StatePending, func(c commands.Locked) commands.Move { c.Version--; return into(outcome.StateExecuting)(c) }, true},
		{"other state", outcome.StatePending, func(c commands.Locked) commands.Move {
			c.State = outcome.StateExecuting
			return into(outcome.StatePending)(c)
		}, true},
		{"no such command", outcome.StatePending, func(c commands.Locked) commands.Move {
			c.ID = uuid.New()
			return into(outcome.StateExecuting)(c)
		}, true},
		{"an end without an outcome", outcome.StateExecuting, func(c commands.Locked) commands.Move {
			return commands.Move{Command: c, To: outcome.StateSuccess}
		}, false},
		{"an outcome without an end", outcome.StatePending, func(c commands.Locked) commands.Move {
			return commands.Move{Command: c, To: outcome.StateExecuting, Outcome: final(outcome.StateSuccess)}
		}, false},
		{"an outcome of another state", outcome.StateExecuting, func(c commands.Locked) commands.Move {
			return commands.Move{Command: c, To: outcome.StateSuccess, Outcome: final(outcome.StateRejected)}
		}, false},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := r.in(t, tt.name, tt.from)
			err := r.tryMove(t.Context(), id, tt.step)
			if err == nil || errors.Is(err, commands.ErrConflict) != tt.conflict {
				t.Errorf("got %v, want a conflict %v", err, tt.conflict)
			}
			if c := r.get(t, id); c.State != tt.from {
				t.Errorf("it is %s now", c.State)
			}
		})
	}
}

// TestMoveIsWhole: of several steps in one call either all are taken or none,
// and the same command cannot take two.
func TestMoveIsWhole(t *testing.T) {
	r := newRig(t)
	a, b := r.in(t, "a", outcome.StatePending), r.in(t, "b", outcome.StatePending)
	steps := func(change func(map[uuid.UUID]commands.Locked) []commands.Move) error {
		return pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
			locked, err := r.store.Lock(t.Context(), tx, []uuid.UUID{a, b, uuid.New()})
			if err != nil || len(locked) != 2 {
				t.Fatalf("locked %v, %v", locked, err)
			}
			_, err = r.store.Move(t.Context(), tx, change(locked))
			return err
		})
	}
	err := steps(func(l map[uuid.UUID]commands.Locked) []commands.Move {
		stale := l[b]
		stale.Version++
		return []commands.Move{into(outcome.StateExecuting)(l[a]), into(outcome.StateExecuting)(stale)}
	})
	if !errors.Is(err, commands.ErrConflict) || r.get(t, a).State != outcome.StatePending {
		t.Errorf("one stale of two: %v, the other is %s", err, r.get(t, a).State)
	}
	err = steps(func(l map[uuid.UUID]commands.Locked) []commands.Move {
		return []commands.Move{into(outcome.StateExecuting)(l[a]), into(outcome.StateExecuting)(l[a])}
	})
	if !errors.Is(err, commands.ErrConflict) {
		t.Errorf("twice the same: %v", err)
	}
	err = steps(func(l map[uuid.UUID]commands.Locked) []commands.Move {
		return []commands.Move{into(outcome.StateExecuting)(l[a]), into(outcome.StateCancelled)(l[b])}
	})
	if err != nil || r.get(t, a).State != outcome.StateExecuting || r.get(t, b).State != outcome.StateCancelled {
		t.Errorf("both: %v", err)
	}
}

// announcer hears outcomes, and refuses them on demand.
type announcer struct {
	heard []commands.OutcomeEvent
	err   error
}

// Announce writes into the transaction as deliveries would.
func (a *announcer) Announce(ctx context.Context, tx commands.Tx, events []commands.OutcomeEvent) error {
	a.heard = append(a.heard, events...)
	for _, e := range events {
		if _, err := tx.Exec(ctx, `INSERT INTO owed (event) VALUES ($1)`, e.ID); err != nil {
			return err
		}
	}
	return a.err
}

// TestOutcomesAreAnnounced in the transaction that moves the state: event,
// deliveries, job and state stand or fall together.
func TestOutcomesAreAnnounced(t *testing.T) {
	a := &announcer{}
	r := newRig(t, func(c *commands.Config) { c.Announcer = a })
	r.exec(t, `CREATE TABLE owed (event uuid)`)
	id := r.in(t, "k", outcome.StateExecuting)
	step := into(outcome.StateUnresolved)

	a.err = errors.New("no room for a delivery")
	if err := r.tryMove(t.Context(), id, step); !errors.Is(err, a.err) {
		t.Errorf("refused announcement: %v", err)
	}
	rolledBack := errors.New("rolled back")
	a.err = nil
	err := r.inTx(t.Context(), id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		if _, err := r.store.Move(t.Context(), tx, []commands.Move{step(c)}); err != nil {
			t.Error(err)
		}
		return nil, rolledBack
	})
	if !errors.Is(err, rolledBack) {
		t.Error(err)
	}
	if c := r.get(t, id); c.State != outcome.StateExecuting || c.Outcome != nil || r.count(t, `SELECT (SELECT count(*) FROM events) + (SELECT count(*) FROM owed)`) != 0 {
		t.Errorf("after two rollbacks: %+v", c)
	}

	a.heard = nil
	r.move(t, id, step)
	r.move(t, id, into(outcome.StateSuccess))
	if len(a.heard) != 2 {
		t.Fatalf("%d outcomes announced, want 2", len(a.heard))
	}
	events := r.events(t, id)
	for i, e := range a.heard {
		stored := events[len(events)-2+i]
		want := []string{"command.unresolved", "command.success"}[i]
		if e.Type != want || e.Sequence != i+1 || e.CommandID != id || e.Tenant != tenant ||
			stored.ID != e.ID || stored.Type != e.Type || stored.Sequence != e.Sequence {
			t.Errorf("announced %+v, on record %+v", e, stored)
		}
		if n := r.count(t, `SELECT count(*) FROM owed WHERE event = $1`, e.ID); n != 1 {
			t.Errorf("%d deliveries of %s", n, e.Type)
		}
	}
	if a.heard[0].PreviousState != "" || a.heard[1].PreviousState != outcome.StateUnresolved {
		t.Errorf("previous states %q and %q", a.heard[0].PreviousState, a.heard[1].PreviousState)
	}
}

// TestJobsFollowTheState: only a pending command has a job, in the transaction
// that made it wait.
func TestJobsFollowTheState(t *testing.T) {
	r := newRig(t)
	job := func(id uuid.UUID) (state string, in time.Duration) {
		var due *time.Time
		r.scan(t, `SELECT coalesce(j.state::text, ''), j.scheduled_at FROM commands c LEFT JOIN river_job j ON j.id = c.job_id WHERE c.id = $1`, []any{id}, &state, &due)
		if due != nil {
			in = time.Until(*due)
		}
		return state, in
	}
	id := r.in(t, "k", outcome.StateExecuting)
	if state, _ := job(id); state != "" {
		t.Errorf("an executing command has a job, %s", state)
	}
	rolledBack := errors.New("rolled back")
	err := r.inTx(t.Context(), id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		if _, err := r.store.Move(t.Context(), tx, []commands.Move{into(outcome.StatePending)(c)}); err != nil {
			t.Error(err)
		}
		return nil, rolledBack
	})
	if n := r.count(t, `SELECT count(*) FROM river_job`); !errors.Is(err, rolledBack) || n != 1 {
		t.Errorf("%d jobs after a step that was rolled back, %v", n, err)
	}
	r.move(t, id, func(c commands.Locked) commands.Move {
		return commands.Move{Command: c, To: outcome.StatePending, Attempts: 1, NextAttemptAt: c.Now.Add(time.Hour), WaitFor: commands.WaitBackoff}
	})
	if state, in := job(id); state != "scheduled" || in < 50*time.Minute {
		t.Errorf("waits an hour: job %s in %s", state, in)
	}
	r.move(t, id, into(outcome.StatePending))
	if state, _ := job(id); state != "available" {
		t.Errorf("due: job %s", state)
	}
	r.move(t, id, func(c commands.Locked) commands.Move {
		c.Now = c.Now.Add(time.Hour) // the database's clock is ahead of ours
		return into(outcome.StatePending)(c)
	})
	if state, _ := job(id); state != "available" {
		t.Errorf("due by the database's clock: job %s", state)
	}
	r.move(t, id, into(outcome.StateCancelled))
	if state, _ := job(id); state != "" {
		t.Errorf("a final command has a job, %s", state)
	}
	if due, err := r.store.Heal(t.Context()); err != nil || due != 0 {
		t.Errorf("healed %d, %v", due, err)
	}
}
