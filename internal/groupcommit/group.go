// Package groupcommit lets many callers share one database commit, and tells
// apart what a failed commit means: not done, or not known.
package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// ErrClosed means that the group takes nothing more; the item was not flushed.
var ErrClosed = errors.New("the group is closed")

// flushBound is how long a flush may take on its way to COMMIT. It is a last resort
// against a network that swallows everything, behind which all others would wait.
const flushBound = 15 * time.Second

// Result is what became of one item.
type Result[R any] struct {
	Value R
	Err   error
}

// Group collects what arrives while a flush runs and flushes it as one. An idle
// group flushes at once: grouping never makes anybody wait for company, so there
// is no timer in it.
type Group[T, R any] struct {
	max   int
	flush func(ctx context.Context, items []T) []Result[R]

	mu       sync.Mutex
	queue    []*call[T, R]
	flushing bool
	closed   bool
	idle     sync.Cond // on mu: flushing became false
}

// call is one item and the place where its caller waits.
type call[T, R any] struct {
	item T
	done chan Result[R] // holds one, so that delivery never waits
}

// New returns a group that hands up to max items at a time to flush, in the
// order in which they came, never twice at once. Flush returns one result for
// each item, in the same order.
func New[T, R any](max int, flush func(ctx context.Context, items []T) []Result[R]) *Group[T, R] {
	g := &Group[T, R]{max: max, flush: flush}
	g.idle.L = &g.mu
	return g
}

// Do has the item flushed and returns its result. The context bounds the wait
// and nothing else. If it ends while the item still waits for its turn, the item
// is withdrawn and the context's error returned. If it ends during the flush, the
// flush goes on, and the error is ErrUnknown beside that of the context.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	var none R
	if err := ctx.Err(); err != nil {
		return none, err
	}
	c := &call[T, R]{item: item, done: make(chan Result[R], 1)}
	if !g.enqueue(c) {
		return none, ErrClosed
	}
	select {
	case r := <-c.done:
		return r.Value, r.Err
	case <-ctx.Done():
	}
	if g.withdraw(c) {
		return none, ctx.Err()
	}
	select {
	case r := <-c.done: // both came at the same moment
		return r.Value, r.Err
	default:
		return none, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
}

// Close refuses new items and returns when those taken have their results.
func (g *Group[T, R]) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for g.flushing {
		g.idle.Wait()
	}
}

func (g *Group[T, R]) enqueue(c *call[T, R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.queue = append(g.queue, c)
	if !g.flushing {
		g.flushing = true
		go g.run()
	}
	return true
}

// withdraw takes an item back that no flush has taken yet.
func (g *Group[T, R]) withdraw(c *call[T, R]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := slices.Index(g.queue, c)
	if at < 0 {
		return false
	}
	g.queue = slices.Delete(g.queue, at, at+1)
	return true
}

// run flushes until nothing is left.
func (g *Group[T, R]) run() {
	for {
		batch := g.take()
		if batch == nil {
			return
		}
		items := make([]T, len(batch))
		for i, c := range batch {
			items[i] = c.item
		}
		for i, r := range g.flushNow(items) {
			batch[i].done <- r
		}
	}
}

// take removes the next batch from the queue, or declares the group idle.
func (g *Group[T, R]) take() []*call[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(g.max, len(g.queue))
	if n == 0 {
		g.queue = nil
		g.flushing = false
		g.idle.Broadcast()
		return nil
	}
	batch := slices.Clone(g.queue[:n])
	g.queue = slices.Delete(g.queue, 0, n)
	return batch
}

// flushNow returns exactly one result for each item, whatever flush does: a
// caller that is never answered would wait for ever. A panic may have come before
// or after the commit.
func (g *Group[T, R]) flushNow(items []T) (results []Result[R]) {
	ctx, cancel := context.WithTimeout(context.Background(), flushBound)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			results = failAll[R](len(items), fmt.Errorf("%w: panic: %v\n%s", ErrUnknown, p, debug.Stack()))
		}
	}()
	results = g.flush(ctx, items)
	if len(results) != len(items) {
		return failAll[R](len(items), fmt.Errorf("%w: the flush returned %d results for %d items", ErrUnknown, len(results), len(items)))
	}
	return results
}

func failAll[R any](n int, err error) []Result[R] {
	results := make([]Result[R], n)
	for i := range results {
		results[i].Err = err
	}
	return results
}
