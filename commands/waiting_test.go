package commands_test

import (
	"strings"
	"testing"
	"time"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// TestWaiting: a pending command says what it waits for, and until when where
// anybody can know.
func TestWaiting(t *testing.T) {
	rated := strings.Replace(profile, "deadline: 10m", "deadline: 10m\nlimits: {max_in_flight: 1, rate: {per_second: 1}}", 1)
	next := func(c commands.Command) time.Time { return *c.NextAttemptAt }
	tests := []struct {
		name   string
		happen func(t *testing.T, r *rig) commands.Command
		want   commands.WaitFor
		until  func(commands.Command) time.Time
	}{
		{"nothing but a place", func(t *testing.T, r *rig) commands.Command {
			return r.submit(t, submission("k", "pay"))
		}, commands.WaitPermit, nil},
		{"a place, though there is a rate", func(t *testing.T, r *rig) commands.Command {
			r.apply(t, rated)
			r.in(t, "other", outcome.StatePending)
			r.begin(t, r.byKey(t, "other"))
			return r.submit(t, submission("k", "pay"))
		}, commands.WaitPermit, nil},
		{"the rate", func(t *testing.T, r *rig) commands.Command {
			r.apply(t, rated)
			return r.submit(t, submission("k", "pay"))
		}, commands.WaitRate, nil},
		{"not_before", func(t *testing.T, r *rig) commands.Command {
			s := submission("k", "pay")
			s.NotBefore = new(time.Now().Add(time.Hour))
			return r.submit(t, s)
		}, commands.WaitNotBefore, next},
		{"backoff", func(t *testing.T, r *rig) commands.Command {
			return r.get(t, r.after(t, "k", "pay", outcome.StatePending, lost))
		}, commands.WaitBackoff, next},
		{"a retry token", func(t *testing.T, r *rig) commands.Command {
			return r.waitFor(t, "k", commands.WaitRetryToken, time.Hour)
		}, commands.WaitRetryToken, next},
		{"a retry token that is due", func(t *testing.T, r *rig) commands.Command {
			return r.waitFor(t, "k", commands.WaitRetryToken, -time.Second)
		}, commands.WaitPermit, nil},
		{"a credential", func(t *testing.T, r *rig) commands.Command {
			return r.waitFor(t, "k", commands.WaitCredential, time.Hour)
		}, commands.WaitCredential, nil},
		{"a file of its body", func(t *testing.T, r *rig) commands.Command {
			return r.waitFor(t, "k", commands.WaitFile, time.Hour)
		}, commands.WaitFile, nil},
		{"a credential, to be looked for now", func(t *testing.T, r *rig) commands.Command {
			return r.waitFor(t, "k", commands.WaitCredential, -time.Second)
		}, commands.WaitCredential, nil},
		{"throttle", func(t *testing.T, r *rig) commands.Command {
			r.exec(t, `UPDATE upstreams SET throttled_until = '2099-01-01T00:00:00Z'`)
			return r.submit(t, submission("k", "pay"))
		}, commands.WaitThrottle, func(commands.Command) time.Time { return time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"a throttle that outlasts its backoff", func(t *testing.T, r *rig) commands.Command {
			r.exec(t, `UPDATE upstreams SET throttled_until = '2099-01-01T00:00:00Z'`)
			return r.waitFor(t, "k", commands.WaitBackoff, time.Hour)
		}, commands.WaitThrottle, func(commands.Command) time.Time { return time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"a throttle that ends before its backoff", func(t *testing.T, r *rig) commands.Command {
			r.exec(t, `UPDATE upstreams SET throttled_until = now() + interval '1 minute'`)
			return r.waitFor(t, "k", commands.WaitBackoff, time.Hour)
		}, commands.WaitBackoff, next},
		{"a throttle that is over", func(t *testing.T, r *rig) commands.Command {
			r.exec(t, `UPDATE upstreams SET throttled_until = '1999-01-01T00:00:00Z'`)
			return r.submit(t, submission("k", "pay"))
		}, commands.WaitPermit, nil},
		{"paused", func(t *testing.T, r *rig) commands.Command {
			c := r.submit(t, submission("k", "pay"))
			if _, err := r.ups.Pause(t.Context(), tenant, "up", audit.By{Actor: "test", Reason: "maintenance"}); err != nil {
				t.Fatal(err)
			}
			return c
		}, commands.WaitPaused, nil},
		{"paused in its backoff", func(t *testing.T, r *rig) commands.Command {
			c := r.get(t, r.after(t, "k", "pay", outcome.StatePending, lost))
			if _, err := r.ups.Pause(t.Context(), tenant, "up", audit.By{Actor: "test", Reason: "maintenance"}); err != nil {
				t.Fatal(err)
			}
			return c
		}, commands.WaitPaused, nil},
		{"frozen and paused", func(t *testing.T, r *rig) commands.Command {
			r.exec(t, `INSERT INTO deployment (id, system_identifier, timeline, frozen_at) VALUES ('d', '1', 1, now())`)
			if _, err := r.ups.Pause(t.Context(), tenant, "up", audit.By{Actor: "test", Reason: "maintenance"}); err != nil {
				t.Fatal(err)
			}
			return r.submit(t, submission("k", "pay"))
		}, commands.WaitFrozen, nil},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.reset(t)
			id := tt.happen(t, r).ID
			c := r.get(t, id)
			w := c.Waiting
			if w == nil || w.For != tt.want || (w.Until == nil) != (tt.until == nil) {
				t.Fatalf("waits for %+v, want %s", w, tt.want)
			}
			if tt.until != nil && !w.Until.Equal(tt.until(c)) {
				t.Errorf("until %s, want %s", w.Until, tt.until(c))
			}
			list, _, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant, Key: c.Key})
			if err != nil || len(list) != 1 || list[0].Waiting.For != tt.want {
				t.Errorf("listed as %+v, %v", list, err)
			}
		})
	}
}

// waitFor brings a command to wait for something.
func (r *rig) waitFor(t testing.TB, key string, what commands.WaitFor, until time.Duration) commands.Command {
	t.Helper()
	id := r.submit(t, submission(key, "pay")).ID
	r.move(t, id, func(c commands.Locked) commands.Move {
		return commands.Move{Command: c, To: outcome.StatePending, NextAttemptAt: c.Now.Add(until), WaitFor: what}
	})
	return r.get(t, id)
}

// reset empties the tables, and applies the profile anew.
func (r *rig) reset(t testing.TB) {
	t.Helper()
	r.exec(t, `TRUNCATE commands, command_requests, attempts, findings, events, deployment, river_job`)
	r.exec(t, `UPDATE upstreams SET throttled_until = NULL`)
	if _, err := r.ups.Resume(t.Context(), tenant, "up", audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	r.apply(t, profile)
}

// TestNothingElseWaits: only a pending command waits.
func TestNothingElseWaits(t *testing.T) {
	r := newRig(t)
	for _, state := range outcome.States() {
		c := r.get(t, r.in(t, string(state), state))
		if (c.Waiting != nil) != (state == outcome.StatePending) {
			t.Errorf("%s, waiting for %+v", state, c.Waiting)
		}
	}
}

// TestForeignDeployment: a process that belongs to another deployment than the
// data sends nothing, and says so.
func TestForeignDeployment(t *testing.T) {
	r := newRig(t, func(c *commands.Config) { c.Deployment = "copy" })
	r.exec(t, `INSERT INTO deployment (id, system_identifier, timeline) VALUES ('production', '1', 1)`)
	id := r.submit(t, submission("k", "pay")).ID
	if w := r.get(t, id).Waiting; w == nil || w.For != commands.WaitFrozen {
		t.Errorf("waits for %+v", w)
	}
	r.exec(t, `UPDATE deployment SET id = 'copy'`)
	if w := r.get(t, id).Waiting; w == nil || w.For != commands.WaitPermit {
		t.Errorf("after the adoption it waits for %+v", w)
	}
}
