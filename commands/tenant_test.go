package commands_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// TestTenants: a command does not exist for anybody but its tenant, and two
// tenants' keys have nothing to do with each other.
func TestTenants(t *testing.T) {
	const other = "other"
	r := newRig(t)
	r.apply(t, profile+"tenant: other\n")
	mine := r.submit(t, submission("k", "pay"))
	s := submission("k", "pay")
	s.Tenant = other
	theirs, err := r.store.Submit(t.Context(), s)
	if err != nil || theirs.Replayed || theirs.Command.ID == mine.ID || theirs.Command.UpstreamID == mine.UpstreamID {
		t.Fatalf("the same key of another tenant: %+v, %v", theirs, err)
	}
	r.attempt(t, mine.ID, lost, outcome.StatePending)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"get":      func() error { _, err := r.store.Get(t.Context(), other, mine.ID); return err },
		"wait":     func() error { _, err := r.store.Wait(t.Context(), other, mine.ID); return err },
		"wait, 0s": func() error { _, err := r.store.Wait(ended, other, mine.ID); return err },
		"cancel": func() error {
			_, _, err := r.store.Cancel(t.Context(), other, mine.ID, audit.By{Actor: "them"})
			return err
		},
		"attempts": func() error { _, err := r.store.Attempts(t.Context(), other, mine.ID); return err },
		"events":   func() error { _, err := r.store.Events(t.Context(), other, mine.ID); return err },
	} {
		if err := call(); !errors.Is(err, commands.ErrNotFound) {
			t.Errorf("%s: %v, want not found", name, err)
		}
	}
	if c := r.get(t, mine.ID); c.State != outcome.StatePending || c.CancelRequested {
		t.Errorf("another tenant's cancel left it %s", c.State)
	}
	for _, f := range []commands.Filter{
		{Tenant: other}, {Tenant: other, Key: "k"}, {Tenant: other, Upstream: "up"}, {Tenant: other, States: []string{"pending"}},
	} {
		list, _, err := r.store.List(t.Context(), f)
		if err != nil || len(list) != 1 || list[0].ID != theirs.Command.ID {
			t.Errorf("%+v lists %+v, %v", f, list, err)
		}
	}
	if list, _, err := r.store.List(t.Context(), commands.Filter{Tenant: "nobody"}); err != nil || len(list) != 0 {
		t.Errorf("nobody's list: %+v, %v", list, err)
	}
	s.Tenant = "nobody"
	var bad *commands.Invalid
	if _, err := r.store.Submit(t.Context(), s); !errors.As(err, &bad) || !strings.Contains(bad.Error(), "/upstream") {
		t.Errorf("an upstream of another tenant: %v", err)
	}
	if _, err := r.store.DryRun(t.Context(), s); !errors.As(err, &bad) {
		t.Errorf("a dry run at an upstream of another tenant: %v", err)
	}
}
