package attempts

import (
	"fmt"
	"testing"
	"time"
)

// TestOneTroubleIsToldOnce: whatever number of commands wait for the same, the log
// has a line for it in each span; and of troubles without end not more than fit.
func TestOneTroubleIsToldOnce(t *testing.T) {
	t.Parallel()
	var r repeats
	start := time.Now()
	told := 0
	for i := range 3 * repeatsMost {
		for range 2 {
			if r.first(fmt.Sprint("file ", i), start.Add(time.Second)) {
				told++
			}
		}
	}
	if told != repeatsMost {
		t.Errorf("told %d times, want %d", told, repeatsMost)
	}
	if r.first("file 0", start.Add(repeatsSpan)) || !r.first("file 0", start.Add(repeatsSpan+time.Second)) {
		t.Error("it has to be told again after a span, and not before")
	}
}
