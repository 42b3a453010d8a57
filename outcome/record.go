package outcome

import (
	"fmt"
	"time"
)

// Record is the compact account of a command, computed from its attempts.
type Record struct {
	Attempts          int
	LastResponseClass string   // of the last response, "2xx" to "5xx"; empty without one
	LastTimeout       *Timeout // nil if no attempt ran into one
	Elapsed           time.Duration
	Boundary          Boundary // a settled attempt counts as not crossed
	MayHaveCrossed    bool     // any attempt might have crossed, as far as its own evidence goes
}

// Timeout is which timeout an attempt ran into, and when.
type Timeout struct {
	Kind string // permit, pool, connect, response_header, body, total
	At   time.Time
}

// RecordOf sums up the attempts of a command, oldest first. An open attempt has
// no end and counts up to its start.
func RecordOf(k Idempotency, attempts []Attempt) Record {
	r := Record{Attempts: len(attempts), Boundary: BoundaryOver(k, attempts), Elapsed: elapsed(attempts)}
	for _, a := range attempts {
		if a.Evidence.HasStatus() {
			r.LastResponseClass = responseClass(a.Status)
		}
		if kind := timeoutKind(a.Category); kind != "" {
			r.LastTimeout = &Timeout{Kind: kind, At: a.EndedAt}
		}
		if BoundaryOf(k, a.Evidence, a.GivenAnswer()) != BoundaryNotCrossed {
			r.MayHaveCrossed = true
		}
	}
	return r
}

// responseClass is the class of a status, "5xx"; empty for what is none.
func responseClass(status int) string {
	if status < 100 || status > 999 {
		return ""
	}
	return fmt.Sprintf("%dxx", status/100)
}

// timeoutKind is the timeout behind a category; empty if there is none.
func timeoutKind(c Category) string {
	switch c {
	case CategoryPermitTimeout:
		return "permit"
	case CategoryPoolTimeout:
		return "pool"
	case CategoryConnectTimeout:
		return "connect"
	case CategoryHeaderTimeout:
		return "response_header"
	case CategoryBodyTimeout:
		return "body"
	case CategoryAttemptTimeout:
		return "total"
	default:
		return ""
	}
}

// elapsed is the time from the first start to the last end, 0 if the clock went
// back.
func elapsed(attempts []Attempt) time.Duration {
	if len(attempts) == 0 {
		return 0
	}
	first, last := attempts[0].StartedAt, attempts[0].StartedAt
	for _, a := range attempts {
		if a.StartedAt.Before(first) {
			first = a.StartedAt
		}
		for _, t := range []time.Time{a.StartedAt, a.EndedAt} {
			if t.After(last) {
				last = t
			}
		}
	}
	return last.Sub(first)
}
