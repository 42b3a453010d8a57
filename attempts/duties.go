package attempts

import (
	"context"
	"errors"
	"sync"
	"time"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// dutyBound is how long one round of anything may take that has no shorter
// bound, and readBound what only reads a little: a connection of the database
// that stands still must not hold it up for good.
const (
	dutyBound = 30 * time.Second
	readBound = 10 * time.Second
)

// renew keeps the lease. Where the database went backwards everybody is frozen
// before this process holds a lease again.
func (e *Engine) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.lease.ttl/2)
	defer cancel()
	err := e.lease.Hold(ctx)
	if !errors.Is(err, errRewound) {
		return err
	}
	e.log.Error("freezing", "reason", err)
	if err := e.deployment.freeze(ctx, audit.By{Actor: e.lease.instance, Reason: errRewound.Error()}, doubtOnce); err != nil {
		return err
	}
	e.lease.forget()
	return e.lease.Hold(ctx)
}

// tend looks after what rests on this process being alive: its retry budgets'
// share, its open attempts, its claims and the bodies that it alone has.
func (e *Engine) tend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dutyBound)
	defer cancel()
	return errors.Join(e.creditBudgets(ctx), e.recoverOwn(ctx), e.reclaim(ctx), e.tendHeld(ctx))
}

// creditBudgets pays in what this process's first attempts earned.
func (e *Engine) creditBudgets(ctx context.Context) error {
	e.mu.Lock()
	first := e.first
	e.first = make(map[int64]int)
	e.mu.Unlock()
	return e.store.Credit(ctx, first)
}

// recoverOwn closes open attempts of this process that it does not have in
// flight: the trace of a fault of our own. Whether they were sent is not known.
func (e *Engine) recoverOwn(ctx context.Context) error {
	open, err := e.store.OpenUnder(ctx, e.lease.Epochs())
	if err != nil {
		return err
	}
	e.closeLost(ctx, open, "this process lost track of the attempt")
	return nil
}

// reclaim takes up commands that this process has to look after and are not in
// a lane: their acceptance was committed, but its answer was lost, or their job
// runs here in the queue's rows only, because its end was lost.
func (e *Engine) reclaim(ctx context.Context) error {
	epoch, _, held := e.lease.Held()
	if !held || e.store.draining() {
		return nil
	}
	claimed, err := e.commands.Claimed(ctx, epoch)
	if err != nil {
		return err
	}
	running, err := e.commands.Running(ctx, e.lease.instance)
	if err != nil {
		return err
	}
	for _, d := range append(claimed, running...) {
		if l := e.lane(d.UpstreamID); l != nil && !l.has(d.ID) {
			l.push(&item{id: d.ID, due: time.Now(), priority: int(d.Priority)}, nil)
		}
	}
	return nil
}

// takeOver ends the leases of the dead, closes their open attempts as lost and
// hands their claims to the queue.
func (e *Engine) takeOver(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dutyBound)
	defer cancel()
	if e.lease.Steady() {
		n, err := e.store.EndLapsed(ctx)
		if err != nil {
			return err
		}
		if n > 0 {
			e.log.Warn("ended lapsed leases", "leases", n)
		}
	}
	open, err := e.store.OpenUnderEnded(ctx)
	if err != nil {
		return err
	}
	e.closeLost(ctx, open, "the process that made the attempt is gone")
	return errors.Join(e.repeat(ctx, e.commands.Unclaim), e.closeUnheld(ctx, nil))
}

// closeLost closes attempts that nobody will report about. Those under way in
// this very process, under an earlier lease, are left to their own finish.
func (e *Engine) closeLost(ctx context.Context, open []Open, why string) {
	var closing sync.WaitGroup
	for _, o := range open {
		if e.flights.has(o.CommandID) {
			continue
		}
		closing.Go(func() {
			done, err := e.store.Finish(ctx, Report{CommandID: o.CommandID, Number: o.Number, Epoch: o.Epoch, Lost: true, Ending: lostEnding(why)})
			switch {
			case errors.Is(err, ErrFenced), errors.Is(err, errBusy): // somebody else was first, or is at it
			case err != nil:
				e.log.Error("close lost attempt", "command_id", o.CommandID, "attempt", o.Number, "error", err)
			default:
				e.log.Warn("closed a lost attempt", "command_id", o.CommandID, "attempt", o.Number, "state", done.State)
				e.resume(o, done)
			}
		})
	}
	closing.Wait()
}

// resume keeps what follows a lost attempt in this process, where it starts on
// time: the queue's scheduler may have died with the process that made it.
func (e *Engine) resume(o Open, done *Finished) {
	l := e.lane(o.UpstreamID)
	if l == nil || done.State != outcome.StatePending || done.RetryIn > 2*nearWait {
		return
	}
	l.push(&item{id: o.CommandID, due: time.Now().Add(done.RetryIn), priority: commands.PriorityNormal.Number()}, nil)
}

func (e *Engine) closeOverdue(ctx context.Context) error {
	return e.repeat(ctx, e.commands.CloseOverdue)
}

func (e *Engine) heal(ctx context.Context) error {
	return e.repeat(ctx, func(ctx context.Context) (int, error) {
		n, err := e.commands.Heal(ctx)
		if n > 0 {
			e.log.Warn("gave stranded commands a new job", "commands", n)
		}
		return n, err
	})
}

// foldEvery bounds how many rows of differences a reader of the tallies adds up.
const foldEvery = 2 * time.Second

func (e *Engine) fold(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dutyBound)
	defer cancel()
	_, err := e.commands.Fold(ctx)
	return err
}

// repeat works a backlog off, batch by batch.
func (e *Engine) repeat(ctx context.Context, batch func(context.Context) (int, error)) error {
	for {
		n, err := batch(ctx)
		if err != nil || n == 0 {
			return err
		}
	}
}
