package commands_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

func keysOf(list []commands.Command) []string {
	var keys []string
	for _, c := range list {
		keys = append(keys, c.Key)
	}
	return keys
}

// stamp gives commands distinct ages, so that an order can be told.
func (r *rig) stamp(t testing.TB, id uuid.UUID, at time.Time) {
	t.Helper()
	r.exec(t, `UPDATE commands SET created_at = $2 WHERE id = $1`, id, at)
}

func TestListFilters(t *testing.T) {
	r := newRig(t)
	r.apply(t, strings.Replace(profile, "upstream: up", "upstream: other", 1))
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	add := func(key, upstream, operation string, metadata map[string]string) uuid.UUID {
		s := submission(key, operation)
		s.Upstream, s.Metadata = upstream, metadata
		c := r.submit(t, s)
		n, _ := strconv.Atoi(key)
		r.stamp(t, c.ID, epoch.Add(time.Duration(n)*time.Minute))
		return c.ID
	}
	add("1", "up", "pay", nil)
	add("2", "other", "pay", map[string]string{"order": "42", "shop": "a\"b\\c"})
	done := applied
	done.reference = "pay_9"
	r.attempt(t, add("3", "up", "charge", map[string]string{"order": "42"}), done, outcome.StateSuccess)
	r.attempt(t, add("4", "up", "charge", map[string]string{"order": "43"}), lost, outcome.StateUnresolved)
	r.attempt(t, add("5", "other", "charge", nil), refused, outcome.StateRejected)
	at := func(n int) *time.Time { return new(epoch.Add(time.Duration(n) * time.Minute)) }
	tests := []struct {
		name string
		f    commands.Filter
		want []string
	}{
		{"all", commands.Filter{}, []string{"5", "4", "3", "2", "1"}},
		{"one state", commands.Filter{States: []string{"pending"}}, []string{"2", "1"}},
		{"unresolved", commands.Filter{States: []string{"unresolved"}}, []string{"4"}},
		{"two states", commands.Filter{States: []string{"success", "rejected"}}, []string{"5", "3"}},
		{"every state", commands.Filter{States: []string{"pending", "executing", "success", "rejected", "unresolved", "cancelled"}}, []string{"5", "4", "3", "2", "1"}},
		{"upstream", commands.Filter{Upstream: "other"}, []string{"5", "2"}},
		{"no such upstream", commands.Filter{Upstream: "nobody"}, nil},
		{"operation", commands.Filter{Operation: "charge"}, []string{"5", "4", "3"}},
		{"upstream and operation", commands.Filter{Upstream: "up", Operation: "charge"}, []string{"4", "3"}},
		{"key", commands.Filter{Key: "2"}, []string{"2"}},
		{"no such key", commands.Filter{Key: "%"}, nil},
		{"reference", commands.Filter{Reference: "pay_9"}, []string{"3"}},
		{"metadata", commands.Filter{Metadata: map[string]string{"order": "42"}}, []string{"3", "2"}},
		{"metadata, both", commands.Filter{Metadata: map[string]string{"order": "42", "shop": "a\"b\\c"}}, []string{"2"}},
		{"metadata, no such value", commands.Filter{Metadata: map[string]string{"order": "4"}}, nil},
		{"metadata and state", commands.Filter{Metadata: map[string]string{"order": "43"}, States: []string{"unresolved"}}, []string{"4"}},
		{"after", commands.Filter{CreatedAfter: at(3)}, []string{"5", "4"}},
		{"before", commands.Filter{CreatedBefore: at(3)}, []string{"2", "1"}},
		{"between", commands.Filter{CreatedAfter: at(1), CreatedBefore: at(4)}, []string{"3", "2"}},
		{"everything at once", commands.Filter{
			States: []string{"success"}, Upstream: "up", Operation: "charge", Key: "3", Reference: "pay_9",
			Metadata: map[string]string{"order": "42"}, CreatedAfter: at(2), CreatedBefore: at(4),
		}, []string{"3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Tenant = tenant
			list, next, err := r.store.List(t.Context(), tt.f)
			if err != nil || next != "" || !slices.Equal(keysOf(list), tt.want) {
				t.Errorf("listed %v, next %q, %v; want %v", keysOf(list), next, err, tt.want)
			}
			if all := r.walk(t, tt.f, 1, nil); !slices.Equal(all, tt.want) {
				t.Errorf("page by page %v, want %v", all, tt.want)
			}
		})
	}
}

// walk reads a list page by page and returns the keys; between runs before each
// further page.
func (r *rig) walk(t testing.TB, f commands.Filter, limit int, between func()) []string {
	t.Helper()
	var keys []string
	f.Limit = limit
	for {
		list, next, err := r.store.List(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, keysOf(list)...)
		if next == "" {
			return keys
		}
		if len(list) != limit {
			t.Fatalf("a page of %d before the last one, want %d", len(list), limit)
		}
		if f.Cursor = next; between != nil {
			between()
		}
	}
}

// TestPagesHoldStill: what is submitted while somebody reads page by page
// neither repeats nor hides a line, also where many are of the same age.
func TestPagesHoldStill(t *testing.T) {
	r := newRig(t)
	at := time.Now().Add(-time.Hour)
	want := map[string]bool{}
	for i := range 20 {
		c := r.submit(t, submission("old"+strconv.Itoa(i), "charge"))
		want[c.Key] = true
		r.stamp(t, c.ID, at.Add(time.Duration(i/7)*time.Second)) // groups of one age
	}
	n := 0
	got := r.walk(t, commands.Filter{Tenant: tenant}, 3, func() {
		n++
		r.submit(t, submission("new"+strconv.Itoa(n), "charge"))
	})
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d: %v", len(got), len(want), got)
	}
	for _, key := range got {
		if !want[key] {
			t.Errorf("%s is repeated or came in between", key)
		}
		delete(want, key)
	}
}

func TestLimits(t *testing.T) {
	r := newRig(t)
	for i := range commands.MaxPage + 5 {
		r.submit(t, submission("k"+strconv.Itoa(i), "charge"))
	}
	for limit, want := range map[int]int{0: 50, 1: 1, 50: 50, 100: 100, 101: commands.MaxPage, math.MaxInt: commands.MaxPage, -1: 50} {
		list, next, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant, Limit: limit})
		if err != nil || len(list) != want || next == "" {
			t.Errorf("limit %d gives %d, next %q, %v; want %d", limit, len(list), next, err, want)
		}
	}
}

func TestBadCursors(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.submit(t, submission("k"+strconv.Itoa(i), "charge"))
	}
	_, good, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant, Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	at := func(micros int64) string {
		b := binary.BigEndian.AppendUint64(nil, uint64(micros))
		return base64.RawURLEncoding.EncodeToString(append(b, make([]byte, 16)...))
	}
	for _, cursor := range []string{
		"x", "!", good[:len(good)-1], good + "A", good + "AAAA", "=" + good, strings.Repeat("A", 1000), at(math.MinInt64), at(math.MaxInt64), at(-1 << 60),
	} {
		if _, _, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant, Cursor: cursor}); !errors.Is(err, commands.ErrBadCursor) {
			t.Errorf("cursor %.40q: %v", cursor, err)
		}
	}
}

func TestBadState(t *testing.T) {
	r := newRig(t)
	for _, state := range []string{"", "Pending", "done", "pending' OR '1'='1"} {
		var bad *commands.Invalid
		_, _, err := r.store.List(t.Context(), commands.Filter{Tenant: tenant, States: []string{"pending", state}})
		if !errors.As(err, &bad) || bad.Fields[0].Code != "unknown_state" {
			t.Errorf("state %q: %v", state, err)
		}
	}
}
