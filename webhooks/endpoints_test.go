package webhooks_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/webhooks"
)

func code(err error) string {
	var (
		invalid *webhooks.Invalid
		refused *webhooks.Refused
		stale   *webhooks.Stale
	)
	switch {
	case errors.As(err, &invalid):
		return invalid.Code
	case errors.As(err, &refused):
		return refused.Code
	case errors.As(err, &stale):
		return fmt.Sprint("stale ", stale.Version)
	case err == nil:
		return ""
	default:
		return err.Error()
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	public := newRig(t, func(c *webhooks.Config) { c.Allow = nil })
	inside := newRig(t, func(c *webhooks.Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")} })
	for url, want := range map[string][2]string{ // what a public and what an inside deployment say
		"https://example.com":                  {"", ""},
		"https://example.com:8443/a/b?token=1": {"", ""},
		"https://xn--bcher-kva.example/":       {"", ""},
		"https://8.8.8.8/":                     {"", ""},
		"http://example.com":                   {"invalid_url", ""}, // its address decides
		"http://10.1.2.3/":                     {"invalid_url", ""},
		"https://10.1.2.3/":                    {"invalid_url", ""},
		"http://8.8.8.8/":                      {"invalid_url", "invalid_url"},
		"https://10.2.0.1/":                    {"invalid_url", "invalid_url"},
		"https://127.0.0.1/":                   {"invalid_url", "invalid_url"},
		"https://[::1]/":                       {"invalid_url", "invalid_url"},
		"https://[::ffff:127.0.0.1]/":          {"invalid_url", "invalid_url"},
		"https://169.254.169.254/latest":       {"invalid_url", "invalid_url"},
		"":                                     {"invalid_url", "invalid_url"},
		"example.com/hook":                     {"invalid_url", "invalid_url"},
		"//example.com/hook":                   {"invalid_url", "invalid_url"},
		"https:///hook":                        {"invalid_url", "invalid_url"},
		"https://:443/":                        {"invalid_url", "invalid_url"},
		"https:example.com":                    {"invalid_url", "invalid_url"},
		"ftp://example.com/":                   {"invalid_url", "invalid_url"},
		"https://user:pass@example.com/":       {"invalid_url", "invalid_url"},
		"https://example.com/#part":            {"invalid_url", "invalid_url"},
		"https://example.com/#":                {"invalid_url", "invalid_url"},
		"https://example.com:0/":               {"invalid_url", "invalid_url"},
		"https://example.com:99999/":           {"invalid_url", "invalid_url"},
		"https://example.com:/":                {"invalid_url", "invalid_url"},
		"https://exämple.com/":                 {"invalid_url", "invalid_url"},
		"https://example.com/a b":              {"invalid_url", "invalid_url"},
		"https://example.com/\x00":             {"invalid_url", "invalid_url"},
		"https://example.com/" + strings.Repeat("long", 1000): {"invalid_url", "invalid_url"},
	} {
		for i, r := range []*rig{public, inside} {
			_, _, err := r.hooks.Create(t.Context(), by(tenant), webhooks.Settings{URL: url})
			if code(err) != want[i] {
				t.Errorf("%.60q, deployment %d: %v, want %q", url, i, err, want[i])
			}
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for want, set := range map[string]webhooks.Settings{
		"unknown_event":       {Events: []string{"command.success", "command.succeeded"}},
		"invalid_description": {Description: strings.Repeat("é", 501)},
		"invalid_upstreams":   {Upstreams: []string{""}},
	} {
		set.URL = "https://example.com"
		if _, _, err := r.hooks.Create(t.Context(), by(tenant), set); code(err) != want {
			t.Errorf("%+v: %v, want %s", set, err, want)
		}
	}
	if _, _, err := r.hooks.RotateSecret(t.Context(), by(tenant), uuid.New(), 0, 8*24*time.Hour); code(err) != "invalid_overlap" {
		t.Errorf("an overlap of eight days: %v", err)
	}
	e, _ := r.endpoint(t, "https://example.com", func(s *webhooks.Settings) {
		s.Events, s.Upstreams, s.Description = []string{"command.success", "command.cancelled", "command.success"}, []string{"b", "a"}, "ours"
	})
	if !slices.Equal(e.Events, []string{"command.cancelled", "command.success"}) || !slices.Equal(e.Upstreams, []string{"a", "b"}) {
		t.Errorf("kept as %+v", e)
	}
}

// TestSecretsAreShownOnceAndSealed.
func TestSecretsAreShownOnceAndSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, secret := r.endpoint(t, "https://example.com")
	value, ok := strings.CutPrefix(secret, "whsec_")
	raw, err := base64.StdEncoding.DecodeString(value)
	if !ok || err != nil || len(raw) != 32 {
		t.Errorf("secret %q", secret)
	}
	for _, table := range []string{"webhook_secrets", "webhook_endpoints", "audit"} {
		n := r.count(t, `SELECT count(*) FROM `+table+` x WHERE x::text LIKE '%' || $1 || '%' OR x::text LIKE '%' || $2 || '%'`,
			value, fmt.Sprintf("%x", raw))
		if n != 0 {
			t.Errorf("%s shows the secret", table)
		}
	}
	if len(e.Secrets) != 1 || e.Secrets[0].ExpiresAt != nil {
		t.Errorf("%+v", e.Secrets)
	}
	keyless := newRigOn(t, r.pool, func(c *webhooks.Config) { c.Box = nil })
	if _, _, err := keyless.hooks.Create(t.Context(), by(tenant), webhooks.Settings{URL: "https://b.example"}); code(err) != "no_sealing_key" {
		t.Errorf("without a key: %v", err)
	}
	for range 4 {
		if _, _, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, 0, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, 0, time.Hour); code(err) != "too_many_secrets" {
		t.Errorf("a sixth secret: %v", err)
	}
	if after, _, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, 0, 0); err != nil || len(after.Secrets) != 1 {
		t.Errorf("without an overlap: %+v, %v", after.Secrets, err)
	}
}

func TestCreatingTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		made int
	)
	for range 8 {
		all.Go(func() {
			_, _, err := r.hooks.Create(context.Background(), by(tenant), webhooks.Settings{URL: "https://same.example"})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				made++
			} else if code(err) != "webhook_exists" {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("%d were made, want 1", made)
	}
	for i := range webhooks.MaxEndpoints - 1 {
		r.endpoint(t, fmt.Sprintf("https://%d.example", i))
	}
	if _, _, err := r.hooks.Create(t.Context(), by(tenant), webhooks.Settings{URL: "https://more.example"}); code(err) != "too_many_webhooks" {
		t.Errorf("one more: %v", err)
	}
	if list, err := r.hooks.List(t.Context(), tenant); err != nil || len(list) != webhooks.MaxEndpoints || list[0].URL != "https://same.example" {
		t.Errorf("%d, %v", len(list), err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, _ := r.endpoint(t, "https://one.example")
	other, _ := r.endpoint(t, "https://two.example")
	update := func(version int, c webhooks.Changes) (webhooks.Endpoint, error) {
		return r.hooks.Update(t.Context(), by(tenant), e.ID, version, c)
	}
	after, err := update(e.Version, webhooks.Changes{Description: new("new"), Ordered: new(true), Events: &[]string{"command.rejected"}, Disabled: new(true)})
	if err != nil || after.Description != "new" || !after.Ordered || after.URL != e.URL || after.Version != 2 ||
		after.DisabledBy != webhooks.DisabledByPerson || after.DisabledReason != "disabled by ann: test" || after.DisabledAt == nil {
		t.Fatalf("%+v, %v", after, err)
	}
	if _, err := update(e.Version, webhooks.Changes{}); code(err) != "stale 2" {
		t.Errorf("stale: %v", err)
	}
	if _, err := update(0, webhooks.Changes{URL: &other.URL}); code(err) != "webhook_exists" {
		t.Errorf("another's URL: %v", err)
	}
	if _, err := update(0, webhooks.Changes{URL: new("nowhere")}); code(err) != "invalid_url" {
		t.Errorf("a bad URL: %v", err)
	}
	if _, err := r.hooks.Test(t.Context(), by(tenant), e.ID); code(err) != "webhook_disabled" {
		t.Errorf("a test while disabled: %v", err)
	}
	again, err := update(2, webhooks.Changes{Disabled: new(true)}) // is so already
	if err != nil || !again.DisabledAt.Equal(*after.DisabledAt) {
		t.Errorf("disabled twice: %+v, %v", again, err)
	}
	if back, err := update(3, webhooks.Changes{Disabled: new(false)}); err != nil || back.DisabledAt != nil || back.DisabledReason != "" {
		t.Errorf("enabled: %+v, %v", back, err)
	}
}

// TestTwoChangeAtOnce: with the version that both saw, one wins.
func TestTwoChangeAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, _ := r.endpoint(t, "https://one.example")
	results := make(chan string, 2)
	for i := range 2 {
		go func() {
			_, err := r.hooks.Update(context.Background(), by(tenant), e.ID, 1, webhooks.Changes{Description: new(fmt.Sprint(i))})
			results <- code(err)
		}()
	}
	if got := []string{<-results, <-results}; !slices.Contains(got, "") || !slices.Contains(got, "stale 2") {
		t.Errorf("%q", got)
	}
}

// TestDeleting drops what is pending and keeps the log.
func TestDeleting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	e, _ := r.endpoint(t, to.URL)
	engine := r.engine(t)
	told := r.ended(t, "told", outcome.StateSuccess)
	r.awaitState(t, told, webhooks.DeliveryDelivered)
	engine.Stop(t.Context())
	pending := r.ended(t, "pending", outcome.StateSuccess)
	if err := r.hooks.Delete(t.Context(), by(tenant), e.ID, 7); code(err) != "stale 1" {
		t.Errorf("stale: %v", err)
	}
	// An outcome that is announced while the endpoint is being deleted.
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	crossing := r.submit(t, "crossing")
	if err := r.endIn(t.Context(), tx, crossing, outcome.StateSuccess); err != nil {
		t.Fatal(err)
	}
	if err := r.hooks.Delete(t.Context(), by(tenant), e.ID, 1); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := r.one(t, pending); d.State != webhooks.DeliveryDropped {
		t.Errorf("%+v", d)
	}
	r.engine(t)
	r.awaitState(t, crossing, webhooks.DeliveryDropped)
	if _, err := r.hooks.Get(t.Context(), tenant, e.ID); err != webhooks.ErrNotFound {
		t.Errorf("still there: %v", err)
	}
	if _, err := r.hooks.Redeliver(t.Context(), by(tenant), r.one(t, told).ID); code(err) != "webhook_gone" {
		t.Errorf("redelivered: %v", err)
	}
	if a := r.account(t, r.one(t, told).ID); a.State != webhooks.DeliveryDelivered || len(a.Log) != 1 || len(a.Payload) == 0 {
		t.Errorf("the log: %+v", a)
	}
	if n := r.count(t, `SELECT count(*) FROM webhook_secrets`); n != 0 {
		t.Errorf("%d secrets are left", n)
	}
}

func TestTheLog(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.endpoint(t, "https://a.example")
	r.endpoint(t, "https://b.example")
	var ids []uuid.UUID
	for i := range 7 {
		ids = append(ids, r.ended(t, fmt.Sprint("k", i), outcome.StateSuccess))
	}
	id := r.ended(t, "rejected", outcome.StateRejected)
	r.exec(t, `UPDATE webhook_deliveries SET state = 'failed', ended_at = now() WHERE command_id = $1`, ids[0])
	list := func(f webhooks.DeliveryFilter) (all []webhooks.Delivery) {
		f.Tenant = tenant
		for {
			page, next, err := r.hooks.Deliveries(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, page...)
			if f.Cursor = next; next == "" {
				return all
			}
		}
	}
	all := list(webhooks.DeliveryFilter{Limit: 3})
	if len(all) != 16 || !slices.IsSortedFunc(all, func(a, b webhooks.Delivery) int { return b.At.Compare(a.At) }) {
		t.Errorf("%d in all", len(all))
	}
	seen := map[uuid.UUID]bool{}
	for _, d := range all {
		seen[d.ID] = true
	}
	if len(seen) != 16 {
		t.Errorf("%d different ones", len(seen))
	}
	first := r.of(t, ids[0])[0]
	for want, f := range map[int]webhooks.DeliveryFilter{
		8:  {Endpoint: &a.ID, Limit: 3},
		2:  {Command: &id},
		1:  {Endpoint: &a.ID, States: []string{"failed"}},
		14: {States: []string{"pending"}},
		12: {Since: new(r.of(t, ids[1])[0].At.Add(time.Microsecond)), Limit: 5},
	} {
		if got := list(f); len(got) != want {
			t.Errorf("%+v: %d, want %d", f, len(got), want)
		}
	}
	if got := list(webhooks.DeliveryFilter{Type: "command.rejected", Event: &r.of(t, id)[0].EventID}); len(got) != 2 {
		t.Errorf("by webhook-id: %d", len(got))
	}
	for name, f := range map[string]webhooks.DeliveryFilter{"unknown_state": {States: []string{"lost"}}, webhooks.ErrBadCursor.Error(): {Cursor: "AAAA"}} {
		if _, _, err := r.hooks.Deliveries(t.Context(), f); code(err) != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	done, err := r.hooks.RedeliverRange(t.Context(), by(tenant), webhooks.Range{Endpoint: a.ID, Since: first.At, States: webhooks.DeliveryStates()})
	if err != nil || done.Count != 8 {
		t.Errorf("%+v, %v", done, err)
	}
	r.exec(t, `
		INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, sequence, type, at, next_at, state, ended_at)
		SELECT gen_random_uuid(), $1, $2, 1, 'command.success', now() - interval '2 days', now(), CASE i % 2 WHEN 0 THEN 'failed' ELSE 'delivered' END, now()
		FROM generate_series(1, 2 * $3::int + 3) i`, a.ID, tenant, webhooks.MaxRange)
	old := webhooks.Range{Endpoint: a.ID, Since: time.Now().Add(-72 * time.Hour), Until: time.Now().Add(-time.Hour)}
	for _, count := range []int{webhooks.MaxRange, 1} { // the same call takes the rest
		if done, err := r.hooks.RedeliverRange(t.Context(), by(tenant), old); err != nil || done.Count != count || done.More != (count == webhooks.MaxRange) {
			t.Errorf("of many that failed: %+v, %v", done, err)
		}
	}
	old.States = []webhooks.DeliveryState{webhooks.DeliveryDelivered} // and would take the same
	if _, err := r.hooks.RedeliverRange(t.Context(), by(tenant), old); code(err) != "range_too_large" {
		t.Errorf("of many that were delivered: %v", err)
	}
	if _, err := r.hooks.RedeliverRange(t.Context(), by(tenant), webhooks.Range{Endpoint: a.ID, Since: time.Now().Add(time.Hour)}); code(err) != "empty_range" {
		t.Errorf("an empty range: %v", err)
	}
}

// TestDeedsAreAudited: every change and redelivery by a person.
func TestDeedsAreAudited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	e, _ := r.endpoint(t, "https://a.example")
	id := r.ended(t, "k", outcome.StateSuccess)
	for _, deed := range []func() error{
		func() error {
			_, err := r.hooks.Update(t.Context(), by(tenant), e.ID, 0, webhooks.Changes{Ordered: new(true)})
			return err
		},
		func() error { _, _, err := r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, 0, 0); return err },
		func() error { _, err := r.hooks.Test(t.Context(), by(tenant), e.ID); return err },
		func() error { _, err := r.hooks.Redeliver(t.Context(), by(tenant), r.one(t, id).ID); return err },
		func() error {
			_, err := r.hooks.RedeliverRange(t.Context(), by(tenant), webhooks.Range{Endpoint: e.ID, Since: time.Now().Add(-time.Hour)})
			return err
		},
		func() error { return r.hooks.Delete(t.Context(), by(tenant), e.ID, 0) },
	} {
		if err := deed(); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	err := r.pool.QueryRow(t.Context(), `
		SELECT string_agg(action, ' ' ORDER BY number) FROM audit WHERE actor = 'ann' AND reason = 'test' AND tenant = $1`, tenant).Scan(&got)
	if err != nil {
		t.Fatal(err)
	}
	want := "webhook.create webhook.update webhook.rotate_secret webhook.test webhook.redeliver webhook.redeliver_range webhook.delete"
	if got != want {
		t.Errorf("audited %s\nwant    %s", got, want)
	}
}
