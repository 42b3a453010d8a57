package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	firstBackoff = 200 * time.Millisecond
	longBackoff  = 5 * time.Second
)

// backoff is the wait before try n (from 1): full jitter, doubling, and never
// less than the service asked for.
func backoff(n int, asked time.Duration) time.Duration {
	most := min(longBackoff, firstBackoff<<min(n-1, 10))
	return max(rand.N(most), asked)
}

// sleep waits for d. It returns at once with an error if d does not fit into ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retryAfter reads the header in both forms, seconds and date; negative if there
// is none or it makes no sense.
func retryAfter(value string, now time.Time) time.Duration {
	if value == "" {
		return -1
	}
	if seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0)
	}
	return -1
}

// askedWait is the Retry-After of a refusal, 0 if there is none.
func askedWait(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return max(p.retryAfter, 0)
	}
	return 0
}
