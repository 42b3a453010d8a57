package attempts

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"executor/commands"
)

// track is a lane whose items run until the test ends them.
type track struct {
	*lane
	started []*item
	at      []time.Duration // since the track began
	began   time.Time
}

// newTrack opens a lane with so many permits. Its lock covers what it notes,
// since items are started under it.
func newTrack(permits int) *track {
	k := &track{began: time.Now()}
	k.lane = newLane(1, func(_ *lane, it *item) {
		k.started, k.at = append(k.started, it), append(k.at, time.Since(k.began))
	})
	k.set(settings{permits: permits})
	return k
}

func (k *track) running() []*item {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.started)
}

func (k *track) times() []time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.at)
}

// due is an item that has been due for so long.
func due(since time.Duration, priority int) *item {
	return &item{id: uuid.New(), due: time.Now().Add(-since), priority: priority}
}

// same says whether the items that were started are these, in this order.
func same(t *testing.T, got []*item, want ...*item) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%d items were started, not the %d expected or not in their order", len(got), len(want))
	}
}

func TestLaneOrder(t *testing.T) {
	k := newTrack(1)
	first := due(0, 3)
	k.push(first, nil)
	low, late, early, high := due(9*time.Second, 3), due(time.Second, 2), due(5*time.Second, 2), due(0, 1)
	for _, it := range []*item{low, late, early, high} {
		k.push(it, nil)
	}
	same(t, k.running(), first)
	for _, it := range []*item{first, high, early, late} {
		k.finished(it, ran{}, nil)
	}
	same(t, k.running(), first, high, early, late, low)
}

func TestLanePermits(t *testing.T) {
	k := newTrack(2)
	items := []*item{due(4, 2), due(3, 2), due(2, 2), due(1, 2)}
	for _, it := range items {
		k.push(it, nil)
	}
	same(t, k.running(), items[:2]...)
	k.set(settings{permits: 1})
	k.finished(items[0], ran{}, nil)
	same(t, k.running(), items[:2]...)
	k.set(settings{permits: 3})
	same(t, k.running(), items...)
}

func TestLaneTimes(t *testing.T) {
	perSecond := rate.Limit(2)
	for name, tt := range map[string]struct {
		settings settings
		want     []time.Duration
	}{
		"due":    {settings{permits: 9}, []time.Duration{0, time.Second, 2 * time.Second}},
		"rate":   {settings{permits: 9, limit: &perSecond, burst: 1}, []time.Duration{0, time.Second, 2 * time.Second}},
		"faster": {settings{permits: 9, limit: new(rate.Limit(0.5)), burst: 1}, []time.Duration{0, 2 * time.Second, 4 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newTrack(9)
				k.set(tt.settings)
				for i := range 3 {
					k.push(&item{id: uuid.New(), due: time.Now().Add(time.Duration(i) * time.Second)}, nil)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := k.times(); !slices.Equal(got, tt.want) {
					t.Errorf("started at %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestLaneBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTrack(9)
		k.set(settings{permits: 9, limit: new(rate.Limit(1)), burst: 2})
		for range 4 {
			k.push(due(0, 2), nil)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := k.times(), []time.Duration{0, 0, time.Second, 2 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("started at %v, want %v", got, want)
		}
	})
}

func TestLaneHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTrack(9)
		k.set(settings{permits: 9, closed: true})
		k.push(due(0, 2), nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		same(t, k.running())
		k.set(settings{permits: 9, opens: time.Now().Add(time.Minute)})
		same(t, k.running())
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := k.times(); !slices.Equal(got, []time.Duration{2 * time.Minute}) {
			t.Errorf("started at %v", got)
		}
	})
}

// TestLaneProbe: after a throttle one command asks, and the others follow once it has an
// answer that does not prolong it.
func TestLaneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newTrack(4)
		before := due(0, 2)
		k.push(before, nil)
		over := time.Now().Add(time.Minute)
		k.set(settings{permits: 4, opens: over})
		items := []*item{due(6, 2), due(5, 2), due(4, 2), due(3, 2), due(2, 2), due(1, 2)}
		for _, it := range items {
			k.push(it, nil)
		}
		time.Sleep(2 * time.Minute)
		k.set(settings{permits: 4, opens: over})
		k.finished(before, ran{}, nil) // sent before the throttle: it tells nothing
		same(t, k.running(), before, items[0])
		k.finished(items[0], ran{again: time.Hour}, nil) // not sent at all
		same(t, k.running(), before, items[0], items[1])
		k.finished(items[1], ran{idle: true}, nil) // its deadline had passed meanwhile
		same(t, k.running(), before, items[0], items[1], items[2])
		k.finished(items[2], ran{throttled: true}, nil)
		same(t, k.running(), before, items[0], items[1], items[2], items[3])
		k.finished(items[3], ran{}, nil)
		same(t, k.running(), append([]*item{before}, items...)...)
	})
}

// TestLaneJoin: a command that comes twice runs once, and both are told.
func TestLaneJoin(t *testing.T) {
	k := newTrack(1)
	it := due(0, 2)
	first, second := make(chan ran, 1), make(chan ran, 1)
	k.push(it, first)
	k.push(&item{id: it.id, due: time.Now()}, second)
	same(t, k.running(), it)
	k.finished(it, ran{again: time.Second}, nil)
	for _, told := range []chan ran{first, second} {
		if r := <-told; r.again != time.Second {
			t.Errorf("told %+v", r)
		}
	}
	if k.has(it.id) {
		t.Error("it is still there")
	}
}

// TestLaneAgain: who asks to run again stays, unless the queue takes it back.
func TestLaneAgain(t *testing.T) {
	again := ran{again: time.Minute}
	for name, tt := range map[string]struct {
		prepared, brought bool
		said              ran
		stays             bool
	}{
		"own":                  {false, false, again, true},
		"brought by a job":     {false, true, again, false},
		"claimed":              {true, false, again, true},
		"claimed, job came":    {true, true, again, true},
		"own, in trouble":      {false, false, ran{err: errors.New("away")}, true},
		"brought, in trouble":  {false, true, ran{err: errors.New("away")}, false},
		"brought, near retry":  {false, true, ran{}, true},
		"own, with near retry": {false, false, ran{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			k := newTrack(1)
			it := due(0, 2)
			if tt.prepared {
				it.prepared = &commands.Prepared{ID: it.id}
			}
			var done chan ran
			if tt.brought {
				done = make(chan ran, 1)
				k.push(it, done)
			} else {
				k.push(it, nil)
			}
			k.finished(it, tt.said, &item{id: it.id, due: time.Now().Add(time.Hour)})
			if k.has(it.id) != tt.stays {
				t.Errorf("stays %v, want %v", !tt.stays, tt.stays)
			}
		})
	}
}

func TestLaneWithdraw(t *testing.T) {
	k := newTrack(1)
	busy, waiting, shared, claimed := due(4, 1), due(3, 2), due(2, 2), due(1, 2)
	claimed.prepared = &commands.Prepared{ID: claimed.id}
	told := func() chan ran { return make(chan ran, 1) }
	busyDone, waitingDone, sharedDone, claimedDone := told(), told(), told(), told()
	k.push(busy, busyDone)
	k.push(waiting, waitingDone)
	k.push(shared, sharedDone)
	k.push(shared, told())
	k.push(claimed, claimedDone)

	if k.withdraw(busy.id, busyDone) {
		t.Error("took back one that runs")
	}
	for _, tt := range []struct {
		it    *item
		done  chan ran
		stays bool
	}{{waiting, waitingDone, false}, {shared, sharedDone, true}, {claimed, claimedDone, true}} {
		if !k.withdraw(tt.it.id, tt.done) || k.has(tt.it.id) != tt.stays {
			t.Errorf("after it was taken back it is there: %v, want %v", k.has(tt.it.id), tt.stays)
		}
	}
	// Who was answered takes nothing back: what is here now is somebody else's.
	k.finished(busy, ran{}, &item{id: busy.id, due: time.Now().Add(time.Hour)})
	if k.withdraw(busy.id, busyDone) || !k.has(busy.id) {
		t.Error("the retry went with the waiter of the attempt before it")
	}
	<-busyDone
	same(t, k.running(), busy, shared)
}

func TestLaneClaims(t *testing.T) {
	k := newTrack(2)
	for i := range 4 {
		if !k.claim() {
			t.Fatalf("claim %d of 4 was refused", i+1)
		}
	}
	if k.claim() {
		t.Error("the line is longer than twice the permits")
	}
	k.unclaim()
	if !k.claim() {
		t.Error("the room of a claim that was given back is not free")
	}
	for _, s := range []settings{{permits: 9, closed: true}, {permits: 9, opens: time.Now().Add(time.Hour)}} {
		k.set(s)
		if k.claim() {
			t.Errorf("a claim was granted under %+v", s)
		}
	}
}

func TestLaneDrain(t *testing.T) {
	k := newTrack(1)
	busy, waiting, later := due(2, 2), due(1, 2), &item{id: uuid.New(), due: time.Now().Add(time.Hour)}
	busyDone, waitingDone, laterDone, lateDone := make(chan ran, 1), make(chan ran, 1), make(chan ran, 1), make(chan ran, 1)
	k.push(busy, busyDone)
	k.push(waiting, waitingDone)
	k.push(later, laterDone)
	k.drain()
	k.push(due(0, 1), lateDone)
	for _, done := range []chan ran{waitingDone, laterDone, lateDone} {
		if r := <-done; !errors.Is(r.err, errDraining) {
			t.Errorf("told %+v", r)
		}
	}
	if k.claim() {
		t.Error("a claim was granted")
	}
	k.finished(busy, ran{}, &item{id: busy.id, due: time.Now()})
	if r := <-busyDone; r.err != nil {
		t.Errorf("what ran was told %v", r.err)
	}
	same(t, k.running(), busy)
	if k.has(busy.id) || k.has(waiting.id) || k.has(later.id) {
		t.Error("something is left")
	}
}
