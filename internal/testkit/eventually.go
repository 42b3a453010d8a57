package testkit

import (
	"testing"
	"time"
)

// Eventually waits for a condition that an event elsewhere brings about, and fails
// the test when it has not come true within patience.
func Eventually(t testing.TB, patience time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s did not happen within %s", what, patience)
		}
	}
}
