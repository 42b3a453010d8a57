package due_test

import (
	"context"
	"testing"
	"time"

	"executor/internal/due"
)

// A look that has begun when the process stops is waited for, and what it brings is
// worked on: rows that were claimed for nobody would stay taken until the claim ends.
func TestStopWaitsForALook(t *testing.T) {
	asked, answer, worked := make(chan bool), make(chan []int, 1), make(chan int, 1)
	r := due.New(due.Config[int, int]{
		Name: "test", Every: time.Hour, Total: 1,
		Claim: func(ctx context.Context, _ map[int]int, _ int) ([]int, error) {
			close(asked)
			select {
			case items := <-answer:
				return items, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		Lane: func(int) int { return 0 },
		Work: func(_ context.Context, item int) { worked <- item },
	})
	r.Start()
	<-asked
	stopped := make(chan bool)
	go func() {
		r.Stop(t.Context())
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Fatal("it stopped in the middle of a look")
	case <-time.After(50 * time.Millisecond):
	}
	answer <- []int{7}
	<-stopped
	if item := <-worked; item != 7 {
		t.Errorf("worked on %d", item)
	}
}

// The bound of a stop holds for a look too.
func TestStopCutsALookOff(t *testing.T) {
	asked := make(chan bool)
	r := due.New(due.Config[int, int]{
		Name: "test", Every: time.Hour, Total: 1,
		Claim: func(ctx context.Context, _ map[int]int, _ int) ([]int, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		},
		Lane: func(int) int { return 0 },
		Work: func(context.Context, int) {},
	})
	r.Start()
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	began := time.Now()
	if r.Stop(ctx); time.Since(began) > 5*time.Second {
		t.Errorf("it took %s", time.Since(began))
	}
}
