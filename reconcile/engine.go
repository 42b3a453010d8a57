package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"executor/internal/due"
	"executor/internal/egress"
	"executor/upstreams"
)

// EngineConfig is what an Engine is built from.
type EngineConfig struct {
	Store    *Store
	Dialer   *egress.Dialer
	Access   *upstreams.Access
	Instance string        // names this process among others; unique per start
	Expected string        // the deployment that this process belongs to; "" is any
	Hop      string        // of the deployment, in the questions; "" = it is not told
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
		store: c.Store, looker: looker{dialer: c.Dialer, access: c.Access, hop: c.Hop}, lanes: lanes{byID: make(map[int64]*lane)},
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
