package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/due"
	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// EngineConfig is what an Engine is built from.
type EngineConfig struct {
	Store    *Store
	Dialer   *egress.Dialer
	Access   *upstreams.Access
	Instance string        // names this process among others; unique per start
	Expected string        // the deployment that this process belongs to; "" is any
	Margin   time.Duration // for how long a claim outlasts its question, to put the answer on record; 10 s
	Log      *slog.Logger
}

// Part runs from Start to Stop, which waits for what is under way until its ctx
// ends. A due.Runner is one.
type Part interface {
	Start()
	Stop(ctx context.Context)
}

// Engine is the part of a process that follows up doubts by itself. It sends no
// command, and asks only with data of its own deployment.
type Engine struct {
	store    *Store
	looker   looker
	lanes    lanes
	instance string
	expected string
	margin   time.Duration
	log      *slog.Logger
	parts    []Part
	swept    place           // the last unresolved command that was looked at
	stopping context.Context // ends when Stop is called: nothing more is waited for
	stop     context.CancelFunc
}

const (
	lookEvery  = 200 * time.Millisecond // how late a round may begin
	sweepEvery = 10 * time.Second
	// roundsAtOnce bounds the rounds of one process. It is generous, so that many
	// upstreams that do not answer leave room for one that does.
	roundsAtOnce = 1024
	readBound    = 10 * time.Second // for what only reads a little
)

// NewEngine builds an Engine that does nothing before Start.
func NewEngine(c EngineConfig) *Engine {
	if c.Margin <= 0 {
		c.Margin = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{
		store: c.Store, looker: looker{dialer: c.Dialer, access: c.Access}, lanes: lanes{byID: make(map[int64]*lane)},
		instance: c.Instance, expected: c.Expected, margin: c.Margin, log: c.Log,
	}
	e.stopping, e.stop = context.WithCancel(context.Background())
	e.Add(due.New(due.Config[int64, claimed]{
		Name: "lookups", Every: lookEvery, Total: roundsAtOnce, Claim: e.claim,
		Lane: func(c claimed) int64 { return c.UpstreamID }, Work: e.work, Log: c.Log,
	}))
	e.Add(NewDuty("plan forgotten lookups", sweepEvery, e.sweep, c.Log))
	return e
}

// Add gives the Engine another part to run. It is called before Start.
func (e *Engine) Add(p Part) { e.parts = append(e.parts, p) }

// Start begins to work. Only Stop ends it.
func (e *Engine) Start() {
	for _, p := range e.parts {
		p.Start()
	}
}

// Stop takes up nothing more and lets what is under way finish until ctx ends.
// What is cut off is taken up by another process when its claim ends.
func (e *Engine) Stop(ctx context.Context) {
	e.stop()
	var stopped sync.WaitGroup
	for _, p := range e.parts {
		stopped.Go(func() { p.Stop(ctx) })
	}
	stopped.Wait()
}

// claim takes rounds that are due. While the database is away it asks less often.
func (e *Engine) claim(ctx context.Context, busy map[int64]int, limit int) ([]claimed, error) {
	list, err := e.tryClaim(ctx, busy, limit)
	if err != nil {
		pause(ctx, time.Second)
	}
	return list, err
}

func (e *Engine) tryClaim(ctx context.Context, busy map[int64]int, limit int) ([]claimed, error) {
	if err := e.refreshLanes(ctx); err != nil {
		return nil, err
	}
	rooms := e.lanes.rooms(busy, limit)
	if len(rooms) == 0 {
		return nil, nil
	}
	return e.store.claimDue(ctx, rooms, readBound+e.margin, e.expected)
}

// work makes one round and puts it on record.
func (e *Engine) work(ctx context.Context, c claimed) {
	r := &round{claimed: c, instance: e.instance, newest: e.lanes.newest(c.UpstreamID), hold: hold{until: time.Now().Add(readBound)}}
	err := guard(func() error { return e.run(ctx, r) })
	switch {
	case ctx.Err() != nil:
		return // cut off: it is another's when the claim ends
	case errors.Is(err, errLost) && len(r.answers) == 0:
		e.store.release(ctx, c)
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
	var err error
	if err = e.prepare(ctx, r); err != nil {
		return err
	}
	if r.profile, err = e.store.upstreams.Profile(ctx, r.UpstreamID, r.subject.ProfileVersion); err != nil {
		return err
	}
	if r.operation, err = e.store.commands.Operation(ctx, r.UpstreamID, r.subject.ProfileVersion, r.subject.Operation); err != nil {
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
	if !r.subject.Kept || r.reportOnly() {
		return nil
	}
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
		e.log.Warn("a round of lookups is not on record yet", "command_id", r.CommandID, "error", err)
		if !r.hold.covers(wait+e.margin/4) || !pause(ctx, wait) {
			break // a moment before the claim ends: after that it is another's
		}
	}
	if err := e.store.postpone(ctx, r); err != nil {
		e.log.Warn("a round of lookups is lost and will be made again", "command_id", r.CommandID, "error", err)
	}
}
