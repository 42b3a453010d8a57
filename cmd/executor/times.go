package main

import (
	"fmt"
	"time"
)

// stamp prints a moment the way the API does.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// stampOrNone prints a moment that may not have come.
func stampOrNone(t *time.Time) string {
	if t == nil {
		return ""
	}
	return stamp(*t)
}

// age prints a duration with no more digits than a person needs.
func age(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

// moment is a flag that takes a time (RFC 3339) or a duration before or after
// now.
type moment struct {
	time.Time
	sign time.Duration // 1: a duration means from now, -1: ago
}

func (m *moment) String() string { return "" }
func (m *moment) Type() string   { return "time" }

func (m *moment) Set(s string) error {
	if d, err := time.ParseDuration(s); err == nil {
		m.Time = time.Now().Add(m.sign * d)
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("%q is neither a time like 2026-12-01T00:00:00Z nor a duration like 15m", s)
	}
	m.Time = t
	return nil
}
