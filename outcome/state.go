package outcome

import "slices"

// State is where a command stands.
type State string

const (
	StatePending    State = "pending"    // waits for its next attempt
	StateExecuting  State = "executing"  // an attempt is open
	StateSuccess    State = "success"    // the upstream confirmed it
	StateRejected   State = "rejected"   // the upstream refused it, and nothing was done
	StateUnresolved State = "unresolved" // not known; final for the caller, still open for us
	StateCancelled  State = "cancelled"  // known: the remote boundary was not crossed
)

// States lists every state.
func States() []State {
	return []State{StatePending, StateExecuting, StateSuccess, StateRejected, StateUnresolved, StateCancelled}
}

// ParseState returns the state of that name.
func ParseState(s string) (State, error) { return parse("state", s, States()) }

// Final reports whether the state is an outcome that the caller is told.
func (s State) Final() bool { return s == StateUnresolved || s.Absorbing() }

// Absorbing reports whether nothing automatic ever leaves the state.
func (s State) Absorbing() bool {
	return s == StateSuccess || s == StateRejected || s == StateCancelled
}

// What moves a command.
const (
	ByBegin     = "begin"     // an attempt is opened
	ByFinish    = "finish"    // an attempt is closed, by its own process or as a lost one
	ByClose     = "close"     // deadline, cancel, or evidence that came late
	ByKnowledge = "knowledge" // a lookup, a late response, a notice, a person
	ByResend    = "resend"    // a confirmed absence, a replay, a person
	ByCorrect   = "correct"   // a person, and nothing else, changes an absorbed state
)

// Transition is one legal move. Where several causes lead the same way, each
// has its own.
type Transition struct {
	From, To State
	By       string
}

// Transitions lists every legal move. The store refuses any other.
func Transitions() []Transition {
	return []Transition{
		{StatePending, StateExecuting, ByBegin},

		{StatePending, StatePending, ByFinish}, // never sent: recorded, waits again
		{StatePending, StateSuccess, ByClose},
		{StatePending, StateRejected, ByClose},
		{StatePending, StateUnresolved, ByClose},
		{StatePending, StateCancelled, ByClose},

		{StateExecuting, StatePending, ByFinish},
		{StateExecuting, StateSuccess, ByFinish},
		{StateExecuting, StateRejected, ByFinish},
		{StateExecuting, StateUnresolved, ByFinish},
		{StateExecuting, StateCancelled, ByFinish},

		{StateUnresolved, StateSuccess, ByKnowledge},
		{StateUnresolved, StateRejected, ByKnowledge},
		{StateUnresolved, StateCancelled, ByKnowledge},
		{StateUnresolved, StatePending, ByResend},

		{StateSuccess, StateRejected, ByCorrect},
		{StateSuccess, StateCancelled, ByCorrect},
		{StateRejected, StateSuccess, ByCorrect},
		{StateRejected, StateCancelled, ByCorrect},
		{StateCancelled, StateSuccess, ByCorrect},
		{StateCancelled, StateRejected, ByCorrect},
	}
}

// CanMove reports whether a command may go from one state to another without a
// person's correction.
func CanMove(from, to State) bool {
	return slices.ContainsFunc(Transitions(), func(t Transition) bool {
		return t.From == from && t.To == to && t.By != ByCorrect
	})
}

// CanCorrect reports whether a person may change one absorbed state into another.
func CanCorrect(from, to State) bool {
	return slices.Contains(Transitions(), Transition{from, to, ByCorrect})
}
