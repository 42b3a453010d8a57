package outcome

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// broken checks a decision against what must hold of every one, in words of its
// own: none of it asks the code under test what is safe. It returns what does
// not hold.
func broken(f Facts, d Decision) error {
	goesOn := d.Verdict == VerdictRetry || d.Verdict == VerdictWaitBudget
	ends := d.Verdict == VerdictComplete || d.Verdict == VerdictClose
	switch {
	case goesOn == ends && d.Verdict != VerdictHandBack:
		return fmt.Errorf("unknown verdict %q", d.Verdict)
	case ends != (d.Outcome != nil):
		return fmt.Errorf("verdict %q with outcome %v", d.Verdict, d.Outcome)
	case goesOn == d.RetryAt.IsZero():
		return fmt.Errorf("verdict %q with retry at %v", d.Verdict, d.RetryAt)
	case !slices.Contains(rulesOf(d.Reason), d.Rule):
		return fmt.Errorf("reason %q is not one of rule %d", d.Reason, d.Rule)
	case ends:
		return brokenOutcome(f, *d.Outcome)
	case goesOn:
		return brokenRetry(f, d)
	}
	return nil
}

// rulesOf lists the rules that may give a reason.
func rulesOf(r Reason) []int {
	switch r {
	case ReasonApplied, ReasonPending, ReasonCancelRequested, ReasonFirstAttempt, "":
		return []int{0}
	case ReasonRefused:
		return []int{0, 9}
	case ReasonMaxAttempts:
		return []int{1}
	case ReasonBudgetExhausted:
		return []int{2}
	case ReasonBodyNotReplayable:
		return []int{3}
	case ReasonAlreadyDelivered:
		return []int{4}
	case ReasonRuntimeDraining:
		return []int{5}
	case ReasonDeadline:
		return []int{6}
	case ReasonPermanentFailure:
		return []int{7}
	case ReasonAmbiguous:
		return []int{8, 9}
	default:
		return []int{9}
	}
}

// brokenOutcome checks that an outcome claims no more than the attempts show.
func brokenOutcome(f Facts, o Outcome) error {
	applied, doubt := false, false
	for _, a := range f.Attempts {
		applied = applied || shows(f, a) == AnswerApplied
		doubt = doubt || doubtful(f, a)
	}
	switch {
	case applied != (o.State == StateSuccess):
		return fmt.Errorf("%q, and applied is %t", o.State, applied)
	case doubt && !applied && o.State != StateUnresolved && !(o.State == StateRejected && authoritative(f)):
		return fmt.Errorf("%q in spite of doubt", o.State)
	case !doubt && o.State == StateUnresolved:
		return fmt.Errorf("%q without doubt", o.State)
	case o.State == StateRejected && shows(f, f.Attempts[len(f.Attempts)-1]) != AnswerRefused:
		return fmt.Errorf("%q without a refusal", o.State)
	case o.SafeToResubmit != (o.State == StateCancelled):
		return fmt.Errorf("%q, safe to resubmit is %t", o.State, o.SafeToResubmit)
	case (o.NextAction == NextActionNone) != (o.State != StateUnresolved):
		return fmt.Errorf("%q, next action %q", o.State, o.NextAction)
	}
	return nil
}

// brokenRetry checks that another attempt is allowed and useful.
func brokenRetry(f Facts, d Decision) error {
	last := Attempt{}
	if len(f.Attempts) > 0 {
		last = f.Attempts[len(f.Attempts)-1]
	}
	asked, asks := RetryAfter(last.RetryAfter, f.Now)
	asks = asks && strings.HasPrefix(string(d.Reason), "status_")
	switch {
	case d.RetryAt.Before(f.Now), !f.Now.Add(d.Wait).Equal(d.RetryAt):
		return fmt.Errorf("retry at %v is %v from now", d.RetryAt, d.Wait)
	case d.RetryAt.Add(f.Retry.MinAttemptWindow).After(f.Deadline):
		return fmt.Errorf("retry at %v leaves no window", d.RetryAt)
	case asks && d.Wait < asked:
		return fmt.Errorf("wait of %v under Retry-After %v", d.Wait, asked)
	case len(f.Attempts) >= f.Retry.MaxAttempts:
		return fmt.Errorf("attempt %d of %d", len(f.Attempts)+1, f.Retry.MaxAttempts)
	case f.CancelRequested, f.Draining && len(f.Attempts) > 0, f.OutcomeDelivered && len(f.Attempts) > 0:
		return fmt.Errorf("%q where nothing may be sent", d.Verdict)
	case f.Body == BodyOneShot && len(f.Attempts) > 0:
		return fmt.Errorf("a one-shot body is sent twice")
	}
	for _, a := range f.Attempts {
		if doubtful(f, a) && !protected(f, d.RetryAt) {
			return fmt.Errorf("%q at %v after doubt, unprotected", d.Verdict, d.RetryAt)
		}
		if shows(f, a) == AnswerApplied {
			return fmt.Errorf("%q after it was applied", d.Verdict)
		}
	}
	return nil
}

// shows is what an attempt says of the effect. Only a response says anything.
func shows(f Facts, a Attempt) Answer {
	if a.Evidence != EvidenceResponseReceived && a.Evidence != EvidencePartialResponse {
		return AnswerNone
	}
	if a.Answer != "" {
		return a.Answer
	}
	return DefaultAnswer(a.Status)
}

// doubtful reports whether an attempt leaves open what became of it.
func doubtful(f Facts, a Attempt) bool {
	if a.Settled {
		return false
	}
	switch shows(f, a) {
	case AnswerPending:
		return true
	case AnswerApplied, AnswerRefused, AnswerDeclined:
		return false
	default:
		return a.Evidence != EvidenceNotSent && f.Operation.Idempotency != IdempotencySafe
	}
}

// authoritative reports whether the last refusal speaks for the whole key.
func authoritative(f Facts) bool {
	last := f.Attempts[len(f.Attempts)-1]
	for _, a := range f.Attempts {
		if shows(f, a) == AnswerPending && !a.Settled {
			return false
		}
	}
	return f.Operation.Idempotency == IdempotencyKeyed && shows(f, last) == AnswerRefused &&
		slices.Contains(f.Operation.AuthoritativeRefusals, last.Status)
}

// protected reports whether a request at that moment cannot act a second time.
func protected(f Facts, at time.Time) bool {
	switch f.Operation.Idempotency {
	case IdempotencySafe, IdempotencyNatural:
		return true
	case IdempotencyKeyed:
		for _, a := range f.Attempts {
			if doubtful(f, a) && !at.Add(f.Operation.RetentionMargin).Before(a.StartedAt.Add(f.Operation.Retention)) {
				return false
			}
		}
		return true
	}
	return false
}
