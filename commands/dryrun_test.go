package commands_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"executor/commands"
	"executor/upstreams"
)

// TestDryRun shows the request and leaves nothing behind.
func TestDryRun(t *testing.T) {
	r := newRig(t)
	s := submission("k", "pay")
	s.Query = map[string]string{"mode": "fast"}
	before := time.Now()
	p, err := r.store.DryRun(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if p.Method != "POST" || p.URL != "https://up.example/v2/accounts/a1/payments?mode=fast" || string(p.Body) != string(s.Body) ||
		p.ContentType != "application/json" || p.ProfileVersion != 1 || p.Existing != nil {
		t.Errorf("preview %+v", p)
	}
	if (p.Identity != upstreams.Identity{In: "header", Name: "Idempotency-Key", Key: "k"}) ||
		!slices.Contains(p.Headers, upstreams.Header{Name: "Idempotency-Key", Value: "k"}) {
		t.Errorf("the key goes to %+v in %+v", p.Identity, p.Headers)
	}
	if d := p.Deadline.Sub(before); d < 10*time.Minute || d > 11*time.Minute {
		t.Errorf("deadline in %s, want the profile's 10m", d)
	}
	for _, table := range []string{"commands", "command_requests", "events", "river_job"} {
		if n := r.count(t, `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
}

func TestDryRunDeadlines(t *testing.T) {
	r := newRig(t)
	later := time.Now().Add(time.Hour)
	deadline := later.Add(time.Minute)
	s := submission("k", "pay")
	s.NotBefore, s.Timeout = &later, time.Minute
	if p, err := r.store.DryRun(t.Context(), s); err != nil || !p.Deadline.Equal(later.Add(time.Minute)) {
		t.Errorf("timeout after not_before: %s, %v", p.Deadline, err)
	}
	s.Timeout, s.Deadline = 0, &deadline
	if p, err := r.store.DryRun(t.Context(), s); err != nil || !p.Deadline.Equal(deadline) {
		t.Errorf("deadline: %s, %v", p.Deadline, err)
	}
}

// TestDryRunOfABoundKey tells what a submit would meet.
func TestDryRunOfABoundKey(t *testing.T) {
	r := newRig(t)
	c := r.submit(t, submission("k", "pay"))
	p, err := r.store.DryRun(t.Context(), submission("k", "pay"))
	if err != nil || p.Existing == nil || p.Existing.ID != c.ID {
		t.Errorf("existing %+v, %v", p.Existing, err)
	}
	other := submission("k", "pay")
	other.Body = []byte(`{}`)
	var m *commands.KeyMismatch
	if _, err := r.store.DryRun(t.Context(), other); !errors.As(err, &m) || m.CommandID != c.ID {
		t.Errorf("another body: %v", err)
	}
}
