package client

import "slices"

// State is where a command stands. A newer service may know more of them.
type State string

const (
	StatePending    State = "pending"    // waits for its next attempt
	StateExecuting  State = "executing"  // an attempt is under way
	StateSuccess    State = "success"    // done, confirmed
	StateRejected   State = "rejected"   // refused, and nothing was done
	StateUnresolved State = "unresolved" // nobody knows yet whether it was done; may still settle
	StateCancelled  State = "cancelled"  // known not to have been done
)

// States lists all states.
func States() []State {
	return []State{StatePending, StateExecuting, StateSuccess, StateRejected, StateUnresolved, StateCancelled}
}

// Final says whether a command in this state has an outcome.
func (s State) Final() bool {
	return slices.Contains([]State{StateSuccess, StateRejected, StateUnresolved, StateCancelled}, s)
}

// Priority orders commands that are due at the same upstream.
type Priority string

const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// CancelResult is what a cancel achieved.
type CancelResult string

const (
	CancelCancelled CancelResult = "cancelled" // nothing was sent; it ended in this request
	CancelRequested CancelResult = "requested" // an attempt is on the wire, and its evidence decides
	CancelTooLate   CancelResult = "too_late"  // it was over before
	CancelInDoubt   CancelResult = "in_doubt"  // it may have been done; there is no further attempt
)

// BodyKind says how the body of a command can be sent again.
type BodyKind string

const (
	BodyReplayable BodyKind = "replayable" // from stored bytes
	BodyReopenable BodyKind = "reopenable" // from files that are compared at each opening
	BodyOneShot    BodyKind = "one_shot"   // not at all: it is in memory only
)
