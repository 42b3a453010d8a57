package commands_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// TestSearch: one box finds a command by whatever names it, and nothing of another
// tenant.
func TestSearch(t *testing.T) {
	r := newRig(t)
	s := submission("order-17", "pay")
	s.Metadata = map[string]string{"customer": "c-4711", "note": "a=b"}
	id := r.submit(t, s).ID
	done := applied
	done.reference = "pay_17"
	r.attempt(t, id, done, outcome.StateSuccess)
	for i := range 5 {
		r.submit(t, submission(fmt.Sprintf("order-2%d", i), "pay"))
	}
	r.exec(t, `
		INSERT INTO lookups (command_id, tenant, round, question, instance, profile_version, started_at, ended_at, request, finding, counts, reference)
		VALUES ($1, 'default', 1, 1, 'test', 1, now(), now(), '{}', 'applied', false, 'seen_17')`, id)
	for text, want := range map[string]int{
		id.String(): 1, " " + id.String() + " ": 1, "order-17": 1, "pay_17": 1, "seen_17": 1, "c-4711": 1, "customer=c-4711": 1, "a=b": 1,
		"customer = c-4711": 1, "order-2": 5, "order-": 6, "customer=c-4712": 0, "pay": 0, uuid.NewString(): 0, "%": 0, "": 6,
	} {
		page, err := r.store.Page(t.Context(), commands.Filter{Tenant: tenant, Search: text})
		if err != nil || len(page.Commands) != want {
			t.Errorf("%q finds %d commands, %v; want %d", text, len(page.Commands), err, want)
		} else if want == 1 && page.Commands[0].ID != id {
			t.Errorf("%q finds %s", text, page.Commands[0].Key)
		}
		page, err = r.store.Page(t.Context(), commands.Filter{Tenant: "other", Search: text})
		if err != nil || len(page.Commands) != 0 {
			t.Errorf("another tenant finds %d commands by %q, %v", len(page.Commands), text, err)
		}
	}
	narrowed, err := r.store.Page(t.Context(), commands.Filter{Tenant: tenant, Search: "order-17", States: []string{"pending"}})
	if err != nil || len(narrowed.Commands) != 0 {
		t.Errorf("a settled one is found among the pending: %v, %v", narrowed.Commands, err)
	}
	for _, f := range []commands.Filter{{Search: "a\x00b"}, {Reasons: []string{"\xff"}}, {Evidence: []string{"maybe"}}} {
		f.Tenant = tenant
		var bad *commands.Invalid
		if _, err := r.store.Page(t.Context(), f); !errors.As(err, &bad) {
			t.Errorf("%+v: %v, want it refused", f, err)
		}
	}
}

// TestScan: a page ends where the scan does, the next one takes up there, and all
// pages together hold everything once.
func TestScan(t *testing.T) {
	r := newRig(t)
	r.crowd(t)
	want := r.count(t, `SELECT count(*) FROM commands WHERE tenant = 'default' AND state = 'unresolved'`)
	f := commands.Filter{Tenant: tenant, States: []string{"unresolved", "rejected"}, Scan: 500, Limit: 3}
	var (
		seen    []uuid.UUID
		partial int
	)
	for pages := 0; ; pages++ {
		page, err := r.store.Page(t.Context(), f)
		if err != nil || pages > 100 {
			t.Fatal(pages, err)
		}
		for _, c := range page.Commands {
			seen = append(seen, c.ID)
		}
		switch {
		case page.Scanned != nil && (page.Next == "" || page.Scanned.Commands != 500 || len(page.Commands) > 3):
			t.Fatalf("%d commands, next %q, scanned %v", len(page.Commands), page.Next, page.Scanned)
		case page.Scanned != nil:
			partial++
		}
		if f.Cursor = page.Next; f.Cursor == "" {
			break
		}
	}
	slices.SortFunc(seen, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if len(seen) != want || len(slices.Compact(seen)) != want || partial == 0 {
		t.Errorf("%d commands in %d partial pages, want %d in some", len(seen), partial, want)
	}
}

// TestFilterByEvidenceAndReason: the last attempt's evidence, and why a command ended
// or stopped.
func TestFilterByEvidenceAndReason(t *testing.T) {
	r := newRig(t)
	doubted := r.submit(t, submission("doubted", "pay")).ID
	r.attempt(t, doubted, unsent, outcome.StatePending)
	r.attempt(t, doubted, lost, outcome.StateUnresolved)
	r.attempt(t, r.submit(t, submission("done", "pay")).ID, applied, outcome.StateSuccess)
	for _, tt := range []struct {
		f    commands.Filter
		want int
	}{
		{commands.Filter{Evidence: []string{"sent_no_response"}}, 1},
		{commands.Filter{Evidence: []string{"sent_no_response", "response_received"}}, 2},
		{commands.Filter{Evidence: []string{"not_sent"}}, 0},
		{commands.Filter{Reasons: []string{"no_response"}}, 1},
		{commands.Filter{Reasons: []string{"ambiguous"}}, 2}, // what stopped both, in this rig
		{commands.Filter{Reasons: []string{"declined"}}, 0},
	} {
		for _, scan := range []int{0, 100} {
			tt.f.Tenant, tt.f.Scan = tenant, scan
			if list, _, err := r.store.List(t.Context(), tt.f); err != nil || len(list) != tt.want {
				t.Errorf("%v finds %d, %v; want %d", tt.f, len(list), err, tt.want)
			}
		}
	}
}
