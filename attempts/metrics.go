package attempts

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"executor/outcome"
)

// metrics count attempts by upstream and by what was seen; ids, keys and URLs
// are no labels.
type metrics struct {
	attempts *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	decided  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "executor_attempts_total", Help: "Attempts on record, by evidence and answer.",
		}, []string{"upstream", "evidence", "answer"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "executor_attempt_duration_seconds", Help: "Time from the commit before the first byte to the end of the exchange.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"upstream"}),
		decided: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "executor_decisions_total", Help: "Decisions after attempts, by the state that followed.",
		}, []string{"upstream", "decision", "state"}),
	}
	if registry != nil {
		registry.MustRegister(m.attempts, m.seconds, m.decided)
	}
	return m
}

// observe counts a finished attempt, and earns its upstream's retry budget a
// share if it was a first one and was sent.
func (e *Engine) observe(w *work, r Report, done *Finished) {
	name := w.profile.Upstream
	e.metrics.attempts.WithLabelValues(name, string(r.Evidence), string(r.Answer)).Inc()
	e.metrics.decided.WithLabelValues(name, string(done.Decision.Verdict), string(done.State)).Inc()
	if r.Evidence == outcome.EvidenceNotSent {
		return
	}
	e.metrics.seconds.WithLabelValues(name).Observe(float64(r.Elapsed) / float64(time.Second))
	if done.Number == 1 {
		e.mu.Lock()
		e.first[w.UpstreamID]++
		e.mu.Unlock()
	}
}
