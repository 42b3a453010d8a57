package upstreams

import (
	"fmt"
	"math"
	"slices"
	"time"

	"executor/outcome"
)

// timeouts reads a section over the values that hold without it.
func (r *reader) timeouts(m *mapping, base Timeouts) Timeouts {
	t := Timeouts{
		Connect:        m.duration("connect", base.Connect, shortestTimeout, maxTimeout),
		TLS:            m.duration("tls", base.TLS, shortestTimeout, maxTimeout),
		ResponseHeader: m.duration("response_header", base.ResponseHeader, shortestTimeout, maxTimeout),
		Total:          m.duration("total", base.Total, shortestTimeout, maxTimeout),
	}
	m.done()
	return t
}

func (r *reader) limits(m *mapping) Limits {
	l := Limits{
		MaxInFlight:         m.integer("max_in_flight", 32, 1, 100_000),
		Rate:                r.rate(m, nil),
		ResponseBytes:       m.size("response_bytes", 1<<20, 1<<10, 64<<20),
		StoredResponseBytes: m.size("stored_response_bytes", 64<<10, 1<<10, 64<<20),
		HeaderBytes:         m.size("header_bytes", 64<<10, 1<<10, 1<<20),
		Lookups:             r.lookupLimits(m.mapping("lookups")),
	}
	if l.StoredResponseBytes > l.ResponseBytes {
		if m.has("stored_response_bytes") {
			m.fail("stored_response_bytes", "is more than response_bytes: nothing behind that is read", "At most "+formatSize(l.ResponseBytes)+".")
		}
		l.StoredResponseBytes = l.ResponseBytes
	}
	m.done()
	return l
}

func (r *reader) lookupLimits(m *mapping) LookupLimits {
	l := LookupLimits{
		MaxInFlight: m.integer("max_in_flight", 4, 1, 1000),
		Rate:        r.rate(m, &Rate{PerSecond: 10, Burst: 10}),
	}
	m.done()
	return l
}

func (r *reader) rate(m *mapping, fallback *Rate) *Rate {
	if !m.has("rate") {
		m.asked = append(m.asked, "rate")
		return fallback
	}
	inner := m.mapping("rate")
	if !inner.has("per_second") {
		inner.missing("per_second", "Write `rate: {per_second: 10, burst: 20}`.")
	}
	rate := &Rate{PerSecond: inner.fraction("per_second", 1, 0.001, 1e6)}
	rate.Burst = inner.integer("burst", int(math.Ceil(rate.PerSecond)), 1, 1_000_000)
	inner.done()
	return rate
}

func defaultRetry() Retry {
	return Retry{
		Retry: outcome.Retry{
			MaxAttempts:      25,
			MinAttemptWindow: time.Second,
			Backoff:          outcome.Backoff{Initial: 500 * time.Millisecond, Max: 30 * time.Second, Jitter: outcome.JitterFull},
			WhenBudgetEmpty:  outcome.WhenEmptyWait,
		},
		Budget:                 Budget{Ratio: 0.2, FloorPerSecond: 1, Burst: 20, WhenEmpty: outcome.WhenEmptyWait},
		ThrottlePausesUpstream: true,
	}
}

// retry reads a section over the values that hold without it. The size of the
// budget and the throttle pause belong to the upstream as a whole: an operation
// cannot override them.
func (r *reader) retry(m *mapping, base Retry, whole bool) Retry {
	t := base
	t.MaxAttempts = m.integer("max_attempts", base.MaxAttempts, 1, 1000)
	t.MinAttemptWindow = m.duration("min_attempt_window", base.MinAttemptWindow, shortestTimeout, maxTimeout)
	t.TransientStatuses = m.statuses("transient_statuses", base.TransientStatuses, 500, 599)
	if m.has("transient_statuses") {
		r.warnTransient(m, t.TransientStatuses)
	}
	t.Backoff = r.backoff(m.mapping("backoff"), base.Backoff)
	t.Budget = r.budget(m.mapping("budget"), base.Budget, whole)
	t.WhenBudgetEmpty = t.Budget.WhenEmpty
	if whole {
		t.ThrottlePausesUpstream = m.boolean("throttle_pauses_upstream", base.ThrottlePausesUpstream)
	} else {
		m.wholeUpstream("throttle_pauses_upstream")
	}
	m.done()
	return t
}

func (r *reader) backoff(m *mapping, base outcome.Backoff) outcome.Backoff {
	b := outcome.Backoff{
		Initial: m.duration("initial", base.Initial, instant, maxDeadline),
		Max:     m.duration("max", base.Max, instant, maxDeadline),
		Jitter:  outcome.Jitter(m.choice("jitter", string(base.Jitter), texts(outcome.Jitters())...)),
	}
	if b.Max < b.Initial && (m.has("max") || m.has("initial")) {
		at := "max"
		if !m.has(at) {
			at = "initial"
		}
		m.fail(at, fmt.Sprintf("max (%s) is shorter than initial (%s)", short(b.Max), short(b.Initial)), "")
	}
	m.done()
	return b
}

func (r *reader) budget(m *mapping, base Budget, whole bool) Budget {
	b := base
	b.WhenEmpty = outcome.WhenEmpty(m.choice("when_empty", string(base.WhenEmpty), texts(outcome.WhenEmpties())...))
	if whole {
		b.Ratio = m.fraction("ratio", base.Ratio, 0, 10)
		b.FloorPerSecond = m.fraction("floor_per_second", base.FloorPerSecond, 0, 10_000)
		b.Burst = m.integer("burst", base.Burst, 1, 1_000_000)
	} else {
		m.wholeUpstream("ratio", "floor_per_second", "burst")
	}
	m.done()
	return b
}

// wholeUpstream refuses members that an operation cannot override.
func (m *mapping) wholeUpstream(names ...string) {
	for _, name := range names {
		if m.has(name) {
			m.asked = append(m.asked, name)
			m.fail(name, "holds for the whole upstream", "Set it under retry of the profile.")
		}
	}
}

// texts turns the words of an enum into strings.
func texts[T ~string](words []T) []string {
	var out []string
	for _, w := range words {
		out = append(out, string(w))
	}
	return slices.Clip(out)
}
