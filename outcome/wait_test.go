package outcome

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 500_000_000, time.UTC)
	const day = 24 * time.Hour
	tests := []struct {
		value string
		want  time.Duration // 0 = ignored
	}{
		{"1", time.Second},
		{"120", 2 * time.Minute},
		{"0120", 2 * time.Minute},
		{" 120\t", 2 * time.Minute},
		{"2592000", 30 * day},

		{"", 0}, {"0", 0}, {"-5", 0}, {"+5", 0}, {"1.5", 0}, {"1e3", 0}, {"0x10", 0}, {"1_000", 0},
		{"2592001", 0}, {"4294967297", 0}, {"99999999999999999999999", 0},
		{"abc", 0}, {"120, 60", 0}, {"120s", 0}, {"١٢", 0}, {"1 0", 0},

		{"Thu, 01 Jan 2026 00:01:00 GMT", 59*time.Second + 500*time.Millisecond},
		{"Thursday, 01-Jan-26 00:01:00 GMT", 59*time.Second + 500*time.Millisecond},
		{"Thu Jan  1 00:01:00 2026", 59*time.Second + 500*time.Millisecond},
		{"Fri, 30 Jan 2026 00:00:00 GMT", 29*day - 500*time.Millisecond},
		{"Thu, 01 Jan 2026 00:00:01 GMT", 0}, // half a second
		{"Thu, 01 Jan 2026 00:00:00 GMT", 0}, // past
		{"Thursday, 01-Jan-70 00:00:00 GMT", 0},
		{"Sun, 01 Feb 2026 00:00:00 GMT", 0}, // beyond 30 days
		{"Thu, 01 Jan 2026 00:01:00 EST", 0},
		{"Thu, 01 Jan 2026 00:01:00", 0},
		{"2026-01-01T00:01:00Z", 0},
		{"Fri, 31 Dec 9999 23:59:59 GMT", 0},
	}
	for _, tt := range tests {
		got, ok := RetryAfter(tt.value, now)
		if got != tt.want || ok != (tt.want > 0) {
			t.Errorf("RetryAfter(%q) = %v, %t, want %v", tt.value, got, ok, tt.want)
		}
	}
}

// TestRetryAfterCentury reads a year of two digits across the turn of a century.
func TestRetryAfterCentury(t *testing.T) {
	now := time.Date(2099, 12, 31, 23, 59, 0, 0, time.UTC)
	if got, ok := RetryAfter("Friday, 01-Jan-00 00:01:00 GMT", now); got != 2*time.Minute || !ok {
		t.Errorf("got %v, %t", got, ok)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", "1", "-5", "2592000", "2592001", "+7", "0x10", "1e3", "1_0", "1.5", " 60\t", "60, 120", "\x00", "٣", "18446744073709551617", "Thu, 01 Jan 2026 00:01:00 +0000", "Thu, 32 Jan 2026 00:01:00 GMT", "Thu, 01 Jan 2026 00:01:00 GMT", "Thursday, 01-Jan-26 00:01:00 GMT", "Thu Jan  1 00:01:00 2026"} {
		f.Add(value, int64(1767225600))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix%253402300799, 0) // up to the year 9999
		wait, ok := RetryAfter(value, now)
		if ok && (wait < time.Second || wait > 30*24*time.Hour) {
			t.Errorf("RetryAfter(%q, %v) = %v", value, now, wait)
		}
		if !ok && wait != 0 {
			t.Errorf("RetryAfter(%q, %v) is ignored but says %v", value, now, wait)
		}
		seconds, isNumber := new(big.Int).SetString(strings.Trim(value, " \t"), 10)
		isNumber = isNumber && digitsOnly(strings.Trim(value, " \t"))
		within := isNumber && seconds.Sign() > 0 && seconds.Cmp(big.NewInt(30*24*60*60)) <= 0
		switch {
		case isNumber && (ok != within || ok && wait != time.Duration(seconds.Int64())*time.Second):
			t.Errorf("RetryAfter(%q, %v) = %v, %t", value, now, wait, ok)
		case ok && !isNumber && !strings.HasSuffix(strings.Trim(value, " \t"), " GMT") && len(strings.Fields(value)) != 5: // dates of RFC 9110 or of asctime
			t.Errorf("RetryAfter(%q, %v) = %v", value, now, wait)
		}
	})
}

func digitsOnly(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool { return c < '0' || c > '9' }) < 0
}

func TestBackoffExact(t *testing.T) {
	b := Backoff{Initial: time.Second, Max: 30 * time.Second, Jitter: JitterNone}
	for n, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 64: 30 * time.Second, 5000: 30 * time.Second,
	} {
		for _, jitter := range Jitters() { // without randomness all take the upper bound
			b.Jitter = jitter
			if got := b.wait(n, 0, nil); got != want {
				t.Errorf("%s, %d attempts: %v, want %v", jitter, n, got, want)
			}
		}
	}
}

func TestBackoffDoesNotOverflow(t *testing.T) {
	b := Backoff{Initial: time.Second, Max: math.MaxInt64, Jitter: JitterNone}
	if got := b.wait(5000, 0, nil); got != b.Max {
		t.Errorf("got %v", got)
	}
}

func TestBackoffDecorrelated(t *testing.T) {
	b := Backoff{Initial: time.Second, Max: 30 * time.Second, Jitter: JitterDecorrelated}
	lowest, highest := func() float64 { return 0 }, func() float64 { return math.Nextafter(1, 0) }
	tests := []struct {
		previous time.Duration
		random   func() float64
		want     time.Duration
	}{
		{0, lowest, time.Second},
		{0, highest, 3 * time.Second},
		{4 * time.Second, lowest, time.Second},
		{4 * time.Second, highest, 12 * time.Second},
		{4 * time.Second, nil, 12 * time.Second},
		{20 * time.Second, nil, 30 * time.Second},
		{math.MaxInt64, nil, 30 * time.Second},
	}
	for _, tt := range tests {
		if got := b.wait(3, tt.previous, tt.random).Round(time.Millisecond); got != tt.want {
			t.Errorf("after %v: %v, want %v", tt.previous, got, tt.want)
		}
	}
}

// TestBackoffBounds draws any settings, sane or not.
func TestBackoffBounds(t *testing.T) {
	duration := rapid.Int64Range(0, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{
			Initial: time.Duration(duration.Draw(t, "initial")),
			Max:     time.Duration(duration.Draw(t, "max")),
			Jitter:  rapid.SampledFrom(Jitters()).Draw(t, "jitter"),
		}
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		previous := time.Duration(duration.Draw(t, "previous"))
		share := rapid.Float64Range(0, 1).Draw(t, "random")
		for _, random := range []func() float64{nil, func() float64 { return share }} {
			wait := b.wait(n, previous, random)
			if wait < 0 || wait > max(b.Max, minWait) {
				t.Fatalf("%+v.wait(%d, %v) = %v", b, n, previous, wait)
			}
			if b.Jitter == JitterFull && wait < minWait {
				t.Fatalf("full jitter drew %v", wait)
			}
		}
	})
}

func TestWaitAfter(t *testing.T) {
	retryAfter := func(a Attempt, value string) Attempt {
		a.RetryAfter = value
		return a
	}
	zero := func() float64 { return 0 }
	tests := []struct {
		name    string
		last    Attempt
		left    time.Duration // from now to the deadline
		random  func() float64
		want    time.Duration
		ignored bool
	}{
		{name: "backoff", last: notSent(), left: time.Hour, want: time.Second},
		{name: "full jitter is no hammer", last: notSent(), left: time.Hour, random: zero, want: 10 * time.Millisecond},
		{name: "raised", last: retryAfter(response(429), "7"), left: time.Hour, want: 7 * time.Second},
		{name: "jitter stays above it", last: retryAfter(response(429), "7"), left: time.Hour, random: zero, want: 7 * time.Second},
		{name: "on a server error", last: retryAfter(response(500), "7"), left: time.Hour, want: 7 * time.Second},
		{name: "on part of a response", last: retryAfter(partial(503), "7"), left: time.Hour, want: 7 * time.Second},
		{name: "where the profile says declined", last: retryAfter(read(403, AnswerDeclined), "7"), left: time.Hour, want: 7 * time.Second},
		{name: "means nothing on 501", last: retryAfter(response(501), "7"), left: time.Hour, want: time.Second},
		{name: "means nothing on 401", last: retryAfter(response(401), "7"), left: time.Hour, want: time.Second},
		{name: "of a token endpoint", last: retryAfter(Attempt{Evidence: EvidenceNotSent, Category: CategoryAuthFailure}, "7"), left: time.Hour, want: 7 * time.Second},
		{name: "means nothing where nobody answered", last: retryAfter(notSent(), "7"), left: time.Hour, want: time.Second},
		{name: "absurd", last: retryAfter(response(429), "-7"), left: time.Hour, want: time.Second, ignored: true},
		{name: "lowered", last: notSent(), left: 1300 * time.Millisecond, want: 300 * time.Millisecond},
		{name: "exactly the window left", last: notSent(), left: time.Second, want: 0},
		{name: "never under Retry-After", last: retryAfter(response(429), "7"), left: 5 * time.Second, want: 7 * time.Second},
		{name: "never negative", last: notSent(), left: -time.Hour, want: 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := factsFor(IdempotencyKeyed, tt.last)
			f.Deadline, f.Random = f.Now.Add(tt.left), tt.random
			if tt.random != nil {
				f.Retry.Backoff.Jitter = JitterFull
			}
			wait, notes := waitAfter(f, f.Attempts[0])
			if wait != tt.want || (len(notes) > 0) != tt.ignored {
				t.Errorf("%v, notes %q, want %v", wait, notes, tt.want)
			}
		})
	}
}

// TestNotesAreBounded: the value comes from an upstream.
func TestNotesAreBounded(t *testing.T) {
	a := response(429)
	a.RetryAfter = strings.Repeat("\x1b", 1<<16)
	d := Decide(factsFor(IdempotencyKeyed, a))
	if len(d.Notes) != 1 || len(d.Notes[0]) > 500 || strings.Contains(d.Notes[0], "\x1b") {
		t.Errorf("notes %q", d.Notes)
	}
}
