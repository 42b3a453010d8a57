package seats

import (
	"sync"
	"testing"
)

func TestSeats(t *testing.T) {
	s := New(2, 3)
	leave, ok := s.Take("ann")
	_, again := s.Take("ann")
	if _, third := s.Take("ann"); !ok || !again || third {
		t.Errorf("ann took %v, %v and %v of two", ok, again, third)
	}
	if _, ok := s.Take("bob"); !ok {
		t.Error("bob has no seat because of ann")
	}
	if _, ok := s.Take("cyd"); ok {
		t.Error("a fourth of three seats was taken")
	}
	leave()
	if _, ok := s.Take("cyd"); !ok || s.Taken() != 3 {
		t.Errorf("what ann left is not there: %d are taken", s.Taken())
	}
}

// TestSeatsLeaveNothingBehind: who left is forgotten.
func TestSeatsLeaveNothingBehind(t *testing.T) {
	s := New(5, 50)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if leave, ok := s.Take(string(rune('a' + i))); ok {
				leave()
			}
		})
	}
	all.Wait()
	if s.Taken() != 0 || len(s.taken) != 0 {
		t.Errorf("%d seats and %d names are left", s.Taken(), len(s.taken))
	}
}
