package webhooks

import (
	"math/rand/v2"
	"net/http"
	"time"

	"executor/outcome"
)

// Schedule are the waits before the second and each further try: ten tries in
// three days. After the last one the delivery has failed.
func Schedule() []time.Duration {
	return []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}
}

// ChallengeSchedule is the same for a challenge: close at first, as its receiver is
// being set up, and over after two days. Then somebody has to ask again.
func ChallengeSchedule() []time.Duration {
	return []time.Duration{
		5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour,
		3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
	}
}

const (
	jitter        = 0.2            // of a wait, either way
	maxRetryAfter = 24 * time.Hour // a receiver that asks for more gets this
	// longestPause is how long a receiver that asks for time keeps its other
	// deliveries waiting.
	longestPause = 5 * time.Minute
	// ourWait is the pause after a failure that is ours.
	ourWait = 5 * time.Minute
	// failingFor is how long an endpoint may bring nothing but failures before it
	// is disabled; longer than a whole schedule.
	failingFor = 5 * 24 * time.Hour
)

// next says how long to wait after a try that failed, the step-th since the
// delivery was last scheduled anew (0 is the first); ok is false after the last.
// random gives numbers from 0 to 1.
func next(waits []time.Duration, step int, retryAfter time.Duration, random func() float64) (wait time.Duration, ok bool) {
	if step >= len(waits) {
		return 0, false
	}
	wait = time.Duration(float64(waits[step]) * (1 - jitter + 2*jitter*random()))
	return max(wait, min(retryAfter, maxRetryAfter)), true
}

// askedFor reads what a receiver that is overloaded asks for; 0 for nothing.
func askedFor(res *http.Response, now time.Time) time.Duration {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	wait, _ := outcome.RetryAfter(res.Header.Get("Retry-After"), now)
	return wait
}

// random is the source of jitter.
func random() float64 { return rand.Float64() }
