package outcome

import "slices"

// Outcome is how a command ends, or stands while it is unresolved.
type Outcome struct {
	State          State
	Reason         OutcomeReason
	SafeToResubmit bool // as a new command under a new key
	NextAction     NextAction
	Incomplete     bool // success, but the body of the answer was lost
}

// OutcomeReason is what is known of the remote side. Why we stopped is a
// Reason; the two are never mixed.
type OutcomeReason string

const (
	OutcomeReasonApplied           OutcomeReason = "applied"
	OutcomeReasonRefused           OutcomeReason = "refused"
	OutcomeReasonRemotePending     OutcomeReason = "remote_pending"
	OutcomeReasonNoResponse        OutcomeReason = "no_response"
	OutcomeReasonPartialResponse   OutcomeReason = "partial_response"
	OutcomeReasonUnclearResponse   OutcomeReason = "unclear_response"
	OutcomeReasonCancelledByCaller OutcomeReason = "cancelled_by_caller"
	OutcomeReasonNeverSent         OutcomeReason = "never_sent"
	OutcomeReasonDeclined          OutcomeReason = "declined"
	OutcomeReasonNoEffect          OutcomeReason = "no_effect"
	OutcomeReasonConfirmedAbsent   OutcomeReason = "confirmed_absent" // by lookups, never by Close
)

// OutcomeReasons lists every reason of an outcome.
func OutcomeReasons() []OutcomeReason {
	return []OutcomeReason{
		OutcomeReasonApplied, OutcomeReasonRefused,
		OutcomeReasonRemotePending, OutcomeReasonNoResponse, OutcomeReasonPartialResponse, OutcomeReasonUnclearResponse,
		OutcomeReasonCancelledByCaller, OutcomeReasonNeverSent, OutcomeReasonDeclined, OutcomeReasonNoEffect,
		OutcomeReasonConfirmedAbsent,
	}
}

// NextAction is who moves next after an outcome.
type NextAction string

const (
	NextActionNone   NextAction = "none"
	NextActionLookup NextAction = "lookup" // the upstream is asked what became of it
	NextActionReview NextAction = "review" // a person decides
)

// NextActions lists every next action.
func NextActions() []NextAction {
	return []NextAction{NextActionNone, NextActionLookup, NextActionReview}
}

// DecidedBy is where an outcome came from.
type DecidedBy string

const (
	DecidedByAttempt      DecidedBy = "attempt"
	DecidedByDeadline     DecidedBy = "deadline"
	DecidedByCancel       DecidedBy = "cancel"
	DecidedByLookup       DecidedBy = "lookup"
	DecidedByLateEvidence DecidedBy = "late_evidence"
	DecidedByNotice       DecidedBy = "notice"
	DecidedByReport       DecidedBy = "report"
	DecidedByOperator     DecidedBy = "operator"
)

// Deciders lists everything that can decide.
func Deciders() []DecidedBy {
	return []DecidedBy{
		DecidedByAttempt, DecidedByDeadline, DecidedByCancel, DecidedByLookup,
		DecidedByLateEvidence, DecidedByNotice, DecidedByReport, DecidedByOperator,
	}
}

// Close says how a command ends that is sent no more. It looks at all of its
// attempts: what the last one brought does not undo what an earlier one may have
// done.
func Close(f Facts) Outcome {
	switch {
	case anyAnswered(f.Attempts, AnswerApplied):
		return Outcome{State: StateSuccess, Reason: OutcomeReasonApplied, NextAction: NextActionNone, Incomplete: bodyLost(f.Attempts)}
	case inDoubt(f) && !refusalSettles(f):
		return Outcome{State: StateUnresolved, Reason: doubtOf(f), NextAction: nextAction(f.Operation)}
	case lastAnswer(f.Attempts) == AnswerRefused:
		return Outcome{State: StateRejected, Reason: OutcomeReasonRefused, NextAction: NextActionNone}
	default:
		return Outcome{State: StateCancelled, Reason: noEffectOf(f), SafeToResubmit: true, NextAction: NextActionNone}
	}
}

// inDoubt reports whether an attempt may have acted, or is said to be under way.
// A read counts only if its answer is still to come.
func inDoubt(f Facts) bool {
	return BoundaryOver(f.Operation.Idempotency, f.Attempts) != BoundaryNotCrossed || remotePending(f.Attempts)
}

// refusalSettles reports whether the last refusal speaks for the earlier
// attempts too: the upstream gives every request under one key the first one's
// result, and the profile says that it does so for this status.
func refusalSettles(f Facts) bool {
	if f.Operation.Idempotency != IdempotencyKeyed || remotePending(f.Attempts) || lastAnswer(f.Attempts) != AnswerRefused {
		return false
	}
	return slices.Contains(f.Operation.AuthoritativeRefusals, f.Attempts[len(f.Attempts)-1].Status)
}

// doubtOf says what is missing for an answer.
func doubtOf(f Facts) OutcomeReason {
	if remotePending(f.Attempts) {
		return OutcomeReasonRemotePending
	}
	for _, a := range slices.Backward(f.Attempts) {
		if a.boundary(f.Operation.Idempotency) == BoundaryPossiblyCrossed {
			return doubtAfter(a.Evidence)
		}
	}
	return OutcomeReasonNoResponse
}

// doubtAfter says what is missing after an attempt that left doubt.
func doubtAfter(e Evidence) OutcomeReason {
	switch e {
	case EvidenceResponseReceived:
		return OutcomeReasonUnclearResponse
	case EvidencePartialResponse:
		return OutcomeReasonPartialResponse
	default:
		return OutcomeReasonNoResponse
	}
}

// noEffectOf says how we know that nothing was done.
func noEffectOf(f Facts) OutcomeReason {
	sent := func(a Attempt) bool { return a.Evidence != EvidenceNotSent }
	switch {
	case f.CancelRequested:
		return OutcomeReasonCancelledByCaller
	case !slices.ContainsFunc(f.Attempts, sent):
		return OutcomeReasonNeverSent
	case lastAnswer(f.Attempts) == AnswerDeclined:
		return OutcomeReasonDeclined
	default:
		return OutcomeReasonNoEffect
	}
}

// nextAction says who clears up an unresolved command.
func nextAction(op Operation) NextAction {
	if op.HasLookup {
		return NextActionLookup
	}
	return NextActionReview
}

// remotePending reports whether the upstream accepted an attempt and has not
// said since what became of it.
func remotePending(attempts []Attempt) bool {
	return slices.ContainsFunc(attempts, func(a Attempt) bool {
		return a.GivenAnswer() == AnswerPending && !a.Settled
	})
}

// bodyLost reports whether no confirmation came with its whole body.
func bodyLost(attempts []Attempt) bool {
	return !slices.ContainsFunc(attempts, func(a Attempt) bool {
		return a.GivenAnswer() == AnswerApplied && a.Evidence == EvidenceResponseReceived
	})
}

// anyAnswered reports whether any attempt was answered like this.
func anyAnswered(attempts []Attempt, answer Answer) bool {
	return slices.ContainsFunc(attempts, func(a Attempt) bool { return a.GivenAnswer() == answer })
}

// lastAnswer is the answer of the last attempt, if there was one.
func lastAnswer(attempts []Attempt) Answer {
	if len(attempts) == 0 {
		return AnswerNone
	}
	return attempts[len(attempts)-1].GivenAnswer()
}
