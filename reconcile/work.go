package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/postgres"
	"executor/outcome"
)

// work makes one round and puts it on record.
func (e *Engine) work(ctx context.Context, c claimed) {
	r := &round{claimed: c, instance: e.instance, newest: e.lanes.newest(c.UpstreamID), hold: hold{until: time.Now().Add(readBound)}}
	err := guard(func() error { return e.run(ctx, r) })
	switch {
	case ctx.Err() != nil:
		return // cut off: it is another's when the claim ends
	case errors.Is(err, errLost) && len(r.answers) == 0:
		if err := e.store.release(ctx, c); err != nil {
			e.log.Warn("a claim ends by itself", "command_id", c.CommandID, "error", err)
		}
		return
	case errors.Is(err, errAway):
		e.log.Warn("a doubt could not be read", "command_id", c.CommandID, "error", err)
		return // due again when the claim ends
	case err != nil:
		e.log.Error("a round of lookups failed", "command_id", c.CommandID, "error", err)
		r.fail(err.Error())
	}
	e.keep(ctx, r)
}

// errAway: the database did not answer.
var errAway = errors.New("database away")

// guard turns a panic into an error: one command must not stop the others.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return fn()
}

// run asks what is to be asked. errLost: there was nothing more to ask, or the
// claim ended before all was.
func (e *Engine) run(ctx context.Context, r *round) error {
	if err := e.prepare(ctx, r); err != nil {
		return err
	}
	return e.askAll(ctx, r)
}

// prepare reads the command and passes on what was found earlier. errLost: that
// was all.
func (e *Engine) prepare(ctx context.Context, r *round) error {
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	var err error
	if r.subject, err = e.store.subject(ctx, r.CommandID); err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	if r.subject.State != outcome.StateUnresolved {
		return errLost
	}
	e.catchUp(ctx, r)
	if r.subject.Kept && !r.reportOnly() {
		if err := e.passOn(ctx, r); err != nil {
			return err
		}
	}
	if r.profile, err = e.store.upstreams.Profile(ctx, r.UpstreamID, r.subject.ProfileVersion); err != nil {
		return err
	}
	r.operation, err = e.store.commands.Operation(ctx, r.UpstreamID, r.subject.ProfileVersion, r.subject.Operation)
	return err
}

// catchUp takes a newer profile than the lanes have read yet: whether findings may
// move anything is decided by what was applied before the round, not a moment ago.
// One that cannot be read leaves what is known.
func (e *Engine) catchUp(ctx context.Context, r *round) {
	if r.newest.Version >= r.subject.Newest {
		return
	}
	if p, err := e.store.upstreams.Profile(ctx, r.UpstreamID, r.subject.Newest); err == nil {
		r.newest.Profile, r.newest.Version, r.newest.Unreadable = p, r.subject.Newest, nil
	}
}

// passOn weighs again what was found while an attempt was under way. errLost: that
// settled the command.
func (e *Engine) passOn(ctx context.Context, r *round) error {
	moved, err := e.store.passOn(ctx, r.claimed)
	if err != nil {
		return fmt.Errorf("%w: %w", errAway, err)
	}
	if len(moved) == 0 {
		return nil
	}
	e.store.commands.Changed(moved)
	return errLost
}

// mayReplay reports whether the command itself may be sent once more, as a
// question. While nothing is sent, or nothing may move, that has to wait.
func (e *Engine) mayReplay(ctx context.Context, r *round) (bool, error) {
	if r.subject.Frozen || r.newest.PausedAt != nil || r.reportOnly() {
		r.later = true
		return false, nil
	}
	may := false
	err := e.store.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		locked, err := e.store.commands.Lock(ctx, tx, []uuid.UUID{r.CommandID})
		if err != nil {
			return err
		}
		c := locked[r.CommandID]
		if c.State != outcome.StateUnresolved {
			return errLost
		}
		d, err := lockDoubt(ctx, tx, r.CommandID)
		if err != nil {
			return err
		}
		if d.GivesUpAt != nil && !c.Now.Before(*d.GivesUpAt) {
			r.later = true // a replay plans the next round by itself: at the end none is made
			return nil
		}
		decision, err := e.store.commands.MayResend(ctx, tx, c, false)
		may = decision.Verdict == outcome.VerdictRetry
		return err
	})
	return may, err
}

// keep puts a round on record, and tries until the claim is about to end. If it
// cannot be written for another reason than the database's absence, the schedule
// goes on without it.
func (e *Engine) keep(ctx context.Context, r *round) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		var moved []commands.Moved
		err := guard(func() (err error) {
			moved, err = e.store.record(ctx, r)
			return err
		})
		if err == nil {
			e.store.commands.Changed(moved)
			return
		}
		if postgres.Refused(err) && r.bare() {
			e.log.Error("the database refused what a lookup saw: it is recorded without", "command_id", r.CommandID, "error", err)
			continue
		}
		e.log.Warn("a round of lookups is not on record yet", "command_id", r.CommandID, "error", err)
		if !r.hold.covers(wait+e.margin/4) || !pause(ctx, wait) {
			break // a moment before the claim ends: after that it is another's
		}
	}
	if err := e.store.postpone(ctx, r); err != nil {
		e.log.Warn("a round of lookups is lost and will be made again", "command_id", r.CommandID, "error", err)
	}
}
