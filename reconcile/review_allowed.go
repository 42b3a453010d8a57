package reconcile

import (
	"fmt"

	"executor/commands"
	"executor/outcome"
)

// mayResolve: a person says what became of it.
func (st standing) mayResolve() *Refused {
	if st.command.State != outcome.StateUnresolved {
		return &Refused{Code: RefusedNotUnresolved, Detail: fmt.Sprintf("The command is %s: only an unresolved one can be resolved. What is settled can be corrected.", st.command.State)}
	}
	return nil
}

// mayLookUp: the upstream is asked once more, now.
func (st standing) mayLookUp() *Refused {
	switch {
	case st.command.State != outcome.StateUnresolved:
		return &Refused{Code: RefusedNotUnresolved, Detail: fmt.Sprintf("The command is %s: only about an unresolved one the upstream is asked.", st.command.State)}
	case st.operation == nil || len(st.operation.Lookups) == 0:
		return &Refused{Code: RefusedNoLookup, Detail: "The operation has no lookup in the version of the profile that the command pinned: a person has to ask the upstream."}
	case st.lookupUnderWay():
		return lookupInProgress()
	default:
		return nil
	}
}

// mayResend: it is sent once more. absent is the person's finding that nothing of
// it has arrived.
func (st standing) mayResend(absent bool) *Refused {
	switch {
	case st.command.State != outcome.StateUnresolved:
		return &Refused{Code: RefusedNotUnresolved, Detail: fmt.Sprintf("The command is %s: only an unresolved one can be sent once more.", st.command.State)}
	case st.command.CancelRequestedAt != nil:
		return &Refused{Code: RefusedCancelRequested, Detail: "The caller has asked to cancel the command: it is not sent again."}
	case st.lookupUnderWay():
		return lookupInProgress()
	}
	d := commands.WouldResend(st.terms, st.command, st.past, absent || st.absent)
	if d.Verdict == outcome.VerdictRetry {
		return nil
	}
	return &Refused{Code: RefusedResendNotSafe, Detail: st.whyNotSafe(d)}
}

// whyNotSafe names the rule that forbids a resend, and what would allow it.
func (st standing) whyNotSafe(d outcome.Decision) string {
	said := fmt.Sprintf("One more attempt is not allowed (rule %d, %s): ", d.Rule, d.Reason)
	switch {
	case d.Reason == outcome.ReasonApplied:
		return said + "an attempt was answered with success. Resolve the command as success."
	case d.Reason == outcome.ReasonAmbiguous && st.terms.Contract.Idempotency == outcome.IdempotencyKeyed:
		return said + "an earlier attempt may have acted, and the upstream may no longer know its key. " + whatHelps
	case d.Reason == outcome.ReasonAmbiguous:
		return said + "an earlier attempt may have acted, and the operation is not safely idempotent. " + whatHelps
	case d.Reason == outcome.ReasonDeadline:
		return said + "the profile's deadline leaves no room for an attempt."
	default:
		return said + "the profile does not permit it."
	}
}

const whatHelps = "It is safe once nothing of it has arrived for certain: " +
	"by an absence that lookups confirmed, or by your own finding (absent) with a reference to its evidence."

// lookupUnderWay reports whether somebody is asking the upstream at this moment.
func (st standing) lookupUnderWay() bool {
	return st.doubt.ClaimedUntil != nil && st.doubt.ClaimedUntil.After(st.command.Now)
}

func lookupInProgress() *Refused {
	return &Refused{Code: RefusedLookupInProgress, Detail: "The upstream is being asked about the command at this moment: wait for what it says."}
}

// mayAssign: somebody takes it on.
func (st standing) mayAssign() *Refused {
	if st.command.State != outcome.StateUnresolved && len(st.doubt.Conflicts) == 0 {
		return &Refused{Code: RefusedNothingToReview, Detail: fmt.Sprintf("The command is %s and has no open conflict: there is nothing to take on.", st.command.State)}
	}
	return nil
}

// mayCorrect: a person changes a settled state, or keeps it against evidence.
func (st standing) mayCorrect(to outcome.State) *Refused {
	switch {
	case !st.command.State.Absorbing():
		return &Refused{Code: RefusedNotSettled, Detail: fmt.Sprintf("The command is %s: only a settled one can be corrected.", st.command.State)}
	case st.command.State == to && len(st.doubt.Conflicts) == 0:
		return &Refused{Code: RefusedNoConflict, Detail: fmt.Sprintf("The command is %s and has no open conflict: there is nothing to correct or to dismiss.", to)}
	default:
		return nil
	}
}

// mayCancel: nothing more is sent.
func (st standing) mayCancel() *Refused {
	switch {
	case st.command.State.Absorbing():
		return &Refused{Code: string(commands.CancelTooLate), Detail: fmt.Sprintf("The command is %s already: nothing more is sent anyway.", st.command.State)}
	case st.command.CancelRequestedAt != nil:
		return &Refused{Code: RefusedCancelRequested, Detail: "A cancel was asked for already."}
	default:
		return nil
	}
}

// options are all actions on a command, each with what would refuse it now.
func (st standing) options() []Option {
	return []Option{
		{ActionResolve, st.mayResolve()},
		{ActionLookup, st.mayLookUp()},
		{ActionResend, st.mayResend(false)},
		{ActionResendAbsent, st.mayResend(true)},
		{ActionAssign, st.mayAssign()},
		{ActionCorrect, st.mayCorrect("")},
		{ActionDismiss, st.mayCorrect(st.command.State)},
		{ActionNote, nil},
		{ActionCancel, st.mayCancel()},
	}
}

// allowed lists the actions of the queue that would be accepted now.
func (st standing) allowed() []string {
	var list []string
	for _, o := range st.options() {
		if o.Refused == nil && o.Action != ActionCancel {
			list = append(list, o.Action)
		}
	}
	return list
}
