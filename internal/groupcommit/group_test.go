package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// desk is a flush that the test steps through: each batch is shown, then waits
// until the test lets it go.
type desk struct {
	batches chan []int
	release chan func(items []int) []Result[int]
}

func newDesk() *desk {
	return &desk{make(chan []int), make(chan func([]int) []Result[int])}
}

func (d *desk) flush(_ context.Context, items []int) []Result[int] {
	d.batches <- items
	return (<-d.release)(items)
}

// double answers each item with twice its value.
func double(items []int) []Result[int] {
	results := make([]Result[int], len(items))
	for i, item := range items {
		results[i].Value = 2 * item
	}
	return results
}

func TestWhatArrivesDuringAFlushIsFlushedTogether(t *testing.T) {
	synctest.Test(t, whatArrivesDuringAFlushIsFlushedTogether)
}

func whatArrivesDuringAFlushIsFlushedTogether(t *testing.T) {
	d := newDesk()
	g := New(3, d.flush)
	var wg sync.WaitGroup
	do := func(item int) {
		wg.Go(func() {
			if got, err := g.Do(context.Background(), item); err != nil || got != 2*item {
				t.Errorf("Do(%d) = %d, %v; want %d", item, got, err, 2*item)
			}
		})
	}
	do(0)
	if got := <-d.batches; !slices.Equal(got, []int{0}) { // at once, without company
		t.Errorf("first batch = %v, want [0]", got)
	}
	for item := 1; item <= 4; item++ {
		do(item)
		synctest.Wait()
	}
	d.release <- double
	for _, want := range [][]int{{1, 2, 3}, {4}} { // in order, at most three
		if got := <-d.batches; !slices.Equal(got, want) {
			t.Errorf("batch = %v, want %v", got, want)
		}
		d.release <- double
	}
	wg.Wait()
	g.Close()
}

func TestEachItemGetsItsOwnResult(t *testing.T) {
	odd := errors.New("odd")
	g := New(100, func(_ context.Context, items []int) []Result[int] {
		results := double(items)
		for i, item := range items {
			if item%2 == 1 {
				results[i] = Result[int]{Err: fmt.Errorf("%d: %w", item, odd)}
			}
		}
		return results
	})
	defer g.Close()
	var wg sync.WaitGroup
	for item := range 500 {
		wg.Go(func() {
			got, err := g.Do(context.Background(), item)
			if item%2 == 1 && (!errors.Is(err, odd) || err.Error() != fmt.Sprintf("%d: odd", item)) {
				t.Errorf("Do(%d) = %v, want its own error", item, err)
			}
			if item%2 == 0 && (err != nil || got != 2*item) {
				t.Errorf("Do(%d) = %d, %v; want %d", item, got, err, 2*item)
			}
		})
	}
	wg.Wait()
}

func TestCallersContextNeverReachesTheBatch(t *testing.T) {
	entered, leave := make(chan context.Context), make(chan struct{})
	g := New(10, func(ctx context.Context, items []int) []Result[int] {
		entered <- ctx
		<-leave
		return double(items)
	})
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), desk{}, "caller"))
	failed := make(chan error)
	go func() {
		_, err := g.Do(ctx, 1)
		failed <- err
	}()
	inside := <-entered
	cancel()
	if err := <-failed; !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("a wait given up during the flush: %v, want ErrUnknown and Canceled", err)
	}
	if inside.Err() != nil || inside.Value(desk{}) != nil {
		t.Error("the caller's context reached the flush")
	}
	close(leave)
	g.Close()
}

func TestAnItemThatStillWaitsIsWithdrawn(t *testing.T) {
	synctest.Test(t, anItemThatStillWaitsIsWithdrawn)
}

func anItemThatStillWaitsIsWithdrawn(t *testing.T) {
	d := newDesk()
	g := New(10, d.flush)
	first := make(chan error)
	go func() {
		_, err := g.Do(context.Background(), 1)
		first <- err
	}()
	<-d.batches
	ctx, cancel := context.WithCancel(context.Background())
	second := make(chan error)
	go func() {
		_, err := g.Do(ctx, 2)
		second <- err
	}()
	synctest.Wait()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
		t.Errorf("a wait given up before the flush: %v, want Canceled alone", err)
	}
	d.release <- double
	if err := <-first; err != nil {
		t.Error(err)
	}
	g.Close() // would block if item 2 were flushed
}

func TestAFinishedContextIsNotTakenIn(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g := New(10, func(context.Context, []int) []Result[int] {
		t.Error("flushed")
		return nil
	})
	if _, err := g.Do(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Do = %v, want Canceled", err)
	}
	g.Close()
}

func TestCloseWaitsAndRefuses(t *testing.T) { synctest.Test(t, closeWaitsAndRefuses) }

func closeWaitsAndRefuses(t *testing.T) {
	d := newDesk()
	g := New(1, d.flush)
	var wg sync.WaitGroup
	for item := range 2 {
		wg.Go(func() {
			if _, err := g.Do(context.Background(), item); err != nil {
				t.Errorf("Do(%d) = %v; it was taken before Close", item, err)
			}
		})
	}
	<-d.batches
	synctest.Wait()
	closed := make(chan struct{})
	go func() {
		g.Close()
		close(closed)
	}()
	synctest.Wait()
	if _, err := g.Do(context.Background(), 3); !errors.Is(err, ErrClosed) {
		t.Errorf("Do after Close = %v, want ErrClosed", err)
	}
	select {
	case <-closed:
		t.Error("Close returned with items on the way")
	default:
	}
	d.release <- double
	<-d.batches
	d.release <- double
	<-closed
	wg.Wait()
	g.Close() // again
}

func TestEveryCallerIsAnsweredWhateverTheFlushDoes(t *testing.T) {
	for name, flush := range map[string]func(context.Context, []int) []Result[int]{
		"panics":          func(context.Context, []int) []Result[int] { panic("boom") },
		"loses a result":  func(context.Context, []int) []Result[int] { return nil },
		"adds one result": func(_ context.Context, items []int) []Result[int] { return double(append(items, 1)) },
	} {
		g := New(10, flush)
		if _, err := g.Do(context.Background(), 1); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v, want ErrUnknown", name, err)
		}
		g.Close()
	}
}
