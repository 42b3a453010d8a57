package webhooks_test

import (
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"executor/outcome"
	"executor/webhooks"
)

// TestMetrics tell what came of tries, and how long somebody waits to be told.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	r := newRig(t, func(c *webhooks.Config) { c.Registry = registry })
	to := newReceiver(t, func(n int, g got, w http.ResponseWriter, _ *http.Request) {
		if n == 1 || g.message.Type == "command.rejected" {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	e, _ := r.endpoint(t, to.URL)
	engine := r.engine(t, waits(1, 1))
	r.awaitState(t, r.ended(t, "good", outcome.StateSuccess), webhooks.DeliveryDelivered)
	r.awaitState(t, r.ended(t, "bad", outcome.StateRejected), webhooks.DeliveryFailed)
	for result, want := range map[string]float64{"delivered": 1, "failed": 1, "retried": 2} {
		await(t, result+" is counted", func() bool { return metric(t, registry, "executor_webhook_deliveries_total", result) == want })
	}
	engine.Stop(t.Context())
	r.ended(t, "late", outcome.StateSuccess)
	r.exec(t, `UPDATE webhook_deliveries SET at = now() - interval '1 hour' WHERE state = 'pending'`)
	age := func() float64 { return metric(t, registry, "executor_webhook_oldest_pending_age_seconds", "") }
	if _, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{URL: new("http://127.0.0.9:1999/")}); err != nil {
		t.Fatal(err)
	}
	again := r.engine(t, waits(1, 1<<40))
	await(t, "the age shows", func() bool { return age() >= 3600 })
	if _, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	await(t, "a disabled webhook is nobody's alarm", func() bool { return age() == 0 })
	again.Stop(t.Context())
}

// metric reads one value; label is of the only label, "" for none.
func metric(t *testing.T, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return -1
}
