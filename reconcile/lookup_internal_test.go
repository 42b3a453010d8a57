package reconcile

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

func TestTheFindingOfARound(t *testing.T) {
	const (
		a, u, p, y, n = outcome.FindingAbsent, outcome.FindingUnknown, outcome.FindingPending, outcome.FindingApplied, outcome.FindingRefused
	)
	for _, tt := range []struct {
		answers []outcome.Finding
		want    outcome.Finding
	}{
		{nil, u},
		{[]outcome.Finding{u}, u},
		{[]outcome.Finding{a}, a},
		{[]outcome.Finding{a, a}, a},
		{[]outcome.Finding{a, u}, u},
		{[]outcome.Finding{u, a}, u},
		{[]outcome.Finding{u, a, a}, u},
		{[]outcome.Finding{a, u, a}, u},
		{[]outcome.Finding{a, p}, p},
		{[]outcome.Finding{u, y}, y},
		{[]outcome.Finding{a, n}, n},
	} {
		r := &round{}
		for _, f := range tt.answers {
			r.answers = append(r.answers, Lookup{Finding: f})
		}
		if got := r.finding(); got != tt.want {
			t.Errorf("%v together say %s, want %s", tt.answers, got, tt.want)
		}
	}
}

func TestTheNextRound(t *testing.T) {
	s := outcome.Schedule{FirstAfter: 2 * time.Second, Factor: 3, MaxInterval: time.Hour, GiveUpAfter: 24 * time.Hour}
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	var none time.Time
	for name, tt := range map[string]struct {
		rounds                  int
		notBefore, retryAt, end time.Time
		want                    time.Time
		ok                      bool
	}{
		"the second":                   {1, none, none, in(time.Hour), in(6 * time.Second), true},
		"the third":                    {2, none, none, in(time.Hour), in(18 * time.Second), true},
		"at most the longest interval": {30, none, none, in(48 * time.Hour), in(time.Hour), true},
		"when absence counts":          {5, in(5 * time.Second), none, in(time.Hour), in(5 * time.Second), true},
		"not before Retry-After":       {5, in(5 * time.Second), in(30 * time.Minute), in(time.Hour), in(30 * time.Minute), true},
		"the last, at the end":         {30, none, none, in(time.Minute), in(time.Minute), true},
		"none at the end":              {1, none, none, now, none, false},
		"none behind it":               {1, none, in(time.Second), in(-time.Second), none, false},
	} {
		if got, ok := next(s, tt.rounds, now, tt.notBefore, tt.retryAt, tt.end); !got.Equal(tt.want) || ok != tt.ok {
			t.Errorf("%s: %s, %v", name, got, ok)
		}
	}
}

// TestAHoldEndsByEitherClock: a machine that slept, or whose clock was set.
func TestAHoldEndsByEitherClock(t *testing.T) {
	h := hold{until: time.Now().Add(time.Minute)}
	if !h.covers(30*time.Second) || h.covers(2*time.Minute) {
		t.Error("a hold of a minute covers what is shorter, and no more")
	}
	if asleep := (hold{until: time.Now().Add(-time.Second).Round(0)}); asleep.covers(0) {
		t.Error("it is over by the wall clock")
	}
}

// TestAProcessThatWasPausedDoesNotAsk: its claim has ended while it stood still, and
// the connection it has made by then carries nothing.
func TestAProcessThatWasPausedDoesNotAsk(t *testing.T) {
	asked := make(chan struct{}, 1)
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer up.Close()
	base, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	l := looker{dialer: egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), nil), access: upstreams.NewAccess(nil, nil)}
	r := l.ask(t.Context(), inquiry{
		profile:   &upstreams.Profile{Base: base, Egress: upstreams.Egress{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}},
		operation: anOperation(t), request: upstreams.Request{Method: "GET", Path: "/"}, hold: hold{until: time.Now().Add(-time.Second)},
	})
	if r.category != outcome.CategoryExecutorLost || r.status != 0 || len(asked) > 0 {
		t.Errorf("%+v", r)
	}
}

func anOperation(t *testing.T) *upstreams.Operation {
	p, err := upstreams.Parse("test.yaml", []byte("version: 1\nupstream: up\nbase_url: https://up.example\noperations: {read: {method: GET, path: /, body: none, idempotency: {kind: safe}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o, _ := p.Operation("read")
	return o
}
