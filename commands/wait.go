package commands

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
)

// Wait returns the command as soon as it is final, or as it stands when ctx
// ends.
func (s *Store) Wait(ctx context.Context, tenant string, id uuid.UUID) (Command, error) {
	woken, done := s.watch.add(id)
	defer done()
	for {
		c, err := s.Get(ctx, tenant, id)
		switch {
		case ctx.Err() != nil:
			return s.Get(context.WithoutCancel(ctx), tenant, id)
		case err != nil || c.Final():
			return c, err
		}
		select {
		case <-woken:
		case <-ctx.Done():
		}
	}
}

// Ended returns when the command is final, or false when ctx ends first. It
// reads nothing of it: what this process ends, or ended a moment ago, is noticed
// at once; what another one ends, by a poll over everybody who waits here.
func (s *Store) Ended(ctx context.Context, id uuid.UUID) bool {
	woken, done := s.watch.add(id)
	defer done()
	if s.watch.endedLately(id) {
		return true
	}
	select {
	case <-woken:
		return true
	case <-ctx.Done():
		return false
	}
}

// finalAmong says which of the commands are final.
func (s *Store) finalAmong(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, state FROM commands WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("poll commands: %w", err)
	}
	defer rows.Close()
	var final []uuid.UUID
	for rows.Next() {
		var (
			id    uuid.UUID
			state outcome.State
		)
		if err := rows.Scan(&id, &state); err != nil {
			return nil, fmt.Errorf("poll commands: %w", err)
		}
		if state.Final() {
			final = append(final, id)
		}
	}
	return final, rows.Err()
}

// watchInterval is how long another process's outcome may go unnoticed here.
const watchInterval = 250 * time.Millisecond

// watch wakes those who wait for commands. It polls only while somebody waits.
type watch struct {
	poll func(context.Context, []uuid.UUID) ([]uuid.UUID, error)
	stop context.CancelFunc
	ctx  context.Context

	mu      sync.Mutex
	waiters map[uuid.UUID]map[chan struct{}]struct{}
	running bool
	recent  [recentEnds]uuid.UUID // a ring: who asks right after the end does not wait for the poll
	next    int
}

// recentEnds is how many ends are remembered.
const recentEnds = 1024

func newWatch(poll func(context.Context, []uuid.UUID) ([]uuid.UUID, error)) *watch {
	w := &watch{poll: poll, waiters: make(map[uuid.UUID]map[chan struct{}]struct{})}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

func (w *watch) close() { w.stop() }

// add registers a waiter. Its channel holds one wake-up.
func (w *watch) add(id uuid.UUID) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiters[id] == nil {
		w.waiters[id] = make(map[chan struct{}]struct{})
	}
	w.waiters[id][ch] = struct{}{}
	if !w.running {
		w.running = true
		go w.loop()
	}
	return ch, func() { w.remove(id, ch) }
}

func (w *watch) remove(id uuid.UUID, ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waiters[id], ch)
	if len(w.waiters[id]) == 0 {
		delete(w.waiters, id)
	}
}

// endedLately reports whether the command ended here a moment ago.
func (w *watch) endedLately(id uuid.UUID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.recent[:], id)
}

func (w *watch) wake(id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recent[w.next%recentEnds] = id
	w.next++
	for ch := range w.waiters[id] {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// loop polls until nobody waits any more.
func (w *watch) loop() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		ids, more := w.waiting()
		if !more {
			return
		}
		final, err := w.poll(w.ctx, ids)
		if err != nil {
			continue // the database is away: the next round asks again
		}
		for _, id := range final {
			w.wake(id)
		}
	}
}

// waiting lists what is waited for; without anything the loop ends.
func (w *watch) waiting() ([]uuid.UUID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = len(w.waiters) > 0
	ids := make([]uuid.UUID, 0, len(w.waiters))
	for id := range w.waiters {
		ids = append(ids, id)
	}
	return ids, w.running
}
