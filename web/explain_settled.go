package web

import (
	"fmt"
	"strings"

	"executor/commands"
	"executor/outcome"
)

// explainSettled: success, rejected or cancelled.
func (a account) explainSettled() Explanation {
	c := a.command
	if c.Outcome == nil { // cannot be: a settled state has its outcome
		return Explanation{Known: "It is " + string(c.State) + ".", Unknown: "Why: its outcome is not on record.", Next: "Nothing.", Safe: "Nothing that this page could tell."}
	}
	e := Explanation{Next: "Nothing: this is final. Only a person's correction would change it."}
	switch c.State {
	case outcome.StateSuccess:
		a.explainSuccess(&e)
	case outcome.StateRejected:
		a.explainRejected(&e)
	default:
		a.explainCancelled(&e)
	}
	if c.Outcome.DecidedBy == outcome.DecidedByOperator {
		e.Unknown += " It rests on that person's word: the audit below has the reason and the evidence."
	}
	return e
}

func (a account) explainSuccess(e *Explanation) {
	o := a.command.Outcome
	e.Known = successWords[o.DecidedBy]
	e.Unknown = "Nothing about whether it was done."
	e.Safe = "Do not submit it again under a new key: that would do it a second time."
	if o.Result == nil {
		return
	}
	switch {
	case o.Result.Status > 0 && o.Result.Reference != "":
		e.Known += fmt.Sprintf(" It answered %d; the reference there is %s.", o.Result.Status, o.Result.Reference)
	case o.Result.Status > 0:
		e.Known += fmt.Sprintf(" It answered %d.", o.Result.Status)
	case o.Result.Reference != "":
		e.Known += fmt.Sprintf(" The reference is %s.", o.Result.Reference)
	}
	if o.Result.Incomplete {
		e.Unknown = "What the rest of the answer said: its body is not whole. That it was done is certain."
	}
}

func (a account) explainRejected(e *Explanation) {
	o := a.command.Outcome
	e.Known = rejectedWords[o.DecidedBy]
	e.Unknown = "Nothing: it was not done."
	e.Safe = "An identical command would be refused again. Mend what the upstream objects to, and submit that under a new key."
	if a.command.Record.MayHaveCrossed && o.DecidedBy == outcome.DecidedByAttempt {
		e.Known += " By the profile this refusal speaks for the earlier attempts under the same key too."
	}
	if o.Rejection == nil {
		return
	}
	if o.Rejection.Status > 0 {
		e.Known += fmt.Sprintf(" It answered %d.", o.Rejection.Status)
	}
	e.Quote = strings.TrimSpace(o.Rejection.Code + " " + o.Rejection.Message)
}

func (a account) explainCancelled(e *Explanation) {
	o := a.command.Outcome
	e.Known = cancelledText(a.command)
	if o.Reason == outcome.OutcomeReasonNoEffect && a.kind == outcome.IdempotencySafe {
		e.Known = "The operation only reads: nothing was changed, and no usable answer was had."
	}
	if words, ok := stopWords(o.StoppedBy); ok && o.Reason != outcome.OutcomeReasonCancelledByCaller && o.Reason != outcome.OutcomeReasonConfirmedAbsent {
		e.Known += " It was given up because " + words + "."
	}
	if noun := waitNoun(o.WaitedFor); noun != "" {
		e.Known += " Until then it waited for " + noun + "."
	}
	e.Unknown = "Nothing: it was not done."
	e.Safe = "It is safe to submit it again as a new command, under a NEW key. The same key only gives this command."
	if !o.SafeToResubmit {
		e.Safe = "Do not submit it again before somebody has looked: the record does not say that it is safe."
	}
}

// cancelledText says why it is known of a cancelled command that nothing was done.
func cancelledText(c commands.Command) string {
	o := c.Outcome
	switch {
	case o.Reason == outcome.OutcomeReasonNeverSent && c.Attempts == 0:
		return "Nothing was ever sent: no attempt was made."
	case o.Reason == outcome.OutcomeReasonConfirmedAbsent && o.DecidedBy == outcome.DecidedByOperator:
		return "A person found, on evidence, that nothing of it ever arrived at the upstream."
	}
	return cancelledWords[o.Reason]
}

// explainConflict: evidence contradicts the settled state.
func (a account) explainConflict(e *Explanation) {
	state := a.command.State
	var said []string
	for _, l := range a.learnt {
		if l.Open() {
			said = append(said, contradiction(l))
		}
	}
	what := "Evidence says otherwise."
	if len(said) > 0 {
		what = "But " + strings.Join(said, "; and ") + "."
	}
	e.Known = fmt.Sprintf("The command stands as %s. %s", state, what)
	e.Unknown = fmt.Sprintf("Which of the two is right: %s, or what contradicts it.", state)
	e.Next = "Nothing by itself: a person corrects the state, or dismisses what contradicts it."
	e.NextAt = nil
	e.Safe = "Do not submit it again under a new key before the conflict is settled."
	e.Tone = "bad"
}

// contradiction says what one piece of evidence holds against the state.
func contradiction(l commands.Learnt) string {
	source := sourceWords[l.Source]
	if source == "" {
		source = string(l.Source)
	}
	claim := fmt.Sprintf("%s says that it was %s", source, findingClaims[l.Finding])
	if l.Finding == "" {
		claim = fmt.Sprintf("%s of attempt %d says that it was %s", source, l.Attempt, answerClaims[l.Answer])
	}
	if l.Status > 0 {
		claim += fmt.Sprintf(" (%d)", l.Status)
	}
	return claim + ", on " + stamp(l.At)
}
