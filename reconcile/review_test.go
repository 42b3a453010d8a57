package reconcile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// TestWhatWaitsForAPerson: doubts that nothing automatic goes on with, and conflicts.
func TestWhatWaitsForAPerson(t *testing.T) {
	d := newDesk(t)
	kept := map[uuid.UUID]string{
		d.waiting(t, "transfer"):              reconcile.ReviewUnresolved,
		d.waiting(t, "charge"):                reconcile.ReviewUnresolved,
		d.disputed(t, outcome.StateCancelled): reconcile.ReviewConflict,
	}
	d.in(t, "charge", outcome.StateUnresolved) // is being looked up
	for _, state := range outcome.States() {
		if state != outcome.StateUnresolved {
			d.in(t, "transfer", state)
		}
	}
	list := d.queue(t, reconcile.ReviewFilter{})
	if len(list) != len(kept) {
		t.Errorf("%d items", len(list))
	}
	for i, item := range list {
		if kept[item.Command.ID] != item.Kind || item.Evidence == "" && item.Kind == reconcile.ReviewUnresolved || len(item.Actions) == 0 {
			t.Errorf("item %+v", item)
		}
		if i > 0 && item.Since.Before(list[i-1].Since) {
			t.Errorf("item %d is older than the one before", i)
		}
	}
	// What leaves the doubt leaves the queue, and comes back with the next doubt.
	again := list[0].Command.ID
	if err := d.store.Resend(t.Context(), d.by(t, again), true); err != nil {
		t.Fatal(err)
	}
	if _, waits := d.item(t, again); waits {
		t.Error("a command that is sent once more waits for a person")
	}
	d.begin(t, again, lost)
	d.finish(t, again, lost)
	if item, waits := d.item(t, again); !waits || !item.Since.After(list[0].Since) {
		t.Errorf("after another doubt: %+v", item)
	}
}

// TestReviewFilters: each filter alone finds what it says.
func TestReviewFilters(t *testing.T) {
	d := newDesk(t)
	d.apply(t, strings.ReplaceAll(deskProfile, "upstream: up", "upstream: down"))
	names := map[uuid.UUID]string{}
	doubtful := func(name, operation string, metadata map[string]string, e ending) uuid.UUID {
		id := d.accept(t, operation, metadata)
		d.begin(t, id, e)
		d.finish(t, id, e)
		names[id] = name
		return id
	}
	plain := doubtful("plain", "transfer", map[string]string{"order": "o1", "amount": "250.50", "odd": "12a"}, lost)
	doubtful("unclear", "transfer", map[string]string{"order": "o2", "amount": "99"},
		ending{evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerUnclear, status: 500})
	doubtful("partial", "put", map[string]string{"amount": "-7", "odd": "12"}, ending{evidence: outcome.EvidencePartialResponse, answer: outcome.AnswerUnclear, status: 200})
	charge := d.waiting(t, "charge")
	names[charge] = "charge"
	disputed := d.disputed(t, outcome.StateSuccess)
	names[disputed] = "disputed"
	if err := d.store.Assign(t.Context(), d.by(t, plain), "bob"); err != nil {
		t.Fatal(err)
	}
	d.exec(t, `UPDATE doubts SET since = since - interval '2 hours' WHERE command_id = $1`, charge)
	d.exec(t, `UPDATE findings SET at = at - interval '3 hours' WHERE command_id = $1`, disputed)
	set := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	tests := []struct {
		f    reconcile.ReviewFilter
		want string // oldest first
	}{
		{reconcile.ReviewFilter{}, "disputed charge plain unclear partial"},
		{reconcile.ReviewFilter{Upstream: "up"}, "disputed charge plain unclear partial"},
		{reconcile.ReviewFilter{Upstream: "down"}, ""},
		{reconcile.ReviewFilter{Upstream: "nobody"}, ""},
		{reconcile.ReviewFilter{Operation: "transfer"}, "disputed plain unclear"},
		{reconcile.ReviewFilter{Kinds: []string{"conflict"}}, "disputed"},
		{reconcile.ReviewFilter{Kinds: []string{"unresolved"}}, "charge plain unclear partial"},
		{reconcile.ReviewFilter{Kinds: []string{"unresolved", "conflict"}}, "disputed charge plain unclear partial"},
		{reconcile.ReviewFilter{Reasons: []string{"unclear_response", "partial_response"}}, "unclear partial"},
		{reconcile.ReviewFilter{Reasons: []string{"schedule_used_up"}}, "charge"},
		{reconcile.ReviewFilter{Reasons: []string{"no_lookup"}}, "plain unclear partial"},
		{reconcile.ReviewFilter{Reasons: []string{"applied"}}, "disputed"},
		{reconcile.ReviewFilter{Evidence: []string{"partial_response"}}, "partial"},
		{reconcile.ReviewFilter{Evidence: []string{"sent_no_response", "response_received"}}, "disputed charge plain unclear"},
		{reconcile.ReviewFilter{Assignee: new("bob")}, "plain"},
		{reconcile.ReviewFilter{Assignee: new("")}, "disputed charge unclear partial"},
		{reconcile.ReviewFilter{OlderThan: time.Hour}, "disputed charge"},
		{reconcile.ReviewFilter{OlderThan: 150 * time.Minute}, "disputed"},
		{reconcile.ReviewFilter{Metadata: set("order", "o2")}, "unclear"},
		{reconcile.ReviewFilter{Metadata: set("order", "o2", "amount", "100")}, ""},
		{reconcile.ReviewFilter{MetadataMin: set("amount", "99")}, "plain unclear"},
		{reconcile.ReviewFilter{MetadataMax: set("amount", "99.0")}, "unclear partial"},
		{reconcile.ReviewFilter{MetadataMin: set("amount", "-10"), MetadataMax: set("amount", "100", "odd", "12")}, "partial"},
		{reconcile.ReviewFilter{MetadataMin: set("odd", "0")}, "partial"},
		{reconcile.ReviewFilter{MetadataMin: set("a'b\" ->> ?", "0")}, ""},
		{reconcile.ReviewFilter{Operation: "transfer", Assignee: new(""), Kinds: []string{"unresolved"}}, "unclear"},
	}
	for _, tt := range tests {
		var got []string
		for _, item := range d.queue(t, tt.f) {
			got = append(got, names[item.Command.ID])
		}
		if strings.Join(got, " ") != tt.want {
			text, _ := json.Marshal(tt.f)
			t.Errorf("%s finds %q, want %q", text, got, tt.want)
		}
		tt.f.Tenant = tenant
		if n, err := d.store.CountReviews(t.Context(), tt.f); err != nil || n.More || int(n.N) != len(got) {
			t.Errorf("%+v counts %v, %v; want %d", tt.f, n, err, len(got))
		}
		tt.f.Tenant = "other"
		if n, err := d.store.CountReviews(t.Context(), tt.f); err != nil || n.N != 0 {
			t.Errorf("another tenant counts %v, %v", n, err)
		}
	}
	for pointer, f := range map[string]reconcile.ReviewFilter{
		"/kind":             {Kinds: []string{"other"}},
		"/evidence":         {Evidence: []string{"other"}},
		"/metadata_min/sum": {MetadataMin: set("sum", "1e9")},
		"/metadata_max/sum": {MetadataMax: set("sum", "")},
		"/reason":           {Reasons: []string{"a\x00"}},
		"/metadata":         {Metadata: set("k\x00", "v")},
		"/upstream":         {Upstream: "\xff"},
		"/older_than":       {OlderThan: -time.Second},
		"/sort":             {Sort: "other"},
		"/metadata_min":     {MetadataMin: numbered(20_000)}, // more than a statement takes
		"/metadata_max":     {MetadataMax: numbered(51)},
	} {
		f.Tenant = tenant
		if _, _, err := d.store.Reviews(t.Context(), f); code(err) != "invalid "+pointer {
			t.Errorf("%+v: %v, want it to name %s", f, err, pointer)
		}
	}
	for _, cursor := range []string{"x", "AAAA"} {
		if _, _, err := d.store.Reviews(t.Context(), reconcile.ReviewFilter{Tenant: tenant, Cursor: cursor}); !errors.Is(err, commands.ErrBadCursor) {
			t.Errorf("the cursor %q: %v", cursor, err)
		}
	}
}

func numbered(n int) map[string]string {
	set := make(map[string]string, n)
	for i := range n {
		set[fmt.Sprint("k", i)] = "1"
	}
	return set
}

// crowd puts doubts into the queue, many of one moment, and beside it some that are
// settled and older.
func (d desk) crowd(t testing.TB, n, settled int) {
	t.Helper()
	d.exec(t, `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, outcome, phase, attempts)
		SELECT gen_random_uuid(), 'default', 'crowd' || i, (SELECT id FROM upstreams WHERE name = 'up'), 'transfer', 1,
			CASE WHEN i > $1 THEN 'success' ELSE 'unresolved' END, now() - i * interval '1 second', now(),
			json_build_object('state', CASE WHEN i > $1 THEN 'success' ELSE 'unresolved' END, 'reason', 'no_response', 'decided_at', now()),
			CASE WHEN i > $1 THEN NULL ELSE 'review' END, 1
		FROM generate_series(1, $1::int + $2::int) i`, n, settled)
	d.exec(t, `
		INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by)
		SELECT id, tenant, 'POST', '/', '[]', '', 'replayable', '', '', '', '', '{}', '', json_build_object('amount', substr(idempotency_key, 6)), 'test'
		FROM commands WHERE idempotency_key LIKE 'crowd%'`)
	d.exec(t, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			evidence, boundary, request, bytes_total, body_sha256)
		SELECT id, 1, tenant, upstream_id, 1, 'test', 1, now(), now(), now(), now(), 'sent_no_response', 'possibly_crossed', '{}', 0, ''
		FROM commands WHERE idempotency_key LIKE 'crowd%'`)
	d.exec(t, `
		INSERT INTO doubts (command_id, tenant, upstream_id, since, handed_at, handed_reason, operation, deadline, reason, evidence)
		SELECT id, tenant, upstream_id, date_trunc('minute', created_at), CASE WHEN phase = 'review' THEN created_at END, 'no_lookup',
			operation, deadline, outcome ->> 'reason', 'sent_no_response'
		FROM commands WHERE idempotency_key LIKE 'crowd%'`)
	d.exec(t, `ANALYZE`)
}

// TestReviewPages: page by page everything comes once, in order, also where many
// came at one moment and while the queue changes.
func TestReviewPages(t *testing.T) {
	d := newDesk(t)
	d.crowd(t, 3000, 3000)
	conflicts := map[uuid.UUID]bool{}
	for range 3 {
		id := d.disputed(t, outcome.StateSuccess)
		d.exec(t, `UPDATE findings SET at = date_trunc('minute', now() - interval '20 minutes') WHERE command_id = $1`, id)
		conflicts[id] = true
	}
	seen := map[uuid.UUID]bool{}
	var last reconcile.ReviewItem
	f := reconcile.ReviewFilter{Tenant: tenant, Limit: 100}
	for page := 0; ; page++ {
		list, next, err := d.store.Reviews(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list {
			if seen[item.Command.ID] || item.Since.Before(last.Since) ||
				item.Since.Equal(last.Since) && strings.Compare(item.Command.ID.String(), last.Command.ID.String()) <= 0 {
				t.Fatalf("page %d: %s of %s after %s of %s", page, item.Command.ID, item.Since, last.Command.ID, last.Since)
			}
			if (item.Kind == reconcile.ReviewConflict) != conflicts[item.Command.ID] {
				t.Errorf("%s is shown as %s", item.Command.ID, item.Kind)
			}
			seen[item.Command.ID], last = true, item
		}
		if page == 3 { // what is settled in between hides nothing
			for _, item := range list[90:] {
				if err := d.store.Resolve(t.Context(), d.by(t, item.Command.ID), reconcile.Resolution{State: outcome.StateRejected}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	if len(seen) != 3003 {
		t.Errorf("%d items", len(seen))
	}
}

// TestReviewsByDeadline: page by page everything comes once, the earliest deadline
// first, and the count is of all pages.
func TestReviewsByDeadline(t *testing.T) {
	d := newDesk(t)
	d.crowd(t, 500, 500)
	d.exec(t, `UPDATE commands SET deadline = date_trunc('minute', now()) + (hashtext(id::text) % 100) * interval '1 minute'`)
	d.exec(t, `UPDATE doubts d SET deadline = c.deadline FROM commands c WHERE c.id = d.command_id`)
	for range 3 {
		d.disputed(t, outcome.StateSuccess)
	}
	f := reconcile.ReviewFilter{Tenant: tenant, Sort: reconcile.ReviewSortDeadline, Limit: 90}
	seen := map[uuid.UUID]bool{}
	var last time.Time
	for {
		list, next, err := d.store.Reviews(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range list {
			if seen[item.Command.ID] || item.Command.Deadline.Before(last) {
				t.Fatalf("%s with its deadline at %s after %s", item.Command.ID, item.Command.Deadline, last)
			}
			seen[item.Command.ID], last = true, item.Command.Deadline
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	n, err := d.store.CountReviews(t.Context(), f)
	if err != nil || len(seen) != 503 || n.N != 503 || n.More {
		t.Errorf("%d items, %v counted, %v", len(seen), n, err)
	}
}
