package outcome

import (
	"slices"
	"time"
)

// question is what the rules are asked: the facts, and what follows from them.
type question struct {
	Facts
	judged *Attempt  // the last attempt; nil before an attempt, when none is judged
	answer Answer    // of the judged attempt
	due    time.Time // the next start by backoff, Retry-After and deadline
	start  time.Time // the same, or later where the retry budget is empty
	notes  []string
}

// questionAfter asks what follows the last attempt. There must be one.
func questionAfter(f Facts) question {
	last := f.Attempts[len(f.Attempts)-1]
	wait, notes := waitAfter(f, last)
	due := f.Now.Add(wait)
	start := due
	if token := f.Now.Add(f.NextTokenIn); f.budgetEmpty() && token.After(due) {
		start = token
	}
	return question{Facts: f, judged: &last, answer: last.GivenAnswer(), due: due, start: start, notes: notes}
}

// A rule looks at one side of the question.
type rule struct {
	judge         func(question) ruling
	beforeAttempt bool // also asked right before an attempt; the others judge the last one
}

// ruling is what a rule says; the zero ruling is nothing. A denial ends the
// asking. Anything else stands only as long as no later rule denies.
type ruling struct {
	verdict Verdict
	reason  Reason
	denial  bool
}

func deny(reason Reason) ruling { return ruling{VerdictClose, reason, true} }

func unlessDenied(v Verdict, reason Reason) ruling { return ruling{v, reason, false} }

// rules are the nine in their order: the number of a rule is its place.
func rules() []rule {
	return []rule{
		{attemptsUsedUp, true},
		{retryBudget, false},
		{bodyReplayable, true},
		{alreadyDelivered, true},
		{draining, true},
		{deadlineTooNear, true},
		{permanentFailure, false},
		{ambiguous, true},
		{byAnswer, false},
	}
}

// ask puts the question to the rules in their order and returns the number of
// the one that answered. The first denial ends it, so no later rule can undo it.
func (q question) ask(asked func(rule) bool) (int, ruling) {
	number, standing := 0, ruling{}
	for i, r := range rules() {
		if !asked(r) {
			continue
		}
		said := r.judge(q)
		if said.denial {
			return i + 1, said
		}
		if standing.verdict == "" && said.verdict != "" {
			number, standing = i+1, said
		}
	}
	return number, standing
}

// Rule 1.
func attemptsUsedUp(q question) ruling {
	if len(q.Attempts) >= q.Retry.MaxAttempts {
		return deny(ReasonMaxAttempts)
	}
	return ruling{}
}

// Rule 2. Waiting for a token never hides that a later rule forbids the attempt.
func retryBudget(q question) ruling {
	switch {
	case !q.budgetEmpty():
		return ruling{}
	case q.Retry.WhenBudgetEmpty != WhenEmptyWait:
		return deny(ReasonBudgetExhausted)
	case !q.fits(q.start):
		return unlessDenied(VerdictClose, ReasonBudgetExhausted)
	default:
		return unlessDenied(VerdictWaitBudget, ReasonBudgetExhausted)
	}
}

// Rule 3. A one-shot body is given out once, even if nothing of it was sent.
func bodyReplayable(q question) ruling {
	if q.Body == BodyOneShot && len(q.Attempts) > 0 {
		return deny(ReasonBodyNotReplayable)
	}
	return ruling{}
}

// Rule 4.
func alreadyDelivered(q question) ruling {
	if q.OutcomeDelivered {
		return deny(ReasonAlreadyDelivered)
	}
	return ruling{}
}

// Rule 5. Another process may do what this one may not.
func draining(q question) ruling {
	if q.Draining {
		return ruling{VerdictHandBack, ReasonRuntimeDraining, true}
	}
	return ruling{}
}

// Rule 6.
func deadlineTooNear(q question) ruling {
	if !q.fits(q.due) {
		return deny(ReasonDeadline)
	}
	return ruling{}
}

// Rule 7.
func permanentFailure(q question) ruling {
	if q.judged.Category.Permanent() {
		return deny(ReasonPermanentFailure)
	}
	return ruling{}
}

// Rule 8. A response that leaves doubt is judged by its status, in rule 9; any
// other doubt ends here, unless the upstream makes a repeat safe.
func ambiguous(q question) ruling {
	k := q.Operation.Idempotency
	switch {
	case q.safelyIdempotent(), BoundaryOver(k, q.Attempts) == BoundaryNotCrossed:
		return ruling{}
	case q.judged != nil && q.judged.boundary(k) == BoundaryPossiblyCrossed && q.judged.Evidence == EvidenceResponseReceived:
		return ruling{}
	default:
		return deny(ReasonAmbiguous)
	}
}

// Rule 9.
func byAnswer(q question) ruling {
	switch {
	case q.judged.Evidence == EvidenceNotSent:
		return unlessDenied(VerdictRetry, ReasonNotSent)
	case !q.judged.Evidence.HasStatus():
		return q.retryIfSafe(ReasonSentNoResponse)
	case q.answer == AnswerRefused:
		return q.refreshAuth()
	case q.repeatsStoredError():
		return deny(ReasonStoredError)
	case q.answer == AnswerDeclined:
		return q.byDeclined()
	case q.answer == AnswerUnclear:
		return q.byUnclear()
	default:
		return deny(ReasonStatusDenied)
	}
}

// refreshAuth is rule 9 for a refusal that a fresh credential may turn.
func (q question) refreshAuth() ruling {
	if !q.mayRefresh() || !q.safelyIdempotent() {
		return deny(ReasonRefused)
	}
	return unlessDenied(VerdictRetry, ReasonAuthRefresh)
}

// byDeclined is rule 9 where nothing was done and asking again is welcome. 425
// is answered by sending once more outside of early data; there is no third way.
func (q question) byDeclined() ruling {
	if q.judged.Status == 425 && len(q.Attempts) > 1 {
		return deny(ReasonStatusDenied)
	}
	return unlessDenied(VerdictRetry, ReasonStatus(q.judged.Status))
}

// byUnclear is rule 9 where the response does not tell what was done.
func (q question) byUnclear() ruling {
	status := q.judged.Status
	transient := slices.Contains(q.Retry.TransientStatuses, status)
	switch {
	case status == 500 && (!transient || !q.repeatable()):
		return deny(ReasonStatusDenied)
	case status == 500, status == 502, status == 503, status == 504:
		return q.retryIfSafe(ReasonStatus(status))
	case q.judged.Evidence == EvidencePartialResponse:
		return q.retryIfSafe(ReasonPartialResponse)
	case throttles(status):
		return q.retryIfSafe(ReasonStatus(status))
	default:
		return deny(ReasonStatusDenied)
	}
}

func (q question) retryIfSafe(reason Reason) ruling {
	if !q.repeatable() {
		return deny(ReasonAmbiguous)
	}
	return unlessDenied(VerdictRetry, reason)
}

// mayRefresh reports whether the last answer asks for a fresh credential, and
// one may be had: once in the life of a command, and not once it is cancelled.
func (q question) mayRefresh() bool {
	refreshed := slices.ContainsFunc(q.Attempts, func(a Attempt) bool { return a.RefreshedAuth })
	return q.judged.Status == 401 && q.Operation.CanRefreshAuth && !refreshed && !q.CancelRequested
}

// repeatsStoredError reports whether the upstream, which stores errors under
// the key, gave this one before.
func (q question) repeatsStoredError() bool {
	status := q.judged.Status
	if !q.Operation.StoresErrors || status < 500 || status > 599 {
		return false
	}
	return slices.ContainsFunc(q.Attempts[:len(q.Attempts)-1], func(a Attempt) bool {
		return a.Evidence.HasStatus() && a.Status == status
	})
}

// repeatable reports whether one more request at the next start can do no harm.
func (q question) repeatable() bool {
	return q.safelyIdempotent() || BoundaryOver(q.Operation.Idempotency, q.Attempts) == BoundaryNotCrossed
}

// safelyIdempotent reports whether the upstream's contract protects a repeat at
// the next start. A key is fresh until the first attempt that may have used it.
func (q question) safelyIdempotent() bool {
	switch q.Operation.Idempotency {
	case IdempotencySafe, IdempotencyNatural:
		return true
	case IdempotencyKeyed:
		first, used := firstUse(q.Attempts)
		return !used || q.start.Before(first.Add(q.Operation.Retention).Add(-q.Operation.RetentionMargin))
	default:
		return false
	}
}

// firstUse is the start of the first attempt that may have reached a keyed
// operation.
func firstUse(attempts []Attempt) (first time.Time, used bool) {
	for _, a := range attempts {
		if a.boundary(IdempotencyKeyed) == BoundaryNotCrossed {
			continue
		}
		if !used || a.StartedAt.Before(first) {
			first, used = a.StartedAt, true
		}
	}
	return first, used
}

// fits reports whether an attempt that starts then has its minimum window
// before the deadline.
func (f Facts) fits(start time.Time) bool { return !start.After(f.latestStart()) }

// latestStart is the last moment at which an attempt is still useful.
func (f Facts) latestStart() time.Time {
	return f.Deadline.Add(-max(f.Retry.MinAttemptWindow, 0))
}

// budgetEmpty reports whether the upstream's retry budget has no token.
func (f Facts) budgetEmpty() bool { return !(f.BudgetTokens >= 1) }
