package webhooks_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/webhooks"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	good, _ := r.endpoint(t, to.URL)
	idle, _ := r.endpoint(t, "https://idle.example", func(s *webhooks.Settings) { s.Events = []string{"command.corrected"} })
	off, _ := r.endpoint(t, "https://off.example")
	if _, err := r.hooks.Update(t.Context(), by(tenant), off.ID, 0, webhooks.Changes{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	r.engine(t)
	id := r.ended(t, "k", outcome.StateSuccess)
	to.await(t, 1)
	await(t, "it is delivered", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE endpoint_id = $1 AND state = 'delivered'`, good.ID) == 1
	})
	r.exec(t, `
		INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, sequence, type, at, next_at, state, ended_at)
		SELECT gen_random_uuid(), $1, $2, 1, 'command.success', now() - interval '2 days', now(), 'failed', now() FROM generate_series(1, $3::int) i`,
		off.ID, tenant, webhooks.MaxCount+5)
	all, err := r.hooks.Health(t.Context(), tenant)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	if h := all[good.ID]; h.Pending != 0 || h.Failed != 0 || h.LastSuccess == nil || h.OldestPending != nil {
		t.Errorf("one that is well: %+v", h)
	}
	if h := all[idle.ID]; h != (webhooks.Health{}) {
		t.Errorf("one that nothing happened to: %+v", h)
	}
	if h := all[off.ID]; h.Pending != 1 || h.Failed != webhooks.MaxCount+1 || h.LastSuccess != nil || h.OldestPending == nil {
		t.Errorf("one that is disabled, about %s: %+v", id, h)
	}
	if other, err := r.hooks.Health(t.Context(), "other"); err != nil || len(other) != 0 {
		t.Errorf("another tenant: %+v, %v", other, err)
	}
}

func TestHealthReadsIndexes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(t)
	if plan := r.explain(t, webhooks.HealthSQL, "tenant 1", webhooks.MaxCount+1, 1000); strings.Contains(plan, "Seq Scan on webhook_deliveries") {
		t.Errorf("health reads deliveries from end to end:\n%s", plan)
	}
}

func TestARangeIsCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, _ := r.endpoint(t, "https://a.example")
	for _, state := range []string{"failed", "failed", "delivered"} {
		r.exec(t, `
			INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, sequence, type, at, next_at, state, ended_at)
			VALUES (gen_random_uuid(), $1, $2, 1, 'command.success', now() - interval '1 h', now(), $3, now())`, e.ID, tenant, state)
	}
	since := time.Now().Add(-2 * time.Hour)
	for want, states := range map[int][]webhooks.DeliveryState{2: nil, 3: {"failed", "delivered"}, 1: {"delivered"}} {
		n, more, err := r.hooks.CountRange(t.Context(), tenant, webhooks.Range{Endpoint: e.ID, Since: since, States: states})
		if err != nil || n != want || more {
			t.Errorf("%v: %d, %v, %v; want %d", states, n, more, err, want)
		}
	}
	if _, _, err := r.hooks.CountRange(t.Context(), "other", webhooks.Range{Endpoint: e.ID, Since: since}); !errors.Is(err, webhooks.ErrNotFound) {
		t.Errorf("another tenant's endpoint: %v", err)
	}
	if _, _, err := r.hooks.CountRange(t.Context(), tenant, webhooks.Range{Endpoint: uuid.New(), Since: since.Add(9 * time.Hour)}); code(err) != "empty_range" {
		t.Errorf("an empty range: %v", err)
	}
	done, err := r.hooks.RedeliverRange(t.Context(), by(tenant), webhooks.Range{Endpoint: e.ID, Since: since})
	if err != nil || done.Count != 2 {
		t.Errorf("what was counted is not what is sent: %+v, %v", done, err)
	}
}

func TestRotatingWhatHasChanged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, _ := r.endpoint(t, "https://a.example")
	after, _, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, e.Version, time.Hour)
	if err != nil || after.Version == e.Version {
		t.Fatalf("%+v, %v", after, err)
	}
	if _, secret, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, e.Version, 0); code(err) != "stale 2" || secret != "" {
		t.Errorf("sent twice: %v", err)
	}
}
