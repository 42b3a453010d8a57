package webhooks

import "github.com/prometheus/client_golang/prometheus"

// metrics count tries by what came of them.
type metrics struct {
	deliveries *prometheus.CounterVec
	oldest     prometheus.Gauge
	unverified prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "executor_webhook_deliveries_total", Help: "Tries to deliver a webhook that this process recorded, by what came of them: delivered, failed (given up), retried, interrupted.",
		}, []string{"result"}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "executor_webhook_oldest_pending_age_seconds", Help: "Age of the oldest event that an enabled webhook is not told of yet; those that have not proved themselves do not count.",
		}),
		unverified: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "executor_webhook_unverified", Help: "Enabled webhooks whose receiver has not answered a challenge: their deliveries wait.",
		}),
	}
	if registry != nil {
		registry.MustRegister(m.deliveries, m.oldest, m.unverified)
	}
	return m
}

func (m *metrics) count(r result) {
	label := "retried"
	switch {
	case r.failure.ours():
		label = "interrupted"
	case r.state != DeliveryPending:
		label = string(r.state)
	}
	m.deliveries.WithLabelValues(label).Inc()
}
