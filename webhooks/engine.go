package webhooks

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"executor/internal/due"
	"executor/internal/egress"
)

// EngineConfig is what an Engine is built from. Store and Dialer are required.
type EngineConfig struct {
	Store       *Store
	Dialer      *egress.Dialer
	Instance    string          // names this process in the log
	Expected    string          // the deployment that this process belongs to; "" is any
	Hop         string          // of the deployment, in the deliveries; "" = it is not told
	Timeout     time.Duration   // of one try, to the response's header; 15 s
	Concurrency int             // tries at once to one endpoint, in this process; 4. One that fails: 1
	Total       int             // tries at once, for either line; 256
	Every       time.Duration   // between two looks while nothing happens; 500 ms
	Tend        time.Duration   // between two rounds of housekeeping; 30 s
	Rate        int             // tries a second to one endpoint, in this process; 100
	Schedule    []time.Duration // waits between tries; Schedule()
	Challenges  []time.Duration // the same of challenges; ChallengeSchedule()
	TLS         *tls.Config     // of connections to endpoints; nil trusts the system's authorities
	Log         *slog.Logger
}

func (c EngineConfig) withDefaults() EngineConfig {
	if c.Timeout <= 0 {
		c.Timeout = 15 * time.Second
	}
	if c.Concurrency <= 0 {
		c.Concurrency = 4
	}
	if c.Total <= 0 {
		c.Total = 256
	}
	if c.Every <= 0 {
		c.Every = 500 * time.Millisecond
	}
	if c.Tend <= 0 {
		c.Tend = 30 * time.Second
	}
	if c.Schedule == nil {
		c.Schedule = Schedule()
	}
	if c.Challenges == nil {
		c.Challenges = ChallengeSchedule()
	}
	if c.Rate <= 0 {
		c.Rate = DefaultRate
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// claimMargin is what a claim lasts beyond a try: the time to record it.
const claimMargin = 15 * time.Second

// Engine is the part of a process that delivers. Endpoints stand in one of two
// lines: those whose last answer was a failure or slow wait in one of their own,
// so that however many of them there are they hold up none that does well.
type Engine struct {
	config EngineConfig
	sender *sender
	pace   *pace
	lines  []*due.Runner[uuid.UUID, *job]

	loops sync.WaitGroup
	halt  context.CancelFunc
}

// NewEngine builds an Engine that does nothing before Start.
func NewEngine(c EngineConfig) *Engine {
	e := &Engine{config: c.withDefaults()}
	e.pace = newPace(e.config.Rate, e.config.Concurrency, e.wake)
	e.sender = newSender(c.Dialer, c.Store.allow, e.config.Timeout, c.TLS)
	e.sender.hop = c.Hop
	e.lines = []*due.Runner[uuid.UUID, *job]{
		e.line("webhook deliveries", false),
		e.line("webhook deliveries to troubled endpoints", true),
	}
	return e
}

func (e *Engine) line(name string, troubled bool) *due.Runner[uuid.UUID, *job] {
	return due.New(due.Config[uuid.UUID, *job]{
		Name: name, Every: e.config.Every, Total: e.config.Total,
		Claim: func(ctx context.Context, busy map[uuid.UUID]int, limit int) ([]*job, error) {
			e.pace.hold(busy, time.Now())
			list, err := e.config.Store.claim(ctx, claims{
				deployment: e.config.Expected, troubled: troubled, places: e.config.Concurrency, busy: busy, limit: limit,
				lasts: e.config.Timeout + claimMargin,
			})
			e.pace.took(list, time.Now())
			return list, err
		},
		Lane: func(j *job) uuid.UUID { return j.EndpointID },
		Work: e.deliver,
		Log:  e.config.Log,
	})
}

// Start begins to deliver. Only Stop ends it. Without a sealing key nothing can
// be signed, and nothing is taken up.
func (e *Engine) Start() {
	var ctx context.Context
	ctx, e.halt = context.WithCancel(context.Background())
	e.loops.Go(func() { e.tend(ctx) })
	if e.config.Store.box == nil {
		e.config.Log.Info("webhooks are not delivered: EXECUTOR_ENCRYPTION_KEY is not set")
		return
	}
	for _, line := range e.lines {
		line.Start()
	}
	wake := e.wake
	e.config.Store.wake.Store(&wake)
}

// wake has both lines look at once.
func (e *Engine) wake() {
	for _, line := range e.lines {
		line.Wake()
	}
}

// Stop takes nothing more up and waits for what is under way; what is not done
// when ctx ends is cut off and sent again by another process.
func (e *Engine) Stop(ctx context.Context) {
	if e.halt == nil {
		return
	}
	e.config.Store.wake.Store(nil)
	e.halt()
	var stopping sync.WaitGroup
	for _, line := range e.lines {
		stopping.Go(func() { line.Stop(ctx) })
	}
	stopping.Wait()
	e.loops.Wait()
}

// deliver makes one try and records it.
func (e *Engine) deliver(ctx context.Context, j *job) {
	if time.Until(j.expires) < e.config.Timeout { // the process stood still meanwhile: it is due again
		return
	}
	waits := e.config.Schedule
	if j.Type == TypeChallenge {
		waits = e.config.Challenges
	}
	r := resultOf(j, e.sender.send(ctx, j), waits, e.config.Instance)
	done, err := e.config.Store.keep(ctx, r)
	log := e.config.Log.With("webhook", j.EndpointID, "event_id", j.EventID, "delivery", j.ID)
	switch {
	case err != nil:
		log.Error("a webhook's result could not be recorded: it is sent again", "error", err)
	case !done.held:
		log.Info("a webhook's result was recorded already, or somebody else has taken over")
	default:
		e.config.Store.metrics.count(r)
		if j.Type == TypeChallenge && r.state == DeliveryDelivered {
			e.config.Store.nudge() // what waited may go
		}
	}
	if r.failure != FailureNone {
		log.Info("webhook not delivered", "status", r.status, "failure", r.failure, "detail", r.detail, "state", r.state)
	}
}

// tendBound is how long one round of housekeeping may take.
const tendBound = 30 * time.Second

func (e *Engine) tend(ctx context.Context) {
	tick := time.NewTicker(e.config.Tend)
	defer tick.Stop()
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, tendBound)
		if err := e.config.Store.tend(bounded, e.config.Expected); err != nil && ctx.Err() == nil {
			e.config.Log.Error("tend webhooks", "error", err)
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}
