package outcome

import (
	"fmt"
	"slices"
	"time"
)

// Decision is what follows, and why.
type Decision struct {
	Verdict         Verdict
	Rule            int // the one of the nine that answered; 0 for what comes before them
	Reason          Reason
	RetryAt         time.Time     // when the next attempt may start; for retry and wait_budget
	Wait            time.Duration // from Facts.Now to RetryAt
	AttemptBoundary Boundary      // of the judged attempt; empty if none is judged
	Boundary        Boundary      // of the command
	Outcome         *Outcome      // for complete and close, else nil
	Notes           []string      // what a reader of the record should know, e.g. an ignored Retry-After
}

// Verdict is the kind of a decision.
type Verdict string

const (
	VerdictComplete   Verdict = "complete"    // the last answer ends it
	VerdictRetry      Verdict = "retry"       // an attempt at RetryAt
	VerdictWaitBudget Verdict = "wait_budget" // the same, once the retry budget has a token
	VerdictHandBack   Verdict = "hand_back"   // another process goes on
	VerdictClose      Verdict = "close"       // nothing more is sent
)

// Verdicts lists every verdict.
func Verdicts() []Verdict {
	return []Verdict{VerdictComplete, VerdictRetry, VerdictWaitBudget, VerdictHandBack, VerdictClose}
}

// Reason is why we stop or go on. It describes our own effort, never the
// remote side. Besides the constants there is ReasonStatus.
type Reason string

const (
	ReasonFirstAttempt      Reason = "first_attempt"
	ReasonApplied           Reason = "applied"
	ReasonPending           Reason = "pending"
	ReasonRefused           Reason = "refused"
	ReasonCancelRequested   Reason = "cancel_requested"
	ReasonMaxAttempts       Reason = "max_attempts"
	ReasonBudgetExhausted   Reason = "budget_exhausted"
	ReasonBodyNotReplayable Reason = "body_not_replayable"
	ReasonAlreadyDelivered  Reason = "response_already_delivered"
	ReasonRuntimeDraining   Reason = "runtime_draining"
	ReasonDeadline          Reason = "deadline"
	ReasonPermanentFailure  Reason = "permanent_failure"
	ReasonAmbiguous         Reason = "ambiguous"
	ReasonStoredError       Reason = "stored_error"
	ReasonStatusDenied      Reason = "status_denied"
	ReasonAuthRefresh       Reason = "auth_refresh"
	ReasonNotSent           Reason = "not_sent"
	ReasonSentNoResponse    Reason = "sent_no_response"
	ReasonPartialResponse   Reason = "partial_response"
)

// Reasons lists every reason but those of ReasonStatus.
func Reasons() []Reason {
	return []Reason{
		ReasonFirstAttempt, ReasonApplied, ReasonPending, ReasonRefused, ReasonCancelRequested,
		ReasonMaxAttempts, ReasonBudgetExhausted, ReasonBodyNotReplayable, ReasonAlreadyDelivered, ReasonRuntimeDraining,
		ReasonDeadline, ReasonPermanentFailure, ReasonAmbiguous,
		ReasonStoredError, ReasonStatusDenied, ReasonAuthRefresh, ReasonNotSent, ReasonSentNoResponse, ReasonPartialResponse,
	}
}

// ReasonStatus is the reason of a retry that a status allows: status_503.
func ReasonStatus(status int) Reason { return Reason(fmt.Sprintf("status_%d", status)) }

// Decide says what follows the last of the attempts. Without any it says
// whether the first may be made.
func Decide(f Facts) Decision {
	if len(f.Attempts) == 0 {
		// What only the process at hand can know is asked by MayStart.
		f.Draining, f.OutcomeDelivered = false, false
		return MayStart(f)
	}
	q := questionAfter(f)
	switch {
	case q.answer == AnswerApplied:
		return q.end(VerdictComplete, 0, ReasonApplied)
	case q.answer == AnswerPending:
		return q.end(VerdictClose, 0, ReasonPending)
	case q.answer == AnswerRefused && !q.mayRefresh():
		return q.end(VerdictComplete, 0, ReasonRefused)
	case f.CancelRequested:
		return q.end(VerdictClose, 0, ReasonCancelRequested)
	case anyAnswered(f.Attempts, AnswerApplied): // learnt late, of an earlier attempt
		return q.end(VerdictClose, 0, ReasonApplied)
	}
	number, r := q.ask(func(rule) bool { return true })
	switch r.verdict {
	case VerdictRetry:
		return q.goOn(number, r, q.due)
	case VerdictWaitBudget:
		return q.goOn(number, r, q.start)
	case VerdictHandBack:
		return q.decision(number, r)
	default:
		return q.end(VerdictClose, number, r.reason)
	}
}

// MayStart says whether an attempt may begin now: VerdictRetry if so. It does
// not judge the last attempt again, only what can have changed since it was: a
// cancel, the time left, the age of the key, this process.
func MayStart(f Facts) Decision {
	q := question{Facts: f, due: f.Now, start: f.Now}
	switch {
	case f.CancelRequested:
		return q.end(VerdictClose, 0, ReasonCancelRequested)
	case anyAnswered(f.Attempts, AnswerApplied):
		return q.end(VerdictClose, 0, ReasonApplied)
	}
	number, r := q.ask(func(r rule) bool { return r.beforeAttempt })
	switch {
	case r.verdict == VerdictHandBack:
		return q.decision(number, r)
	case r.verdict != "":
		return q.end(VerdictClose, number, r.reason)
	case len(f.Attempts) == 0:
		return q.goOn(0, ruling{verdict: VerdictRetry, reason: ReasonFirstAttempt}, f.Now)
	default: // why it goes on was said when the retry was decided
		return q.goOn(0, ruling{verdict: VerdictRetry}, f.Now)
	}
}

// goOn is a decision to make another attempt.
func (q question) goOn(number int, r ruling, at time.Time) Decision {
	d := q.decision(number, r)
	d.RetryAt, d.Wait = at, at.Sub(q.Now)
	return d
}

// end is a decision to send nothing more.
func (q question) end(v Verdict, number int, reason Reason) Decision {
	d := q.decision(number, ruling{verdict: v, reason: reason})
	closing := Close(q.Facts)
	d.Outcome = &closing
	return d
}

func (q question) decision(number int, r ruling) Decision {
	d := Decision{
		Verdict:  r.verdict,
		Rule:     number,
		Reason:   r.reason,
		Boundary: BoundaryOver(q.Operation.Idempotency, q.Attempts),
		Notes:    slices.Clone(q.notes),
	}
	if q.judged != nil {
		d.AttemptBoundary = q.judged.boundary(q.Operation.Idempotency)
	}
	return d
}
