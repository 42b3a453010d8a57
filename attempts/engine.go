package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"golang.org/x/time/rate"

	"executor/commands"
	"executor/internal/bodyfiles"
	"executor/internal/egress"
	"executor/internal/postgres"
	"executor/upstreams"
)

// EngineConfig is what an Engine is built from.
type EngineConfig struct {
	Pool      *pgxpool.Pool
	Commands  *commands.Store
	Upstreams *upstreams.Store
	Sender    *Sender
	Secrets   *egress.Secrets
	Tokens    *egress.Tokens
	Files     *bodyfiles.Root // of bodies; nil for none
	Instance  string          // names this process among others; unique per start
	Expected  string          // the deployment that this process belongs to
	Hop       string          // by which it recognises its own requests; "" = they do not tell
	LeaseTTL  time.Duration   // how long a dead process's attempts wait for their takeover; 10 s
	Drain     time.Duration   // how long Stop waits for attempts on the wire
	River     RiverConfig
	Log       *slog.Logger
	Registry  prometheus.Registerer // nil for no metrics
}

// RiverConfig are the queue's own bounds; the zero value takes defaults.
type RiverConfig struct {
	JobTimeout           time.Duration // 10 m
	RescueStuckJobsAfter time.Duration // 1 h
	SoftStopTimeout      time.Duration // 5 s
}

// Engine is the part of a process that sends: its lease, its lanes and its
// queue client, and the loops that heal what others left behind.
type Engine struct {
	pool       *pgxpool.Pool
	own        *pgxpool.Pool // of the lease, of begins and finishes: no reader takes them away
	commands   *commands.Store
	upstreams  *upstreams.Store
	sender     *Sender
	access     *upstreams.Access
	lease      *Lease
	store      *Store
	deployment *Deployment
	drain      time.Duration
	river      RiverConfig
	client     *river.Client[pgx.Tx]
	log        *slog.Logger
	metrics    *metrics
	flights    flights
	faults     faults
	held       held
	files      *bodyfiles.Root
	hop        string
	assembled  room // of bodies made of files that are under way
	repeats    repeats

	assembleWithin time.Duration

	loops sync.WaitGroup
	stop  context.CancelFunc // ends the loops
	quit  chan struct{}      // closed when the process gives up on unknown writes
	nudge chan struct{}      // an upstream without a lane was met

	refreshing sync.Mutex // one refresh at a time

	mu    sync.RWMutex
	lanes map[int64]*lane
	first map[int64]int // first attempts sent since the last credit
}

// NewEngine builds an Engine that does nothing before Start.
func NewEngine(c EngineConfig) (*Engine, error) {
	if c.LeaseTTL <= 0 {
		c.LeaseTTL = 10 * time.Second
	}
	if c.Drain <= 0 {
		c.Drain = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Instance == "" {
		return nil, errors.New("the engine needs an instance name")
	}
	e := &Engine{
		pool: c.Pool, commands: c.Commands, upstreams: c.Upstreams, sender: c.Sender, access: upstreams.NewAccess(c.Secrets, c.Tokens),
		hop: c.Hop, files: c.Files, assembleWithin: assembleWithin, drain: c.Drain, river: c.River.withDefaults(), log: c.Log, quit: make(chan struct{}), nudge: make(chan struct{}, 1),
		lanes: make(map[int64]*lane), first: make(map[int64]int),
	}
	own, err := ownPool(c.Pool)
	if err != nil {
		return nil, err
	}
	e.own = own
	e.lease = NewLease(own, c.Instance, c.LeaseTTL, c.Log)
	e.store = NewStore(own, c.Commands, c.Upstreams, e.lease)
	e.store.expected = c.Expected
	e.deployment = NewDeployment(c.Pool, c.Expected, e.store)
	e.metrics = newMetrics(c.Registry)
	e.client, err = e.newClient(c.Instance)
	return e, err
}

// Deployment shows, freezes and resumes the deployment that the engine works for.
func (e *Engine) Deployment() *Deployment { return e.deployment }

// ownConnections are the engine's own, beside those of its pool: one for the
// lease, one for a batch of begins, one for a batch of finishes, one to spare.
const ownConnections = 4

func ownPool(shared *pgxpool.Pool) (*pgxpool.Pool, error) {
	config := shared.Config()
	config.MaxConns, config.MinConns = ownConnections, 0
	own, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("set up the engine's own connections: %w", err)
	}
	return own, nil
}

// Start takes a lease, reads the upstreams and begins to work. Only Stop ends
// it: ctx bounds the start alone.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.renew(ctx); err != nil {
		return err
	}
	if err := e.refresh(ctx); err != nil {
		return err
	}
	if err := e.client.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("start queue: %w", err)
	}
	var loops context.Context
	loops, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	e.loop(loops, "renew lease", e.lease.ttl/4, e.renew)
	e.loop(loops, "tend what is under way", e.lease.ttl/4, e.tend)
	e.loopOn(loops, "refresh upstreams", time.Second, e.nudge, e.refresh)
	e.loop(loops, "take over", e.lease.ttl/5, e.takeOver)
	e.loop(loops, "close overdue", time.Second, e.closeOverdue)
	e.loop(loops, "heal", 5*time.Second, e.heal)
	e.loop(loops, "fold tallies", foldEvery, e.fold)
	return nil
}

// Stop drains: nothing more is taken up, attempts on the wire finish within the
// bound, and the rest is handed back to whoever is alive.
func (e *Engine) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.drain)
	defer cancel()
	e.store.stopping.Store(true)
	for _, l := range e.all() {
		l.drain()
	}
	err := e.client.Stop(ctx)
	if landed := e.flights.wait(ctx); !landed {
		err = errors.Join(err, errors.New("attempts were still on the wire when the drain bound passed; another process takes them over"))
	}
	close(e.quit)
	if e.stop != nil {
		e.stop()
	}
	e.loops.Wait()
	final, end := context.WithTimeout(context.WithoutCancel(ctx), handBackBound)
	defer end()
	err = errors.Join(err, e.handBack(final))
	postgres.Leave(final, e.own)
	return err
}

// handBackBound is how long the database has for what a process leaves to others.
const handBackBound = 5 * time.Second

// handBack lets others have at once what they would get when the lease lapses.
func (e *Engine) handBack(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		e.store.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		return errors.New("the database did not answer while the process stopped; the lease lapses by itself")
	}
	err := e.lease.Release(ctx)
	_, handed := e.commands.Unclaim(ctx)
	return errors.Join(err, handed, e.closeUnheld(ctx, nil))
}

// loop runs a duty again and again; a failure is logged and the next round
// tries anew.
func (e *Engine) loop(ctx context.Context, name string, every time.Duration, duty func(context.Context) error) {
	e.loopOn(ctx, name, every, nil, duty)
}

// loopOn is loop with a signal for a round out of turn.
func (e *Engine) loopOn(ctx context.Context, name string, every time.Duration, now <-chan struct{}, duty func(context.Context) error) {
	e.loops.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-now:
			}
			if err := duty(ctx); err != nil && ctx.Err() == nil {
				e.log.Error(name, "error", err)
			}
		}
	})
}

// lane finds an upstream's lane; nil if the process does not know it yet.
func (e *Engine) lane(upstreamID int64) *lane {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.lanes[upstreamID]
}

func (e *Engine) all() []*lane {
	e.mu.RLock()
	defer e.mu.RUnlock()
	list := make([]*lane, 0, len(e.lanes))
	for _, l := range e.lanes {
		list = append(list, l)
	}
	return list
}

// ensure finds or makes an upstream's lane.
func (e *Engine) ensure(upstreamID int64) *lane {
	if l := e.lane(upstreamID); l != nil {
		return l
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.lanes[upstreamID]; l != nil {
		return l
	}
	l := newLane(upstreamID, func(l *lane, it *item) { go e.run(l, it) })
	e.lanes[upstreamID] = l
	return l
}

// listen takes jobs of the upstream from the queue, unless the process may not
// send: it must not hold the jobs of those that may.
func (e *Engine) listen(l *lane, permits int, barred bool) error {
	if barred || l.listening {
		return nil
	}
	config := river.QueueConfig{MaxWorkers: min(max(1, permits), 256)}
	if err := e.client.Queues().Add(commands.QueueFor(l.upstreamID), config); err != nil {
		return fmt.Errorf("open queue of upstream %d: %w", l.upstreamID, err)
	}
	l.listening = true
	return nil
}

// refresh reads what may have changed: new profiles, pauses, throttles, the
// freeze, and how many processes share the limits.
func (e *Engine) refresh(ctx context.Context) error {
	e.refreshing.Lock()
	defer e.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	list, err := e.upstreams.All(ctx)
	if err != nil {
		return err
	}
	e.store.setNewest(list)
	var (
		frozen, foreign bool
		lives           int
		now             time.Time
	)
	err = e.pool.QueryRow(ctx, `
		SELECT coalesce((SELECT frozen_at IS NOT NULL FROM deployment), false),
			coalesce((SELECT $1 <> '' AND id <> $1 FROM deployment), false), clock_timestamp(),
			(SELECT count(*) FROM leases WHERE ended_at IS NULL AND expires_at > clock_timestamp())`, e.store.expected).Scan(&frozen, &foreign, &now, &lives)
	if err != nil {
		return fmt.Errorf("read freeze and leases: %w", err)
	}
	_, _, held := e.lease.Held()
	for _, u := range list {
		l := e.ensure(u.ID)
		barred := foreign || !held
		if err := e.listen(l, u.Profile.Limits.MaxInFlight, barred); err != nil {
			return err
		}
		s := settings{permits: share(u.Profile.Limits.MaxInFlight, lives), closed: frozen || barred || u.PausedAt != nil, barred: barred}
		if r := u.Profile.Limits.Rate; r != nil {
			limit := rate.Limit(r.PerSecond / float64(max(1, lives)))
			s.limit, s.burst = &limit, share(r.Burst, lives)
		}
		if u.ThrottledUntil != nil {
			s.opens = time.Now().Add(u.ThrottledUntil.Sub(now))
		}
		l.set(s)
	}
	return nil
}

// share is one process's part of a limit that holds for the deployment.
func share(limit, lives int) int { return max(1, limit/max(1, lives)) }

// Claim, Launch and Unclaim make the Engine the commands' Starter.
var _ commands.Starter = (*Engine)(nil)

// Claim reserves room for a first attempt in this process.
func (e *Engine) Claim(upstreamID int64) (int64, bool) {
	epoch, _, held := e.lease.Held()
	l := e.lane(upstreamID)
	if l == nil {
		select {
		case e.nudge <- struct{}{}:
		default:
		}
		return 0, false
	}
	return epoch, held && l.claim()
}

// Launch begins what was claimed.
func (e *Engine) Launch(c commands.Prepared) {
	l := e.lane(c.UpstreamID)
	l.unclaim()
	l.push(firstOf(c), nil)
}

// firstOf is the first attempt of what was just accepted. That of a one-shot command
// looks at its row first: its body is kept in one place only.
func firstOf(c commands.Prepared) *item {
	it := &item{id: c.ID, due: time.Now().Add(c.Due.Sub(c.CreatedAt)), priority: c.Priority.Number()}
	if !c.Request.OneShot {
		it.prepared = &c
	}
	return it
}

// Unclaim gives the room back.
func (e *Engine) Unclaim(upstreamID int64) {
	if l := e.lane(upstreamID); l != nil {
		l.unclaim()
	}
}

// flights are the attempts under way in this process.
type flights struct {
	mu   sync.Mutex
	byID map[uuid.UUID]*flight
	wake chan struct{}
}

func (f *flights) add(one *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID == nil {
		f.byID = make(map[uuid.UUID]*flight)
	}
	f.byID[one.id] = one
}

func (f *flights) remove(one *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byID[one.id] == one {
		delete(f.byID, one.id)
	}
	if len(f.byID) == 0 && f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

func (f *flights) has(id uuid.UUID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byID[id] != nil
}

// wait returns when nothing is under way, or false when ctx ends first.
func (f *flights) wait(ctx context.Context) bool {
	f.mu.Lock()
	if len(f.byID) == 0 {
		f.mu.Unlock()
		return true
	}
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	wake := f.wake
	f.mu.Unlock()
	select {
	case <-wake:
		return true
	case <-ctx.Done():
		return false
	}
}
