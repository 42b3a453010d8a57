package commands

import (
	"executor/outcome"
)

// weighFinding says what follows from a finding about the command as a whole.
// sent says that an attempt of it may have acted: before that, what was done under
// its name was done by somebody else, or will be by an attempt to come.
func weighFinding(c Locked, sent bool, k Knowledge) (Effect, *Final) {
	conclusive := k.Finding == outcome.FindingApplied || k.Finding == outcome.FindingRefused
	switch {
	case c.State.Absorbing():
		if denies(c.State, k.Finding) {
			return EffectConflict, nil
		}
		return EffectNone, nil
	case c.State == outcome.StateUnresolved, c.State == outcome.StatePending && sent && k.Finding == outcome.FindingApplied:
		if final := finalFrom(c, k); final != nil {
			return EffectSettled, final
		}
		return EffectNone, nil
	case conclusive: // an attempt is or will be under way: weighed again when it leaves doubt
		return EffectKept, nil
	default:
		return EffectNone, nil
	}
}

// denies reports whether a finding contradicts a settled state.
func denies(state outcome.State, f outcome.Finding) bool {
	switch f {
	case outcome.FindingApplied, outcome.FindingPending:
		return state != outcome.StateSuccess
	case outcome.FindingRefused:
		return state == outcome.StateSuccess
	default: // a success that cannot be found (any more) was one all the same
		return false
	}
}

// finalFrom is the outcome that a finding gives; nil if it gives none.
func finalFrom(c Locked, k Knowledge) *Final {
	f := &Final{StoppedBy: c.StoppedBy, DecidedBy: k.Source, Answer: AnswerGiven{
		Status: k.Status, Reference: k.Reference, Code: k.Code, Message: k.Message,
	}}
	switch k.Finding {
	case outcome.FindingApplied:
		f.Outcome = outcome.Outcome{State: outcome.StateSuccess, Reason: outcome.OutcomeReasonApplied}
	case outcome.FindingRefused:
		f.Outcome = outcome.Outcome{State: outcome.StateRejected, Reason: outcome.OutcomeReasonRefused}
	case outcome.FindingAbsent:
		f.Outcome = outcome.Outcome{State: outcome.StateCancelled, Reason: outcome.OutcomeReasonConfirmedAbsent, SafeToResubmit: true}
	default:
		return nil
	}
	f.NextAction = outcome.NextActionNone
	if f.StoppedBy == "" { // it never had an outcome
		f.StoppedBy = k.reason()
	}
	return f
}
