package outcome

import (
	"slices"
	"testing"
)

func TestStates(t *testing.T) {
	final := []State{StateSuccess, StateRejected, StateUnresolved, StateCancelled}
	for _, s := range States() {
		if got, want := s.Final(), slices.Contains(final, s); got != want {
			t.Errorf("%q.Final() = %t", s, got)
		}
		if got, want := s.Absorbing(), s.Final() && s != StateUnresolved; got != want {
			t.Errorf("%q.Absorbing() = %t", s, got)
		}
	}
}

// TestCanMove draws the table of legal moves once more, as a matrix.
func TestCanMove(t *testing.T) {
	legal := map[State][]State{
		StatePending:    {StateExecuting, StatePending, StateSuccess, StateRejected, StateUnresolved, StateCancelled},
		StateExecuting:  {StatePending, StateSuccess, StateRejected, StateUnresolved, StateCancelled},
		StateUnresolved: {StateSuccess, StateRejected, StateCancelled, StatePending},
	}
	for _, from := range append(States(), "") {
		for _, to := range append(States(), "") {
			if got, want := CanMove(from, to), slices.Contains(legal[from], to); got != want {
				t.Errorf("CanMove(%q, %q) = %t", from, to, got)
			}
			if got, want := CanCorrect(from, to), from.Absorbing() && to.Absorbing() && from != to; got != want {
				t.Errorf("CanCorrect(%q, %q) = %t", from, to, got)
			}
		}
	}
}

func TestTransitions(t *testing.T) {
	for i, move := range Transitions() {
		if move.From.Absorbing() && move.By != ByCorrect {
			t.Errorf("%+v: something other than a person leaves an absorbed state", move)
		}
		if move.To == StateExecuting && move.By != ByBegin {
			t.Errorf("%+v: an attempt that was not begun", move)
		}
		if slices.Contains(Transitions()[:i], move) {
			t.Errorf("%+v is listed twice", move)
		}
	}
}
