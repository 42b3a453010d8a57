// Package due works on rows that are due. It asks for them again and again and
// works on a bounded number at once in each lane, so that what is slow or broken
// in one lane holds up no other.
//
// The rows themselves say what is due and who has claimed it for how long, so
// that a process that dies needs nobody to clean up after it.
package due

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"
)

// Config is what a Runner is built from. All but Log is required.
type Config[K comparable, T any] struct {
	Name  string        // for the log
	Every time.Duration // between two looks while nothing happens
	Total int           // items at once in this process

	// Claim takes due rows, at most limit of them. busy counts the items under way
	// in each lane of this process; Claim leaves full lanes alone.
	Claim func(ctx context.Context, busy map[K]int, limit int) ([]T, error)
	Lane  func(item T) K
	// Work does one item. Its context ends when Stop's bound passes. What it cannot
	// finish becomes due again when its claim ends.
	Work func(ctx context.Context, item T)

	Log *slog.Logger
}

// claimBound is how long one look may take: on a connection that stands still it
// would take for ever.
const claimBound = 10 * time.Second

// Runner is a loop that claims and works.
type Runner[K comparable, T any] struct {
	config Config[K, T]
	wake   chan struct{}
	loop   sync.WaitGroup
	works  sync.WaitGroup
	halt   context.CancelFunc // ends the loop
	cut    context.CancelFunc // ends the work

	mu    sync.Mutex
	busy  map[K]int
	count int
}

// New builds a Runner that does nothing before Start.
func New[K comparable, T any](c Config[K, T]) *Runner[K, T] {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Runner[K, T]{config: c, wake: make(chan struct{}, 1), busy: make(map[K]int)}
}

// Start begins to work. Only Stop ends it.
func (r *Runner[K, T]) Start() {
	var looking, working context.Context
	looking, r.halt = context.WithCancel(context.Background())
	working, r.cut = context.WithCancel(context.Background())
	r.loop.Go(func() {
		tick := time.NewTicker(r.config.Every)
		defer tick.Stop()
		for looking.Err() == nil {
			r.look(looking, working)
			select {
			case <-looking.Done():
			case <-tick.C:
			case <-r.wake:
			}
		}
	})
}

// Wake makes the Runner look at once.
func (r *Runner[K, T]) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Stop claims nothing more and waits for what is under way, which is cut off
// when ctx ends. A look that has begun is under way too: of a claim that nobody
// waits for the rows would stay taken until it ends.
func (r *Runner[K, T]) Stop(ctx context.Context) {
	if r.halt == nil {
		return
	}
	r.halt()
	stop := context.AfterFunc(ctx, r.cut)
	defer stop()
	r.loop.Wait()
	r.works.Wait()
	r.cut()
}

func (r *Runner[K, T]) look(looking, working context.Context) {
	r.mu.Lock()
	busy, room := maps.Clone(r.busy), r.config.Total-r.count
	r.mu.Unlock()
	if room <= 0 {
		return
	}
	ctx, cancel := context.WithTimeout(working, claimBound)
	defer cancel()
	items, err := r.config.Claim(ctx, busy, room)
	if err != nil {
		if looking.Err() == nil {
			r.config.Log.Error("look for what is due", "what", r.config.Name, "error", err)
		}
		return
	}
	for _, item := range items {
		r.begin(working, item)
	}
}

func (r *Runner[K, T]) begin(ctx context.Context, item T) {
	lane := r.config.Lane(item)
	r.mu.Lock()
	r.busy[lane]++
	r.count++
	r.mu.Unlock()
	r.works.Go(func() {
		defer r.end(lane)
		defer func() {
			if p := recover(); p != nil {
				r.config.Log.Error("work panicked", "what", r.config.Name, "panic", p)
			}
		}()
		r.config.Work(ctx, item)
	})
}

// end makes room, and looks whether there is more.
func (r *Runner[K, T]) end(lane K) {
	r.mu.Lock()
	if r.busy[lane]--; r.busy[lane] == 0 {
		delete(r.busy, lane)
	}
	r.count--
	r.mu.Unlock()
	r.Wake()
}
