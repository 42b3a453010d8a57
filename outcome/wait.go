package outcome

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// minWait is the least that full jitter draws: a retry at once is no backoff.
const minWait = 10 * time.Millisecond

// Retry-After is believed between these bounds and ignored outside of them.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 30 * 24 * time.Hour
)

// waitAfter is the wait before the attempt that follows the last: the backoff,
// raised to Retry-After, lowered so that the attempt keeps its window before the
// deadline, but never under Retry-After.
func waitAfter(f Facts, last Attempt) (time.Duration, []string) {
	asked, notes := askedWait(last, f.Now)
	wait := max(f.Retry.Backoff.wait(len(f.Attempts), f.PreviousWait, f.Random), asked)
	room := f.latestStart().Sub(f.Now)
	return max(min(wait, room), asked, 0), notes
}

// askedWait is what the upstream asked us to wait, if it may ask.
func askedWait(a Attempt, now time.Time) (time.Duration, []string) {
	if a.RetryAfter == "" || !heedsRetryAfter(a) {
		return 0, nil
	}
	wait, ok := RetryAfter(a.RetryAfter, now)
	if !ok {
		return 0, []string{fmt.Sprintf("ignored Retry-After %.64q: neither seconds nor a date between 1 s and 30 days from now", a.RetryAfter)}
	}
	return wait, nil
}

// heedsRetryAfter reports whether Retry-After means anything on this response, or on
// that of the token endpoint which kept the attempt from being sent.
func heedsRetryAfter(a Attempt) bool {
	if a.Evidence == EvidenceNotSent {
		return a.Category == CategoryAuthFailure
	}
	switch a.Status {
	case 408, 425, 429, 500, 502, 503, 504:
		return a.Evidence.HasStatus()
	default:
		return a.GivenAnswer() == AnswerDeclined
	}
}

// RetryAfter reads a Retry-After header (RFC 9110, section 10.2.3): seconds, or
// an HTTP date seen from now. What is under 1 s, over 30 days or unreadable is
// not ok.
func RetryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	var wait time.Duration
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, ok := httpDate(value, now); ok {
		wait = date.Sub(now)
	}
	if wait < minRetryAfter || wait > maxRetryAfter {
		return 0, false
	}
	return wait, true
}

// httpDate reads the three forms of RFC 9110, section 5.6.7. All are in GMT.
func httpDate(value string, now time.Time) (time.Time, bool) {
	const (
		imfFixdate = "Mon, 02 Jan 2006 15:04:05 GMT"
		rfc850     = "Monday, 02-Jan-06 15:04:05 GMT"
	)
	for _, layout := range []string{imfFixdate, time.ANSIC} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, true
		}
	}
	t, err := time.Parse(rfc850, value)
	if err != nil {
		return time.Time{}, false
	}
	for t.Year() < now.Year()-50 { // a year of two digits lies at most 50 years back
		t = t.AddDate(100, 0, 0)
	}
	return t, true
}

// wait draws the wait after n attempts. Without a source of randomness it is
// the upper bound.
func (b Backoff) wait(n int, previous time.Duration, random func() float64) time.Duration {
	switch b.Jitter {
	case JitterFull:
		return max(between(0, b.exponential(n), random), minWait)
	case JitterDecorrelated:
		return b.decorrelated(n, previous, random)
	default:
		return b.exponential(n)
	}
}

// exponential is Initial doubled with every attempt after the first, at most Max.
func (b Backoff) exponential(n int) time.Duration {
	wait := b.Initial
	for range n - 1 {
		if wait > b.Max/2 {
			return b.Max
		}
		wait *= 2
	}
	return min(wait, b.Max)
}

// decorrelated grows from the previous wait instead of the number of attempts.
// Where that is not known, its bound is the exponential wait.
func (b Backoff) decorrelated(n int, previous time.Duration, random func() float64) time.Duration {
	if previous <= 0 && random == nil {
		return b.exponential(n)
	}
	previous = max(previous, b.Initial)
	high := b.Max
	if previous < b.Max/3 {
		high = 3 * previous
	}
	return between(min(b.Initial, high), high, random)
}

// between draws uniformly from [low, high]; nil takes high.
func between(low, high time.Duration, random func() float64) time.Duration {
	if random == nil {
		return high
	}
	share := min(max(random(), 0), 1)
	return min(low+time.Duration(share*float64(high-low)), high)
}
