package attempts

import (
	"sync"
	"time"
)

// repeats keeps a trouble that many commands share out of the log but for one
// line in each span, and all troubles together at a bounded number of lines. The
// zero value is ready.
type repeats struct {
	mu    sync.Mutex
	since time.Time
	told  map[string]bool
}

const (
	repeatsSpan = time.Minute
	repeatsMost = 100 // troubles that are told of in a span
)

// first reports whether the trouble is to be logged: it was not yet in this span.
func (r *repeats) first(trouble string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil || now.Sub(r.since) >= repeatsSpan {
		r.since, r.told = now, make(map[string]bool)
	}
	if r.told[trouble] || len(r.told) >= repeatsMost {
		return false
	}
	r.told[trouble] = true
	return true
}
