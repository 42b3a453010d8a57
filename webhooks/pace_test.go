package webhooks

import (
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestPace: an endpoint gets its burst at once and then no more than its rate, others
// are not held, and one that was quiet starts anew.
func TestPace(t *testing.T) {
	const rate, places = 20, 4
	p := newPace(rate, places, func() {})
	busyOne, quiet := uuid.New(), uuid.New()
	now := time.Now()
	taken := 0
	look := func() {
		busy := map[uuid.UUID]int{} // what was taken before is done
		p.hold(busy, now)
		if busy[quiet] != 0 {
			t.Errorf("the quiet one is held with %d", busy[quiet])
		}
		list := make([]*job, places-busy[busyOne])
		for i := range list {
			list[i] = &job{EndpointID: busyOne}
		}
		p.took(list, now)
		taken += len(list)
	}
	for range 1000 {
		look()
		now = now.Add(time.Millisecond)
	}
	if taken < rate || taken > rate+places {
		t.Errorf("%d tries in a second, want %d and a burst of %d", taken, rate, places)
	}
	now = now.Add(time.Minute)
	taken = 0
	if look(); taken != places || len(p.buckets) != 1 {
		t.Errorf("after a pause: %d at once, %d buckets", taken, len(p.buckets))
	}
	now = now.Add(time.Minute)
	if p.hold(map[uuid.UUID]int{}, now); len(p.buckets) != 0 {
		t.Errorf("%d buckets are kept of endpoints that are quiet", len(p.buckets))
	}
}

// TestPaceLeavesFailingOnesAPlace: an endpoint that fails has one place; however low
// the rate, it becomes free.
func TestPaceLeavesFailingOnesAPlace(t *testing.T) {
	p := newPace(1, 4, func() {})
	id, now := uuid.New(), time.Now()
	p.took([]*job{{EndpointID: id}}, now)
	busy := map[uuid.UUID]int{}
	if p.hold(busy, now); busy[id] == 0 {
		t.Error("not held at once")
	}
	busy = map[uuid.UUID]int{}
	if p.hold(busy, now.Add(time.Second)); busy[id] != 0 {
		t.Errorf("still held with %d", busy[id])
	}
}

// TestPaceWakes those who were held.
func TestPaceWakes(t *testing.T) {
	woken := make(chan struct{}, 1)
	p := newPace(100, 4, func() { woken <- struct{}{} })
	now := time.Now()
	list := make([]*job, 10)
	for i := range list {
		list[i] = &job{EndpointID: uuid.Nil}
	}
	p.took(list, now)
	p.hold(map[uuid.UUID]int{}, now)
	select {
	case <-woken:
	case <-time.After(30 * time.Second):
		t.Error("nobody looks again")
	}
}
