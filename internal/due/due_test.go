package due_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"executor/internal/due"
)

// source hands out items of lanes, as a table of due rows would.
type source struct {
	mu    sync.Mutex
	items []item
	err   error
	looks int
}

type item struct {
	lane string
	n    int
}

// places is how many items of one lane may be under way.
const places = 2

func (s *source) claim(_ context.Context, busy map[string]int, limit int) ([]item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.err != nil {
		return nil, s.err
	}
	var taken, rest []item
	for _, it := range s.items {
		if len(taken) < limit && busy[it.lane] < places {
			busy[it.lane]++
			taken = append(taken, it)
		} else {
			rest = append(rest, it)
		}
	}
	s.items = rest
	return taken, nil
}

func runner(s *source, total int, work func(ctx context.Context, it item)) *due.Runner[string, item] {
	return due.New(due.Config[string, item]{
		Name: "test", Every: time.Second, Total: total, Claim: s.claim, Lane: func(it item) string { return it.lane }, Work: work,
	})
}

func many(lane string, n int) []item {
	list := make([]item, n)
	for i := range list {
		list[i] = item{lane, i}
	}
	return list
}

// TestALaneThatStandsStillHoldsUpNoOther, and takes no more than its places.
func TestALaneThatStandsStillHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{items: append(many("stalled", 10), many("quick", 10)...)}
		var quick, stalled atomic.Int32
		r := runner(s, 100, func(ctx context.Context, it item) {
			if it.lane == "stalled" {
				stalled.Add(1)
				<-ctx.Done()
				return
			}
			quick.Add(1)
		})
		r.Start()
		synctest.Wait()
		if quick.Load() != 10 || stalled.Load() != places {
			t.Errorf("%d of 10 quick ones are done, beside %d that stand still", quick.Load(), stalled.Load())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r.Stop(ctx) // cuts off what stands still
		if n := stalled.Load(); n != places {
			t.Errorf("%d were begun after the stop", n-places)
		}
	})
}

// TestTheTotalHolds over all lanes.
func TestTheTotalHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{items: append(append(many("a", 5), many("b", 5)...), many("c", 5)...)}
		var now, most, done atomic.Int32
		r := runner(s, 3, func(context.Context, item) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-time.After(time.Second)
			now.Add(-1)
			done.Add(1)
		})
		r.Start()
		<-time.After(time.Minute)
		r.Stop(t.Context())
		if most.Load() > 3 || done.Load() != 15 {
			t.Errorf("%d at once, %d done", most.Load(), done.Load())
		}
	})
}

// TestWorkThatFails: neither a panic nor a failed look ends the runner.
func TestWorkThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{items: many("a", 1), err: errors.New("away")}
		var begun atomic.Int32
		r := runner(s, 10, func(context.Context, item) {
			begun.Add(1)
			panic("on purpose")
		})
		r.Start()
		<-time.After(10 * time.Second)
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		<-time.After(10 * time.Second)
		s.mu.Lock()
		s.items = many("a", 3)
		s.mu.Unlock()
		<-time.After(10 * time.Second)
		r.Stop(t.Context())
		if begun.Load() != 4 {
			t.Errorf("%d of 4 were begun", begun.Load())
		}
	})
}

// TestStopWaits for what is under way, as long as it may.
func TestStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{items: many("a", 1)}
		var finished, cut atomic.Bool
		r := runner(s, 10, func(ctx context.Context, _ item) {
			select {
			case <-time.After(5 * time.Second):
				finished.Store(true)
			case <-ctx.Done():
				cut.Store(true)
			}
		})
		r.Start()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.Stop(ctx)
		if !finished.Load() || cut.Load() {
			t.Error("it was cut off, though there was time")
		}
	})
}

// TestWake: it does not wait for the next look.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		done := make(chan time.Time, 1)
		r := due.New(due.Config[string, item]{
			Name: "test", Every: time.Hour, Total: 1, Claim: s.claim, Lane: func(it item) string { return it.lane },
			Work: func(context.Context, item) { done <- time.Now() },
		})
		r.Start()
		synctest.Wait()
		s.mu.Lock()
		s.items = many("a", 1)
		s.mu.Unlock()
		asked := time.Now()
		r.Wake()
		if took := (<-done).Sub(asked); took > time.Minute {
			t.Errorf("it took %s", took)
		}
		r.Stop(t.Context())
	})
}
