//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"executor/internal/testkit"
)

const throttled = "response_received declined 429"

// throttleStories are about upstreams that want to be asked later, or less often.
// They did nothing, so that even what must not be repeated may be sent again.
func throttleStories() []story {
	return []story{
		{name: "429 with Retry-After inside the deadline, keyed", kind: "keyed", meets: "status=429,retry_after=1,times=1",
			attempts: []string{throttled, created}, ends: "success applied applied", effects: 1, check: waitedASecond},
		{name: "429 with Retry-After inside the deadline, no key", kind: "none", meets: "status=429,retry_after=1,times=1",
			attempts: []string{throttled, created}, ends: "success applied applied", effects: 1, check: waitedASecond},
		{name: "429 with Retry-After inside the deadline, natural", kind: "natural", meets: "status=429,retry_after=1,times=1",
			attempts: []string{throttled, done}, ends: "success applied applied", effects: 1, check: waitedASecond},
		{name: "429 with Retry-After inside the deadline, safe", kind: "safe", meets: "status=429,retry_after=1,times=1",
			attempts: []string{throttled, done}, ends: "success applied applied", check: waitedASecond},

		{name: "429 with Retry-After beyond the deadline, keyed", kind: "keyed", meets: "status=429,retry_after=3600",
			attempts: []string{throttled}, ends: "cancelled declined deadline"},
		{name: "429 with Retry-After beyond the deadline, no key", kind: "none", meets: "status=429,retry_after=3600",
			attempts: []string{throttled}, ends: "cancelled declined deadline"},
		{name: "429 with Retry-After beyond the deadline, natural", kind: "natural", meets: "status=429,retry_after=3600",
			attempts: []string{throttled}, ends: "cancelled declined deadline"},
		{name: "429 with Retry-After beyond the deadline, safe", kind: "safe", meets: "status=429,retry_after=3600",
			attempts: []string{throttled}, ends: "cancelled declined deadline"},
		{name: "429 with a date as Retry-After", kind: "none", script: comeBackAt(6 * time.Second),
			attempts: []string{throttled, created}, ends: "success applied applied", check: waitedASecond},

		{name: "429 with a date by a clock that is ahead", kind: "none", script: comeBackBy(10*time.Minute, 3*time.Second),
			attempts: []string{throttled, created}, ends: "success applied applied", check: waitedASecond},
		{name: "429 with two values of Retry-After", kind: "none",
			script:   answers(response("429 Too Many Requests", "Retry-After: 200\r\nRetry-After: 300\r\n", "{}"), testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{throttled, created}, ends: "success applied applied", check: retryAfterIgnored},

		{name: "429 without Retry-After, no key", kind: "none", meets: "status=429,times=1",
			attempts: []string{throttled, created}, ends: "success applied applied", effects: 1},
		{name: "429 without Retry-After, keyed", kind: "keyed", meets: "status=429,times=2",
			attempts: []string{throttled, throttled, created}, ends: "success applied applied", effects: 1},
		{name: "429 for ever", kind: "none", meets: "status=429",
			attempts: []string{throttled, throttled, throttled}, ends: "cancelled declined max_attempts"},
		{name: "429 with a negative Retry-After", kind: "none", meets: "status=429,retry_after=-5,times=1",
			attempts: []string{throttled, created}, ends: "success applied applied", effects: 1, check: retryAfterIgnored},
		{name: "429 with half a second as Retry-After", kind: "none", meets: "status=429,retry_after=0.5,times=1",
			attempts: []string{throttled, created}, ends: "success applied applied", effects: 1, check: retryAfterIgnored},
		{name: "429 with nonsense as Retry-After", kind: "none", meets: "status=429,retry_after=soon,times=1",
			attempts: []string{throttled, created}, ends: "success applied applied", effects: 1, check: retryAfterIgnored},
		{name: "429 with a date far away as Retry-After", kind: "none", meets: "status=429,retry_after=Fri Dec 31 23:59:59 2100,times=1",
			attempts: []string{throttled, created}, ends: "success applied applied", effects: 1, check: retryAfterIgnored},

		{name: "429 that the profile calls unclear, no key", kind: "none", meets: "status=429,commit", operation: ruled("{when: status == 429, answer: unclear}"),
			attempts: []string{"response_received unclear 429"}, ends: "unresolved unclear_response ambiguous", effects: 1},
		{name: "429 that the profile calls unclear, keyed", kind: "keyed", meets: "status=429,commit,times=1", operation: ruled("{when: status == 429, answer: unclear}"),
			attempts: []string{"response_received unclear 429", created}, ends: "success applied applied", effects: 1},
		{name: "403 that is a throttle by its headers", kind: "none",
			operation: ruled(`{when: 'status == 403 && "x-ratelimit-remaining" in headers && headers["x-ratelimit-remaining"][0] == "0"', answer: declined}`),
			script:    answers(response("403 Forbidden", "X-Ratelimit-Remaining: 0\r\nRetry-After: 1\r\n", `{}`), testkit.Reply(201, `{"id":"p1"}`)),
			attempts:  []string{"response_received declined 403", created}, ends: "success applied applied", check: waitedASecond},
		{name: "403 that says when its limit is set anew", kind: "none", script: comeBackSince1970(6 * time.Second),
			operation: ruled(`{when: 'status == 403 && "x-ratelimit-reset" in headers', answer: declined, retry_after: 'headers["x-ratelimit-reset"][0]'}`),
			attempts:  []string{"response_received declined 403", created}, ends: "success applied applied", check: waitedASecond},
		{name: "403 that is none", kind: "none",
			operation: ruled(`{when: 'status == 403 && "x-ratelimit-remaining" in headers && headers["x-ratelimit-remaining"][0] == "0"', answer: declined}`),
			script:    answers(response("403 Forbidden", "X-Ratelimit-Remaining: 7\r\n", `{}`)),
			attempts:  []string{"response_received refused 403"}, ends: "rejected refused refused"},

		{name: "503 with Retry-After, keyed", kind: "keyed", meets: "status=503,retry_after=1,times=1",
			attempts: []string{"response_received unclear 503", created}, ends: "success applied applied", effects: 1, check: waitedASecond},
		{name: "503 with Retry-After beyond the deadline, keyed", kind: "keyed", meets: "status=503,commit,retry_after=3600",
			attempts: []string{"response_received unclear 503"}, ends: "unresolved unclear_response deadline", effects: 1},

		{name: "408, no key", kind: "none", meets: "status=408,times=1",
			attempts: []string{"response_received declined 408", created}, ends: "success applied applied", effects: 1},
		{name: "408, keyed", kind: "keyed", meets: "status=408,times=1",
			attempts: []string{"response_received declined 408", created}, ends: "success applied applied", effects: 1},
		{name: "408, safe", kind: "safe", meets: "status=408,times=1",
			attempts: []string{"response_received declined 408", done}, ends: "success applied applied"},
		{name: "408, natural", kind: "natural", meets: "status=408,times=1",
			attempts: []string{"response_received declined 408", done}, ends: "success applied applied", effects: 1},
		{name: "425 once, no key", kind: "none", meets: "status=425,times=1",
			attempts: []string{"response_received declined 425", created}, ends: "success applied applied", effects: 1},
		{name: "425 once, natural", kind: "natural", meets: "status=425,times=1",
			attempts: []string{"response_received declined 425", done}, ends: "success applied applied", effects: 1},
		{name: "425 once, safe", kind: "safe", meets: "status=425,times=1",
			attempts: []string{"response_received declined 425", done}, ends: "success applied applied"},
		{name: "425 twice, keyed", kind: "keyed", meets: "status=425",
			attempts: []string{"response_received declined 425", "response_received declined 425"}, ends: "cancelled declined status_denied"},

		{name: "retry budget used up", kind: "keyed", meets: "status=503,commit",
			profile:  settings{"retry": "{max_attempts: 9, backoff: {initial: 20ms}, budget: {ratio: 0, floor_per_second: 0, burst: 1, when_empty: close}}"},
			attempts: []string{"response_received unclear 503", "response_received unclear 503"}, ends: "unresolved unclear_response budget_exhausted", effects: 1},
		{name: "retry budget used up, and no token ever comes", kind: "none", meets: "status=429",
			profile:  settings{"retry": "{max_attempts: 9, backoff: {initial: 20ms}, budget: {ratio: 0, floor_per_second: 0, burst: 1, when_empty: wait}}"},
			attempts: []string{throttled, throttled}, ends: "cancelled declined budget_exhausted"},
	}
}

// comeBackAt answers the first request with 429 and a date.
func comeBackAt(wait time.Duration) func(*peer) {
	return comeBack("429 Too Many Requests", func() string { return "Retry-After: " + dateIn(wait) + "\r\n" })
}

// comeBackBy does so by a clock that is wrong, which shows in the response's own Date.
func comeBackBy(wrong, wait time.Duration) func(*peer) {
	return comeBack("429 Too Many Requests", func() string { return "Date: " + dateIn(wrong) + "\r\nRetry-After: " + dateIn(wrong+wait) + "\r\n" })
}

// comeBackSince1970 answers it with 403 and the second at which the limit is set anew.
func comeBackSince1970(wait time.Duration) func(*peer) {
	return comeBack("403 Forbidden", func() string {
		return fmt.Sprintf("X-Ratelimit-Remaining: 0\r\nX-Ratelimit-Reset: %d\r\n", time.Now().Add(wait).Unix())
	})
}

// comeBack makes its headers at the first request.
func comeBack(status string, headers func() string) func(*peer) {
	var (
		first  sync.Once
		script func(*peer)
	)
	return func(p *peer) {
		first.Do(func() {
			script = answers(response(status, headers(), "{}"), testkit.Reply(201, `{"id":"p1"}`))
		})
		script(p)
	}
}

func dateIn(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }

// waitedASecond: Retry-After was heeded after the first attempt.
func waitedASecond(t *testing.T, o told) {
	t.Helper()
	if first := o.record[0]; first.WaitMS < 1000 || o.record[1].StartedAt.Before(*first.RetryAt) {
		t.Errorf("waited %d ms until %v, started at %v", first.WaitMS, first.RetryAt, o.record[1].StartedAt)
	}
}

// retryAfterIgnored: what makes no sense is noted and has no effect.
func retryAfterIgnored(t *testing.T, o told) {
	t.Helper()
	if first := o.record[0]; first.WaitMS > 100 || !strings.Contains(strings.Join(first.Notes, "\n"), "ignored Retry-After") {
		t.Errorf("waited %d ms, notes %q", first.WaitMS, first.Notes)
	}
}
