package commands_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/testkit"
	"executor/outcome"
)

// waiting starts a Wait and returns where its answer comes.
func (r *rig) waiting(t *testing.T, ctx context.Context, id uuid.UUID) <-chan commands.Command {
	t.Helper()
	got := make(chan commands.Command, 1)
	go func() {
		c, err := r.store.Wait(ctx, tenant, id)
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	return got
}

func TestWait(t *testing.T) {
	pool := testkit.Database(t)
	here, there := newRigOn(t, pool), newRigOn(t, pool)
	for name, ending := range map[string]*rig{"ended by this process": here, "ended by another one": there} {
		t.Run(name, func(t *testing.T) {
			id := here.submit(t, submission(name, "charge")).ID
			got := here.waiting(t, bounded(t), id)
			ending.begin(t, id)
			ending.finish(t, id, applied, outcome.StateSuccess)
			if c := <-got; c.State != outcome.StateSuccess {
				t.Errorf("woken while it is %s", c.State)
			}
		})
	}
}

func TestWaitForWhatIsOver(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "charge")).ID
	r.attempt(t, id, lost, outcome.StateUnresolved)
	if c, err := r.store.Wait(bounded(t), tenant, id); err != nil || c.State != outcome.StateUnresolved {
		t.Errorf("%s, %v", c.State, err)
	}
	if !r.store.Ended(bounded(t), id) {
		t.Error("a command that is over has not ended")
	}
	if _, err := r.store.Wait(t.Context(), tenant, uuid.New()); !errors.Is(err, commands.ErrNotFound) {
		t.Errorf("an unknown command: %v", err)
	}
}

// TestWaitRunsOut: whoever stops waiting gets the command as it stands.
func TestWaitRunsOut(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "charge")).ID
	over, cancel := context.WithCancel(t.Context())
	got := r.waiting(t, over, id)
	r.begin(t, id) // no end: nobody is woken
	cancel()
	if c := <-got; c.ID != id || c.Final() {
		t.Errorf("%+v", c)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if c, err := r.store.Wait(late, tenant, id); err != nil || c.State != outcome.StateExecuting {
		t.Errorf("%s, %v", c.State, err)
	}
	if r.store.Ended(late, id) {
		t.Error("a running command has ended")
	}
}

// TestWaitAfterAResend: an earlier end wakes nobody who waits for the next one.
func TestWaitAfterAResend(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "charge")).ID
	r.attempt(t, id, lost, outcome.StateUnresolved)
	r.move(t, id, func(c commands.Locked) commands.Move {
		return commands.Move{Command: c, To: outcome.StatePending, Attempts: c.Attempts, NextAttemptAt: c.Now}
	})
	if c := r.get(t, id); c.Final() || c.FinalizedAt != nil || c.Outcome == nil || c.Outcome.State != outcome.StateUnresolved || c.Sequence != 1 {
		t.Errorf("under way again: %+v", c)
	}
	got := r.waiting(t, bounded(t), id)
	r.attempt(t, id, applied, outcome.StateSuccess)
	if c := <-got; c.State != outcome.StateSuccess || c.Outcome.Sequence != 2 {
		t.Errorf("woken while it is %s", c.State)
	}
}

// TestManyWaiters: everybody who waits for a command is woken by its one end.
func TestManyWaiters(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("k", "charge")).ID
	var all []<-chan commands.Command
	for range 20 {
		all = append(all, r.waiting(t, bounded(t), id))
	}
	r.attempt(t, id, refused, outcome.StateRejected)
	for _, got := range all {
		if c := <-got; c.State != outcome.StateRejected {
			t.Errorf("woken while it is %s", c.State)
		}
	}
}
