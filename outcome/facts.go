package outcome

import "time"

// Facts are all that a decision rests on.
type Facts struct {
	Now, Deadline time.Time
	Operation     Operation
	Retry         Retry
	Body          Body

	BudgetTokens float64       // of the upstream's retry budget; under 1 is empty
	NextTokenIn  time.Duration // until an empty budget has a token again

	Draining         bool // this process takes up no more; set only before an attempt
	OutcomeDelivered bool // a final outcome was already handed to the caller
	CancelRequested  bool

	Attempts []Attempt // all there were, oldest first

	PreviousWait time.Duration  // what decorrelated jitter grows from; 0 = there was none
	Random       func() float64 // in [0, 1); nil takes the upper bound of every wait
}

// Operation is the upstream's contract for one kind of call.
type Operation struct {
	Idempotency           Idempotency
	Retention             time.Duration // how long a key is remembered; 0 = unknown, never safe to repeat once in doubt
	RetentionMargin       time.Duration // how much earlier we stop to rely on it
	AuthoritativeRefusals []int         // statuses that, under the same key, also speak for the earlier attempts
	StoresErrors          bool          // a server error is stored under the key and comes again
	HasLookup             bool
	CanRefreshAuth        bool
}

// Retry is the policy for further attempts.
type Retry struct {
	MaxAttempts       int           // counts every attempt, also those that were never sent
	MinAttemptWindow  time.Duration // an attempt with less time before the deadline is useless
	Backoff           Backoff
	TransientStatuses []int // 500, where the upstream says that it passes
	WhenBudgetEmpty   WhenEmpty
}

// Backoff is how the wait before the next attempt grows.
type Backoff struct {
	Initial, Max time.Duration
	Jitter       Jitter
}

// Attempt is what is known of one attempt.
type Attempt struct {
	StartedAt, EndedAt time.Time
	Evidence           Evidence
	Category           Category
	Status             int    // of the final response, 0 without one
	Answer             Answer // AnswerNone = by the default table
	RetryAfter         string // header value as it came
	RefreshedAuth      bool   // it was sent with a credential refreshed for it
	Settled            bool   // a confirmed absence came after it
}

// GivenAnswer is the answer of the attempt: what the profile said, else the
// default table. Without response headers there is none, whatever was filled in.
func (a Attempt) GivenAnswer() Answer {
	switch {
	case !a.Evidence.HasStatus():
		return AnswerNone
	case a.Answer == AnswerNone:
		return DefaultAnswer(a.Status)
	default:
		return a.Answer
	}
}

// boundary is what the attempt counts as. A confirmed absence after it clears
// every doubt; only a confirmed effect is stronger.
func (a Attempt) boundary(k Idempotency) Boundary {
	answer := a.GivenAnswer()
	if a.Settled && answer != AnswerApplied {
		return BoundaryNotCrossed
	}
	return BoundaryOf(k, a.Evidence, answer)
}

// Body says whether the request body can be sent again.
type Body string

const (
	BodyReplayable Body = "replayable" // stored, the same bytes each time
	BodyReopenable Body = "reopenable" // a reference, checked at each opening
	BodyOneShot    Body = "one_shot"   // in memory only, sent once
)

// Bodies lists every kind of body.
func Bodies() []Body { return []Body{BodyReplayable, BodyReopenable, BodyOneShot} }

// Jitter is how a wait is drawn.
type Jitter string

const (
	JitterFull         Jitter = "full"         // uniform between 0 and the wait
	JitterDecorrelated Jitter = "decorrelated" // uniform between the initial wait and three times the previous one
	JitterNone         Jitter = "none"         // exactly the wait
)

// Jitters lists every kind of jitter.
func Jitters() []Jitter { return []Jitter{JitterFull, JitterDecorrelated, JitterNone} }

// WhenEmpty is what an empty retry budget means.
type WhenEmpty string

const (
	WhenEmptyWait  WhenEmpty = "wait"  // wait for a token, inside the deadline
	WhenEmptyClose WhenEmpty = "close" // end the command
)

// WhenEmpties lists both ways.
func WhenEmpties() []WhenEmpty { return []WhenEmpty{WhenEmptyWait, WhenEmptyClose} }
