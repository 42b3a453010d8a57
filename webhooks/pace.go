package webhooks

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// DefaultRate is how many tries a second one endpoint gets from one process.
const DefaultRate = 100

// paceWake is how soon, at least, an endpoint that was held is looked at again.
const paceWake = 25 * time.Millisecond

// pace holds endpoints to a rate in this process: however much waits for one, its
// receiver is not flooded. Each endpoint has a bucket of tries that fills at the
// rate; one that is not in the map is full.
type pace struct {
	rate   float64 // tries a second
	burst  float64 // tries at once; not less than places, or one that fails would never be free
	places int     // of an endpoint
	wake   func()

	mu      sync.Mutex
	buckets map[uuid.UUID]bucket
	waking  bool
}

type bucket struct {
	left float64 // below 0: taken in advance
	at   time.Time
}

func newPace(rate, places int, wake func()) *pace {
	return &pace{
		rate: float64(rate), burst: max(float64(places), float64(rate)/10), places: places, wake: wake, buckets: make(map[uuid.UUID]bucket),
	}
}

// hold makes endpoints busy with what their rate does not allow yet.
func (p *pace) hold(busy map[uuid.UUID]int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := false
	for id, b := range p.buckets {
		left := p.fill(b, now)
		if left >= p.burst {
			delete(p.buckets, id)
			continue
		}
		if free := max(int(left), 0); free < p.places {
			busy[id] = max(busy[id], p.places-free)
			held = true
		}
	}
	if held && !p.waking {
		p.waking = true
		time.AfterFunc(max(paceWake, time.Duration(float64(time.Second)/p.rate)), p.again)
	}
}

func (p *pace) again() {
	p.mu.Lock()
	p.waking = false
	p.mu.Unlock()
	p.wake()
}

// took counts what was claimed.
func (p *pace) took(list []*job, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range list {
		b, known := p.buckets[j.EndpointID]
		left := p.burst
		if known {
			left = p.fill(b, now)
		}
		p.buckets[j.EndpointID] = bucket{left - 1, now}
	}
}

func (p *pace) fill(b bucket, now time.Time) float64 {
	return min(p.burst, b.left+p.rate*now.Sub(b.at).Seconds())
}
