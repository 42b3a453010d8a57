package web

import (
	"slices"
	"time"
)

// span is a stretch of time in which something happened.
type span struct{ from, to time.Time }

// timescale places moments along an axis. Stretches in which nothing happens are
// drawn shorter than they were where they would take most of it.
type timescale struct {
	parts []stretch
	width float64
}

// stretch is a part of the axis with one scale.
type stretch struct {
	span
	x, width   float64
	compressed bool
}

// newTimescale covers the spans, from the first to the last moment.
func newTimescale(spans []span, width float64) timescale {
	t := timescale{width: width}
	if len(spans) == 0 {
		return t
	}
	busy := union(spans)
	var active, idle time.Duration
	gaps := make([]time.Duration, 0, len(busy))
	for i, s := range busy {
		active += s.to.Sub(s.from)
		if i > 0 {
			gap := s.from.Sub(busy[i-1].to)
			idle += gap
			gaps = append(gaps, gap)
		}
	}
	limit := idle
	if idle > active {
		limit = waitLimit(gaps, max(active, time.Millisecond))
	}
	t.lay(busy, limit)
	return t
}

// waitLimit is the length at which waits are cut, so that together they take at
// most the room there is.
func waitLimit(gaps []time.Duration, room time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(gaps))
	for i, gap := range sorted {
		if share := room / time.Duration(len(sorted)-i); gap > share {
			return max(share, 1)
		}
		room -= gap
	}
	return sorted[len(sorted)-1]
}

// lay gives each stretch its place.
func (t *timescale) lay(busy []span, limit time.Duration) {
	var total time.Duration
	drawn := func(s span, gap bool) time.Duration {
		if d := s.to.Sub(s.from); !gap || d <= limit {
			return d
		}
		return limit
	}
	for i, s := range busy {
		if i > 0 {
			gap := span{busy[i-1].to, s.from}
			t.parts = append(t.parts, stretch{span: gap, width: float64(drawn(gap, true)), compressed: gap.to.Sub(gap.from) > limit})
			total += drawn(gap, true)
		}
		t.parts = append(t.parts, stretch{span: s, width: float64(drawn(s, false))})
		total += drawn(s, false)
	}
	x, scale := 0.0, t.width/max(float64(total), 1)
	for i := range t.parts {
		t.parts[i].x, t.parts[i].width = x, t.parts[i].width*scale
		x += t.parts[i].width
	}
}

// at is where a moment stands.
func (t timescale) at(moment time.Time) float64 {
	for _, p := range t.parts {
		if moment.After(p.to) {
			continue
		}
		whole := p.to.Sub(p.from)
		if whole <= 0 || moment.Before(p.from) {
			return p.x
		}
		return p.x + p.width*float64(moment.Sub(p.from))/float64(whole)
	}
	return t.width
}

// union joins what overlaps, in order.
func union(spans []span) []span {
	sorted := slices.SortedFunc(slices.Values(spans), func(a, b span) int { return a.from.Compare(b.from) })
	joined := sorted[:1]
	for _, s := range sorted[1:] {
		last := &joined[len(joined)-1]
		switch {
		case s.from.After(last.to):
			joined = append(joined, s)
		case s.to.After(last.to):
			last.to = s.to
		}
	}
	return joined
}
