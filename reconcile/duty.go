package reconcile

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Duty is work that is done again and again.
type Duty struct {
	name  string
	every time.Duration
	do    func(ctx context.Context) error
	log   *slog.Logger
	loop  sync.WaitGroup
	halt  context.CancelFunc
}

// dutyBound is how long one turn of a duty may take: on a connection that stands
// still it would take for ever.
const dutyBound = 30 * time.Second

// NewDuty builds a Duty that does nothing before Start. A failure is logged, and
// the next turn tries anew.
func NewDuty(name string, every time.Duration, do func(ctx context.Context) error, log *slog.Logger) *Duty {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Duty{name: name, every: every, do: do, log: log}
}

// Start begins with a turn at once.
func (d *Duty) Start() {
	var ctx context.Context
	ctx, d.halt = context.WithCancel(context.Background())
	d.loop.Go(func() {
		tick := time.NewTicker(d.every)
		defer tick.Stop()
		for ctx.Err() == nil {
			d.turn(ctx)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
}

func (d *Duty) turn(ctx context.Context) {
	bound, cancel := context.WithTimeout(ctx, dutyBound)
	defer cancel()
	if err := guard(func() error { return d.do(bound) }); err != nil && ctx.Err() == nil {
		d.log.Error(d.name, "error", err)
	}
}

// Stop cuts off the turn under way: whatever it did not finish is done again.
func (d *Duty) Stop(context.Context) {
	if d.halt != nil {
		d.halt()
	}
	d.loop.Wait()
}
