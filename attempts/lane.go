package attempts

import (
	"container/heap"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"executor/commands"
	"executor/internal/egress"
)

// errDraining: the process takes up nothing more; another one may.
var errDraining = errors.New("draining")

// item is one command that waits in a lane or runs. It holds an id and, for a
// first attempt in the accepting process, the request: nothing else is held
// while a command waits, no connection, no permit, no goroutine.
type item struct {
	id        uuid.UUID
	due       time.Time
	priority  int
	prepared  *commands.Prepared
	reread    bool            // what was prepared is old: the row may say otherwise, or be gone
	refreshed bool            // its token was dropped here after a 401
	secrets   []egress.Secret // in use: errors that reach the log may hold them
	running   bool
	waiters   []chan<- ran
}

// ran is what came of running an item.
type ran struct {
	again     time.Duration // ask again after it; 0 is never
	err       error
	throttled bool // it was sent, and answered that all are to wait
	idle      bool // nothing was tried: the command is gone, or waits for something else
}

// lane is one upstream's way out of this process: what waits, in order, and how
// much may be under way. One lane's trouble is not another's.
type lane struct {
	upstreamID int64
	start      func(*lane, *item) // runs an item in a goroutine of its own
	listening  bool               // the queue's jobs come here; of a refresh alone

	mu      sync.Mutex
	items   map[uuid.UUID]*item
	later   dueHeap // not due yet
	ready   readyHeap
	running int
	claimed int // promised to submissions that are being committed
	timer   *time.Timer

	permits  int
	limiter  *rate.Limiter // nil: no limit
	closed   bool          // paused, frozen or barred
	barred   bool          // this process may not send: another's data, or no lease
	opens    time.Time     // throttled until
	probing  bool          // a throttle was on: one goes first, the others once it is answered
	probe    *item         // that one, while it runs
	draining bool
}

func newLane(upstreamID int64, start func(*lane, *item)) *lane {
	l := &lane{upstreamID: upstreamID, start: start, items: make(map[uuid.UUID]*item), permits: 1, closed: true}
	l.timer = time.AfterFunc(time.Hour, l.pump)
	return l
}

// push adds a command, or joins the one that is here already. done, if given,
// gets what comes of it.
func (l *lane) push(it *item, done chan<- ran) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		notify(ran{err: errDraining}, done)
		return
	}
	if known := l.items[it.id]; known != nil {
		it = known
	} else {
		l.items[it.id] = it
		heap.Push(&l.later, it)
	}
	if done != nil {
		it.waiters = append(it.waiters, done)
	}
	l.pumpLocked()
}

// withdraw takes a waiter off an item that has not started; it reports false
// where the item runs, or the waiter has its answer already.
func (l *lane) withdraw(id uuid.UUID, done chan<- ran) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	it := l.items[id]
	if it == nil || it.running {
		return false
	}
	at := slices.Index(it.waiters, done)
	if at < 0 {
		return false
	}
	it.waiters = slices.Delete(it.waiters, at, at+1)
	if len(it.waiters) == 0 && it.prepared == nil {
		l.forget(it)
	}
	return true
}

func (l *lane) forget(it *item) {
	delete(l.items, it.id)
	l.later.remove(it)
	l.ready.remove(it)
}

// has reports whether the command waits or runs here.
func (l *lane) has(id uuid.UUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.items[id] != nil
}

// claim reserves room for a first attempt. The line is kept short, at most as
// long as what may be under way, so that the rest stays in the queue, where any
// process can take it.
func (l *lane) claim() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining || l.closed || time.Now().Before(l.opens) || l.running+l.claimed+len(l.ready) >= 2*l.permits {
		return false
	}
	l.claimed++
	return true
}

func (l *lane) unclaim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimed--
}

// isBarred reports whether this process may not send at all.
func (l *lane) isBarred() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.barred
}

// settings are what may change while the process runs.
type settings struct {
	permits int
	limit   *rate.Limit
	burst   int
	closed  bool
	barred  bool
	opens   time.Time
}

func (l *lane) set(s settings) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.permits, l.closed, l.barred, l.opens = max(1, s.permits), s.closed, s.barred, s.opens
	if l.opens.After(time.Now()) {
		l.probing, l.probe = true, nil // what is under way by now tells nothing of what follows
	} else if l.opens.IsZero() {
		l.probing = false // there is none, or somebody ended it
	}
	switch {
	case s.limit == nil:
		l.limiter = nil
	case l.limiter == nil:
		l.limiter = rate.NewLimiter(*s.limit, max(1, s.burst))
	default:
		l.limiter.SetLimit(*s.limit)
		l.limiter.SetBurst(max(1, s.burst))
	}
	l.pumpLocked()
}

// finished gives the permit back and tells who waited. An item that asks to run
// again stays in the lane, unless the queue brought it and takes it back.
func (l *lane) finished(it *item, r ran, retry *item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	delete(l.items, it.id)
	if l.probe == it {
		l.probe = nil
		l.probing = r.throttled || r.idle || r.again > 0 || r.err != nil // all but the first were not sent
	}
	notify(r, it.waiters...)
	takenBack := (r.again > 0 || r.err != nil) && len(it.waiters) > 0 && it.prepared == nil
	if retry != nil && !takenBack && !l.draining {
		l.items[retry.id] = retry
		heap.Push(&l.later, retry)
	}
	l.pumpLocked()
}

func notify(r ran, waiters ...chan<- ran) {
	for _, w := range waiters {
		if w != nil {
			w <- r // every waiter's channel has room for its one answer
		}
	}
}

// drain sends everybody away who has not started, and lets nobody in.
func (l *lane) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	l.timer.Stop()
	for _, it := range l.items {
		if !it.running {
			l.forget(it)
			notify(ran{err: errDraining}, it.waiters...)
		}
	}
}

func (l *lane) pump() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pumpLocked()
}

// pumpLocked starts what is due and may start, and sets the timer to when to
// look again.
func (l *lane) pumpLocked() {
	now := time.Now()
	for len(l.later) > 0 && !l.later[0].due.After(now) {
		heap.Push(&l.ready, heap.Pop(&l.later))
	}
	next := time.Duration(-1)
	if len(l.later) > 0 {
		next = l.later[0].due.Sub(now)
	}
	for len(l.ready) > 0 && !l.closed && !l.draining && l.running < l.permits && l.probe == nil {
		if wait := l.mustWait(now); wait > 0 {
			if next < 0 || wait < next {
				next = wait
			}
			break
		}
		it := heap.Pop(&l.ready).(*item)
		it.running = true
		l.running++
		if l.probing {
			l.probe = it
		}
		l.start(l, it)
	}
	if next >= 0 {
		l.timer.Reset(next)
	}
}

// mustWait is the time until the throttle and the rate let one more go; with 0
// it has taken its token.
func (l *lane) mustWait(now time.Time) time.Duration {
	if wait := l.opens.Sub(now); wait > 0 {
		return wait
	}
	if l.limiter == nil {
		return 0
	}
	r := l.limiter.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return wait
	}
	return 0
}

// dueHeap orders by due time.
type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(*item)) }
func (h *dueHeap) Pop() any          { return pop((*[]*item)(h)) }
func (h *dueHeap) remove(it *item)   { remove(h, *h, it) }

// readyHeap orders what is due by priority, then by due time.
type readyHeap []*item

func (h readyHeap) Len() int { return len(h) }
func (h readyHeap) Less(i, j int) bool {
	if h[i].priority != h[j].priority {
		return h[i].priority < h[j].priority
	}
	return h[i].due.Before(h[j].due)
}
func (h readyHeap) Swap(i, j int)    { h[i], h[j] = h[j], h[i] }
func (h *readyHeap) Push(x any)      { *h = append(*h, x.(*item)) }
func (h *readyHeap) Pop() any        { return pop((*[]*item)(h)) }
func (h *readyHeap) remove(it *item) { remove(h, *h, it) }

func pop(list *[]*item) *item {
	last := len(*list) - 1
	it := (*list)[last]
	(*list)[last] = nil
	*list = (*list)[:last]
	return it
}

func remove(h heap.Interface, list []*item, it *item) {
	for i, other := range list {
		if other == it {
			heap.Remove(h, i)
			return
		}
	}
}
