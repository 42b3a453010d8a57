package outcome

import (
	"reflect"
	"testing"
	"time"
)

func TestRecordOf(t *testing.T) {
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	category := func(a Attempt, c Category) Attempt {
		a.Category = c
		return a
	}
	tests := []struct {
		name     string
		kind     Idempotency
		attempts []Attempt
		want     Record
	}{
		{"nothing yet", IdempotencyKeyed, nil, Record{Boundary: BoundaryNotCrossed}},
		{"one answer", IdempotencyNone, []Attempt{response(201)},
			Record{Attempts: 1, LastResponseClass: "2xx", Elapsed: 5 * time.Second, Boundary: BoundaryCrossed, MayHaveCrossed: true}},
		{"the last of each", IdempotencyKeyed,
			[]Attempt{category(notSent(), CategoryConnectTimeout), response(503), silent(), notSent()},
			Record{Attempts: 4, LastResponseClass: "5xx", LastTimeout: &Timeout{"response_header", at(25)},
				Elapsed: 35 * time.Second, Boundary: BoundaryPossiblyCrossed, MayHaveCrossed: true}},
		{"never sent", IdempotencyNone, []Attempt{category(notSent(), CategoryConnectTimeout)},
			Record{Attempts: 1, LastTimeout: &Timeout{"connect", at(5)}, Elapsed: 5 * time.Second, Boundary: BoundaryNotCrossed}},
		{"settled, but it might have", IdempotencyNone, []Attempt{settled(silent())},
			Record{Attempts: 1, LastTimeout: &Timeout{"response_header", at(5)}, Elapsed: 5 * time.Second,
				Boundary: BoundaryNotCrossed, MayHaveCrossed: true}},
		{"a read", IdempotencySafe, []Attempt{category(partial(200), CategoryBodyTimeout)},
			Record{Attempts: 1, LastResponseClass: "2xx", LastTimeout: &Timeout{"body", at(5)}, Elapsed: 5 * time.Second, Boundary: BoundaryNotCrossed}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := RecordOf(tt.kind, factsFor(tt.kind, tt.attempts...).Attempts)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestTimeoutKinds(t *testing.T) {
	want := map[Category]string{
		CategoryPermitTimeout: "permit", CategoryPoolTimeout: "pool", CategoryConnectTimeout: "connect",
		CategoryHeaderTimeout: "response_header", CategoryBodyTimeout: "body", CategoryAttemptTimeout: "total",
	}
	for _, c := range Categories() {
		if got := timeoutKind(c); got != want[c] {
			t.Errorf("timeoutKind(%q) = %q, want %q", c, got, want[c])
		}
	}
}

func TestElapsed(t *testing.T) {
	at := func(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }
	tests := []struct {
		name     string
		attempts []Attempt
		want     time.Duration
	}{
		{"an open attempt", []Attempt{{StartedAt: at(0), EndedAt: at(2)}, {StartedAt: at(9)}}, 9 * time.Second},
		{"only an open attempt", []Attempt{{StartedAt: at(9)}}, 0},
		{"the clock went back within one", []Attempt{{StartedAt: at(9), EndedAt: at(1)}}, 0},
		{"the clock went back between two", []Attempt{{StartedAt: at(9), EndedAt: at(10)}, {StartedAt: at(1), EndedAt: at(2)}}, 9 * time.Second},
	}
	for _, tt := range tests {
		if got := elapsed(tt.attempts); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
