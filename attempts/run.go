package attempts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/bodyfiles"
	"executor/internal/egress"
	"executor/internal/groupcommit"
	"executor/internal/postgres"
	"executor/outcome"
)

// nearWait is the longest pause that the finishing process itself keeps; beyond
// it the queue alone wakes the command.
const nearWait = 30 * time.Second

// credentialWait is how often a command whose credential is missing looks for it, and
// fileWait how often one that has a file which cannot be read tries again.
const (
	credentialWait = 15 * time.Second
	fileWait       = 15 * time.Second
)

// roomWait is how soon a body made of files asks again for room in memory.
const roomWait = 500 * time.Millisecond

// run makes one attempt, from a due command to its recorded end. It runs in a
// goroutine of its own, on a context that neither a shutdown nor the queue
// ends: the attempt has its own deadline.
func (e *Engine) run(l *lane, it *item) {
	ctx := context.Background()
	f := &flight{id: it.id, after: -1}
	e.flights.add(f)
	defer e.flights.remove(f)
	r, next := e.guarded(ctx, it, f)
	l.finished(it, r, next)
}

// guarded keeps a panic from taking the process along: the attempt ends by
// what its gate says.
func (e *Engine) guarded(ctx context.Context, it *item, f *flight) (r ran, next *item) {
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("attempt panicked", "command_id", it.id, "panic", it.hush(fmt.Sprint(p)), "stack", string(debug.Stack()))
			r, next = e.afterPanic(ctx, f), nil
		}
	}()
	return e.attempt(ctx, it, f)
}

// hush takes the credential in use out of what is said of an item's faults.
func (it *item) hush(text string) string { return string(egress.Mask([]byte(text), it.secrets...)) }

// flight is an attempt under way in this process.
type flight struct {
	id     uuid.UUID
	begun  *Begun // set once the open attempt is committed
	opened bool   // its gate let something through
	after  int    // how many attempts came before it; -1 is not known
}

// attempt goes through the steps of the package's documentation.
func (e *Engine) attempt(ctx context.Context, it *item, f *flight) (ran, *item) {
	w, err := e.take(ctx, it)
	if errors.Is(err, errGone) {
		return ran{idle: true}, nil
	}
	if err != nil {
		return e.trouble(it, err)
	}
	if w.left > 0 { // a job that came early: no permit, connection or attempt is spent on it
		return e.later(it, w.left)
	}
	w.refreshed, f.after = it.refreshed, w.attempts
	if err := e.pin(ctx, w); err != nil {
		return e.unready(ctx, it, w, err)
	}
	release, err := e.assemble(ctx, w)
	defer release()
	if err != nil && !errors.As(err, &w.unfit) {
		return e.unmade(ctx, it, w, err)
	}
	err = e.dress(ctx, w)
	it.secrets = w.access.Secrets
	if err != nil {
		return e.unready(ctx, it, w, err)
	}
	if w.unfit != nil {
		return e.unsent(ctx, it, w, InvalidRequest(w.unfit), time.Now())
	}
	if _, err := Encode(w.request, w.target); err != nil {
		return e.unsent(ctx, it, w, InvalidRequest(err), time.Now())
	}
	asked := time.Now()
	conn, seen, ok := e.sender.Dial(ctx, w.target)
	if !ok {
		return e.unsent(ctx, it, w, seen, asked)
	}
	begun, err := e.store.Begin(ctx, w.start)
	if err != nil {
		e.sender.Release(conn)
		return e.notBegun(ctx, it, w, err)
	}
	f.begun = begun
	strike(e.faults.begun, w.ID)
	seen = e.sender.Send(ctx, conn, w.request, e.gate(begun, f), e.deadline(w, begun))
	strike(e.faults.seen, w.ID)
	report := Report{
		CommandID: w.ID, Number: begun.Number, Epoch: begun.Epoch, Elapsed: time.Since(begun.Opened), Ending: endingOf(w, begun.Number, seen),
	}
	return e.finish(ctx, it, w, report)
}

// take gives what the accepting process kept, or reads the command.
func (e *Engine) take(ctx context.Context, it *item) (*work, error) {
	if it.prepared != nil && !it.reread {
		return &work{Prepared: *it.prepared}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	w, err := e.store.load(ctx, it.id)
	if err != nil || !w.Request.OneShot {
		return w, err
	}
	body, ok := e.held.get(it.id)
	if !ok { // another process has it, or nobody: that is not for an attempt to settle
		return nil, errGone
	}
	w.Request.Body = body
	return w, nil
}

// gate is the last look before the first byte: at the lease and at the clocks.
// A process that was stopped in between does not send.
func (e *Engine) gate(b *Begun, f *flight) Gate {
	return func() error {
		epoch, _, held := e.lease.Held()
		switch {
		case !held || epoch != b.Epoch:
			return errors.New("the lease lapsed before the first byte")
		case expired(b.SendBy, b.SendWall):
			return errors.New("the send deadline passed before the first byte")
		}
		f.opened = true
		return nil
	}
}

// deadline is the end of the exchange: the profile's total, or the command's
// own deadline where that comes first.
func (e *Engine) deadline(w *work, b *Begun) time.Time {
	return earliest(time.Now().Add(w.target.Timeouts.Total), b.Opened.Add(b.Deadline))
}

// unready is a command that cannot be sent for want of a credential. A missing
// secret is no attempt: the command waits for it until its deadline. A token
// endpoint that fails is an attempt that was not sent.
func (e *Engine) unready(ctx context.Context, it *item, w *work, err error) (ran, *item) {
	var refused *egress.TokenError
	switch {
	case errors.As(err, &refused):
		o := notSent(outcome.StageAdmission, outcome.CategoryAuthFailure, refused.Error())
		o.Header = http.Header{"Retry-After": {refused.RetryAfter}}
		return e.unsent(ctx, it, w, o, time.Now())
	case errors.Is(err, egress.ErrMissing), errors.Is(err, egress.ErrReference):
		e.waiting(w, "credential missing", err)
		return e.park(ctx, it, w, commands.WaitCredential, credentialWait)
	default:
		return e.trouble(it, err)
	}
}

// unmade is a command whose body cannot be put together now. That is no attempt
// either: it waits for the files, like for a secret, until its deadline.
func (e *Engine) unmade(ctx context.Context, it *item, w *work, err error) (ran, *item) {
	var away *bodyfiles.Unavailable
	switch {
	case errors.Is(err, errRoom):
		return e.later(it, roomWait)
	case errors.As(err, &away), errors.Is(err, bodyfiles.ErrNoRoot):
		e.waiting(w, "file of a body unavailable", err)
		return e.park(ctx, it, w, commands.WaitFile, fileWait)
	default:
		return e.trouble(it, err)
	}
}

// waiting logs what keeps a command from being sent, once a minute for all that wait
// for the same.
func (e *Engine) waiting(w *work, what string, err error) {
	if e.repeats.first(fmt.Sprint(what, " ", w.UpstreamID, " ", err), time.Now()) {
		e.log.Warn(what, "command_id", w.ID, "upstream_id", w.UpstreamID, "tenant", w.Tenant, "error", err)
	}
}

// park puts the command off, without an attempt, and says what it waits for.
func (e *Engine) park(ctx context.Context, it *item, w *work, what commands.WaitFor, again time.Duration) (ran, *item) {
	if err := e.commands.Park(ctx, w.ID, what, again); err != nil {
		return e.trouble(it, err)
	}
	return ran{idle: true}, nil
}

// unsent records an attempt that provably never left.
func (e *Engine) unsent(ctx context.Context, it *item, w *work, o Observation, since time.Time) (ran, *item) {
	return e.finish(ctx, it, w, Report{
		CommandID: w.ID, Elapsed: time.Since(since), Start: w.start, After: w.attempts, Ending: endingOf(w, w.attempts+1, o),
	})
}

// notBegun: nothing was sent. An unknown commit is settled before anything
// else may happen to the command.
func (e *Engine) notBegun(ctx context.Context, it *item, w *work, err error) (ran, *item) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		e.log.Debug("attempt not begun", "command_id", w.ID, "why", refusal.Why, "again", refusal.Again)
		if refusal.Again <= 0 {
			return ran{idle: true}, nil
		}
		return e.later(it, refusal.Again)
	}
	if errors.Is(err, groupcommit.ErrUnknown) {
		e.log.Warn("attempt's begin is unconfirmed; nothing is sent under it", "command_id", w.ID, "error", it.hush(err.Error()))
		return e.unconfirmed(ctx, it, w)
	}
	return e.trouble(it, err)
}

// unconfirmed closes the attempt that may stand on record as not sent.
func (e *Engine) unconfirmed(ctx context.Context, it *item, w *work) (ran, *item) {
	var open *Open
	e.untilKnown(ctx, func() error {
		var err error
		open, err = e.store.Unconfirmed(ctx, w.ID, w.attempts)
		return err
	})
	if open == nil {
		return e.later(it, recheck)
	}
	ending := notSentEnding(outcome.StageAdmission, outcome.CategoryNone, "begin_unconfirmed: the commit's answer was lost, nothing was sent")
	return e.finish(ctx, it, w, Report{CommandID: w.ID, Number: open.Number, Epoch: open.Epoch, Ending: ending})
}

// later asks for the command again after a while.
func (e *Engine) later(it *item, wait time.Duration) (ran, *item) {
	next := &item{id: it.id, due: time.Now().Add(wait), priority: it.priority, prepared: it.prepared, reread: true, refreshed: it.refreshed}
	return ran{again: wait}, next
}

// trouble is a fault of our own side, the database away for instance: nothing
// was sent and nothing is known to have changed.
func (e *Engine) trouble(it *item, err error) (ran, *item) {
	e.log.Error("attempt could not be prepared", "command_id", it.id, "error", it.hush(err.Error()))
	_, next := e.later(it, recheck)
	return ran{err: err}, next
}

// finish records the end, however long the database is away, and never sends
// again. What another process closed meanwhile becomes late evidence.
func (e *Engine) finish(ctx context.Context, it *item, w *work, r Report) (ran, *item) {
	done, err := e.record(ctx, &r)
	switch {
	case errors.Is(err, ErrNotPending):
		e.log.Info("an attempt that was not sent found its command moved on", "command_id", r.CommandID, "category", r.Category)
		return ran{idle: true}, nil
	case errors.Is(err, ErrFenced):
		e.late(ctx, r)
		return ran{}, nil
	case errors.Is(err, commands.ErrNotFound):
		e.log.Error("an attempt was made of a command that this database does not have: it was lost in a promotion or a restore",
			"command_id", r.CommandID, "upstream_id", w.UpstreamID, "evidence", r.Evidence, "status", r.Status, "answer", r.Answer, "reference", r.Reference)
		return ran{}, nil
	case err != nil:
		return ran{err: err}, nil // the process ends; the lease's lapse closes the attempt
	}
	e.observe(w, r, done)
	return ran{throttled: r.Status == http.StatusTooManyRequests}, e.next(it, w, done)
}

// record writes the end until that is certain. Should the database refuse
// something of what was seen, the end is written without it.
func (e *Engine) record(ctx context.Context, r *Report) (done *Finished, err error) {
	e.untilKnown(ctx, func() error {
		done, err = e.store.Finish(ctx, *r)
		switch {
		case errors.Is(err, ErrFenced), errors.Is(err, ErrNotPending), errors.Is(err, commands.ErrNotFound):
			return nil
		case postgres.Refused(err):
			*r = r.bare()
		}
		return err
	})
	return done, err
}

// next keeps a near wait in this process, so that it starts on time; the job
// behind it finds nothing due.
func (e *Engine) next(it *item, w *work, done *Finished) *item {
	refresh := done.Decision.Reason == outcome.ReasonAuthRefresh
	if refresh {
		e.access.Refused(w.access)
	}
	if done.State != outcome.StatePending || done.RetryIn > nearWait {
		return nil
	}
	return &item{id: it.id, due: time.Now().Add(done.RetryIn), priority: it.priority, refreshed: refresh}
}

// late hands over what a fenced attempt saw.
func (e *Engine) late(ctx context.Context, r Report) {
	e.untilKnown(ctx, func() error {
		effect, err := e.store.Learn(ctx, r.CommandID, knowledgeOf(r, e.lease.instance))
		switch {
		case errors.Is(err, commands.ErrNotFound):
			return nil // it went with an attempt that the database lost
		case postgres.Refused(err):
			r = r.bare()
		case err == nil:
			e.log.Warn("late evidence", "command_id", r.CommandID, "attempt", r.Number, "evidence", r.Evidence, "answer", r.Answer, "effect", effect)
		}
		return err
	})
}

// afterPanic closes the attempt by what is certain: nothing left before the
// gate let it through.
func (e *Engine) afterPanic(ctx context.Context, f *flight) ran {
	r := Report{CommandID: f.id, Ending: notSentEnding(outcome.StageAdmission, outcome.CategoryRequestInvalid, "executor_error: preparing the request failed")}
	if f.begun != nil {
		r.Number, r.Epoch, r.Elapsed = f.begun.Number, f.begun.Epoch, time.Since(f.begun.Opened)
		if f.opened {
			r.Ending = lostEnding("executor_error: the attempt broke off in our own code")
			r.Ending.Category = outcome.CategoryRequestInvalid // permanent: it would break off again
		}
	} else {
		r.Start, r.After = Start{CommandID: f.id, Request: `{}`, BodySHA256: []byte{}}, f.after
	}
	_, _ = e.record(ctx, &r) // fenced or moved on: others closed it
	return ran{}
}

// untilKnown repeats a guarded write until its outcome is known. It gives up
// only when the process itself must end.
func (e *Engine) untilKnown(ctx context.Context, write func() error) {
	wait := 50 * time.Millisecond
	for {
		err := write()
		if err == nil {
			return
		}
		if !errors.Is(err, errBusy) {
			e.log.Error("the database did not confirm; repeating", "error", err, "again_in", wait)
		}
		select {
		case <-time.After(wait):
		case <-e.quit:
			return
		}
		wait = min(2*wait, 2*time.Second)
	}
}
