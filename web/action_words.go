package web

import (
	"fmt"
	"slices"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// settledHints say beside each state what choosing it tells the caller.
var settledHints = map[outcome.State]string{
	outcome.StateSuccess:   "The upstream did it. The caller is told success, with the reference.",
	outcome.StateRejected:  "The upstream refused it, and nothing was done. The caller is told that the same again would be refused.",
	outcome.StateCancelled: "Nothing of it arrived. The caller is told that it may be submitted again under a new key: if it did arrive after all, it is then done twice.",
}

// StateHint says what choosing a state tells the caller.
func (p actionPage) StateHint(state outcome.State) string {
	if p.Dismisses(state) {
		return "Keep it as it is: the evidence against it is wrong. The caller is told nothing."
	}
	return settledHints[state]
}

// declared is what a person says by a state.
var declared = map[outcome.State]string{
	outcome.StateSuccess:   "was done",
	outcome.StateRejected:  "was refused and did nothing",
	outcome.StateCancelled: "never arrived",
}

const (
	keptForever = "It is recorded under your name, with your reason, for good."
	nobodyTold  = "The caller is told nothing, and nothing is sent to the upstream."
)

// consequences say what will happen, what will not, and what cannot be undone: of
// exactly this command as it is now.
func (p *actionPage) consequences() []string {
	switch p.Kind.Name {
	case reconcile.ActionResolve:
		return p.resolveConsequences()
	case reconcile.ActionCorrect:
		return p.correctConsequences()
	case reconcile.ActionLookup:
		return p.lookupConsequences()
	case reconcile.ActionResend:
		return p.resendConsequences()
	case reconcile.ActionCancel:
		return p.cancelConsequences()
	case reconcile.ActionAssign:
		return []string{"The queue and this command show the name.", nobodyTold, "Anybody can assign it to somebody else later.", keptForever}
	default:
		return []string{"The note stands on this command's page and in the audit.", nobodyTold, "A note cannot be changed or removed.", keptForever}
	}
}

func (p *actionPage) resolveConsequences() []string {
	list := []string{"The caller, who was told unresolved, is told what you say as the final answer."}
	if p.Confirm {
		list = append(list, p.webhook(commands.EventType(p.Form.State)))
	} else {
		list = append(list, "A webhook with the new state and previous_state: unresolved goes to every endpoint that takes it.")
	}
	return append(list,
		"Nothing is sent to the upstream, and it is not asked about this command any more.",
		"It cannot be undone, only corrected; a correction is told to the caller as well.", keptForever)
}

func (p *actionPage) correctConsequences() []string {
	if p.Confirm && p.Dismisses(p.Form.State) {
		return []string{
			fmt.Sprintf("The command stays %s, and the evidence against it counts as dealt with.", p.Command.State), nobodyTold,
			"It cannot be undone, but the state can still be corrected later.", keptForever,
		}
	}
	return []string{
		fmt.Sprintf("The caller was told %s. Whoever acted on that has acted: only tell them otherwise on evidence.", p.Command.State),
		p.webhook(commands.EventCorrected), "Nothing is sent to the upstream.",
		"All evidence that contradicts the state counts as dealt with.", "It cannot be undone, only corrected once more.", keptForever,
	}
}

func (p *actionPage) lookupConsequences() []string {
	list := []string{
		"The upstream is asked what became of it, with the lookup of the profile: that only reads. The command is not sent again.",
		"If the answer is clear, it settles the command at once, and the caller is told as always, by webhook too. Any other answer, an error or a timeout changes nothing.",
	}
	if r := p.Command.Reconciliation; r != nil && r.Phase == string(outcome.NextActionLookup) {
		list = append(list, "The planned lookups go on from there.")
	} else {
		list = append(list, "It is one round of questions: if they bring nothing, the command stays with people.")
	}
	return append(list, "A question that was asked cannot be taken back.", keptForever)
}

func (p *actionPage) resendConsequences() []string {
	list := []string{fmt.Sprintf("The upstream gets it once more, under the same key and byte for byte the same: one attempt, within %s from now.", duration(p.Options.Deadline))}
	switch {
	case p.Form.Absent || p.AbsentNeeded():
		list = append(list, "By your finding everything sent so far counts as never arrived. If the finding is wrong, it is done twice: the upstream does not recognise the repeat.")
	case p.Options.Absent:
		list = append(list, "It is safe because lookups have confirmed that nothing of it arrived.")
	case p.Options.Idempotency == outcome.IdempotencyKeyed:
		list = append(list, "It is safe because the upstream still remembers the key: the repeat is the same act.")
	default:
		list = append(list, "It is safe because repeating the operation leaves the same state.")
	}
	return append(list,
		"Until the attempt ends, the command is pending again. Then the caller is told the outcome, by webhook too.",
		"What was sent cannot be called back.", keptForever)
}

func (p *actionPage) cancelConsequences() []string {
	c := p.Command
	var list []string
	switch {
	case c.State == outcome.StateUnresolved:
		list = []string{
			"It only forbids that the command is sent again, by anybody. It stays unresolved: what may have happened is not undone.",
			"The upstream may still be asked about it, and you can still resolve it. The caller is told nothing new.",
		}
	case c.State == outcome.StateExecuting:
		list = []string{
			"The attempt on the wire is not cut off: its evidence decides how the command ends. No other attempt follows.",
			"Then the caller is told the outcome, by webhook too.",
		}
	case c.Record.Boundary != outcome.BoundaryNotCrossed:
		list = []string{"An attempt may have acted already: the command ends now as unresolved, and no further attempt is made.", p.webhook(commands.EventType(outcome.StateUnresolved))}
	default:
		list = []string{
			"Nothing of it has done anything at the upstream: the command ends now, as a rule as cancelled. The caller may submit it again under a new key.",
			p.webhook(commands.EventType(outcome.StateCancelled)),
		}
	}
	return append(list, "A cancel cannot be taken back.", keptForever)
}

// webhook says who is sent an event about the command.
func (p *actionPage) webhook(event string) string {
	n := 0
	for _, e := range p.Hooks {
		wanted := len(e.Events) == 0 || slices.Contains(e.Events, event)
		from := len(e.Upstreams) == 0 || slices.Contains(e.Upstreams, p.Command.Upstream)
		if wanted && from {
			n++
		}
	}
	if n == 0 {
		return "No webhook takes " + event + " of this upstream: only who asks for the command learns of it."
	}
	return "The webhook event " + event + " goes to " + plural(n, "endpoint", "endpoints") + "."
}

// sentence is what the person is about to do.
func (p *actionPage) sentence() string {
	what := fmt.Sprintf("%s %s with the key %s", p.Command.Upstream, p.Command.Operation, p.Command.Key)
	r := p.wish().Resolution
	switch p.Kind.Name {
	case reconcile.ActionResolve, reconcile.ActionCorrect:
		if p.Dismisses(r.State) {
			return fmt.Sprintf("You are about to declare that %s stays %s, against the evidence that contradicts it.", what, r.State)
		}
		said := fmt.Sprintf("You are about to declare that %s %s", what, declared[r.State])
		switch {
		case r.Reference != "":
			said += ", reference " + r.Reference
		case r.Code != "":
			said += ", code " + r.Code
		}
		return said + fmt.Sprintf(". The caller is told %s. This is recorded under your name.", r.State)
	case reconcile.ActionLookup:
		return fmt.Sprintf("You are about to ask the upstream what became of %s. This is recorded under your name.", what)
	case reconcile.ActionResend:
		if p.Form.Absent {
			return fmt.Sprintf("You are about to declare that nothing of %s has arrived, and to send it once more. This is recorded under your name.", what)
		}
		return fmt.Sprintf("You are about to send %s once more, under the same key. This is recorded under your name.", what)
	default:
		return fmt.Sprintf("You are about to cancel %s. This is recorded under your name.", what)
	}
}

// done is what the next page says.
func (p *actionPage) done() string {
	w := p.wish()
	switch p.Kind.Name {
	case reconcile.ActionResolve:
		return fmt.Sprintf("Resolved as %s. The caller is told.", w.Resolution.State)
	case reconcile.ActionCorrect:
		if p.Dismisses(w.Resolution.State) {
			return fmt.Sprintf("It stays %s, and the conflict is dealt with.", w.Resolution.State)
		}
		return fmt.Sprintf("Corrected to %s. The caller is told.", w.Resolution.State)
	case reconcile.ActionLookup:
		return "The upstream is asked now. This page shows what it says."
	case reconcile.ActionResend:
		return "It is sent once more. This page shows how that ends."
	case reconcile.ActionAssign:
		if w.Assignee == "" {
			return "Nobody looks after it any more."
		}
		return w.Assignee + " looks after it now."
	case reconcile.ActionNote:
		return "The note is on record."
	default:
		return "The cancel is on record. This page shows what it came to."
	}
}
