package web

import (
	"fmt"
	"time"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// account is all that is on record of one command and that its page explains.
type account struct {
	command  commands.Command
	kind     outcome.Idempotency // of its operation
	attempts []commands.Excerpt  // the newest, oldest first
	lookups  []reconcile.Excerpt
	learnt   []commands.Learnt
	handed   string // why a person has the doubt; "" if none does
}

// Explanation says in plain words where a command stands. It claims nothing that
// the record does not hold.
type Explanation struct {
	Known   string
	Quote   string // the upstream's own words, where Known speaks of them
	Unknown string
	Next    string
	NextAt  *time.Time // when, where it is known
	Safe    string
	Tone    string // of what it comes to: good, bad, doubt, busy or calm
}

// explain is a pure function of the record.
func explain(a account) Explanation {
	c := a.command
	var e Explanation
	switch c.State {
	case outcome.StatePending:
		e = a.explainPending()
	case outcome.StateExecuting:
		e = a.explainExecuting()
	case outcome.StateUnresolved:
		e = a.explainUnresolved()
	default:
		e = a.explainSettled()
	}
	e.Tone = tone(c.State)
	if c.Reconciliation != nil && c.Reconciliation.Conflicts > 0 {
		a.explainConflict(&e)
	}
	return e
}

// explainPending: nothing is on the wire.
func (a account) explainPending() Explanation {
	c := a.command
	e := Explanation{Known: a.soFar(), Unknown: a.openSoFar()}
	e.Next, e.NextAt = a.waitsFor()
	e.Next += " " + a.atDeadline()
	e.Safe = "Let it run, or cancel it. Do not submit it again under a new key: this one may still be sent."
	if c.Record.Boundary != outcome.BoundaryNotCrossed {
		e.Safe += " A cancel now ends it as unresolved, because an attempt may have acted."
	}
	return e
}

// soFar is what the attempts of a running command come to.
func (a account) soFar() string {
	c := a.command
	switch {
	case c.Attempts == 0:
		return "It was accepted, and nothing has been sent yet."
	case c.Outcome != nil && c.Record.Boundary == outcome.BoundaryNotCrossed:
		return "It is known by now that nothing of it arrived, and one more attempt is allowed."
	case c.Outcome != nil:
		return "It was reported as " + string(c.Outcome.State) + ", and one more attempt is allowed. " + a.doubt()
	case c.Record.Boundary == outcome.BoundaryNotCrossed && a.kind == outcome.IdempotencySafe:
		return fmt.Sprintf("%s made. The operation only reads: none of them changed anything.", was(c.Attempts))
	case c.Record.Boundary == outcome.BoundaryNotCrossed:
		return fmt.Sprintf("%s made, and none of them did anything at the upstream.", was(c.Attempts))
	default:
		return a.doubt()
	}
}

// openSoFar is what is not known of a command that waits.
func (a account) openSoFar() string {
	switch {
	case a.command.Record.Boundary == outcome.BoundaryNotCrossed:
		return "Nothing about the past; only how the next attempt will end."
	case a.kind == outcome.IdempotencyKeyed:
		return "Whether the upstream has done it. Another attempt carries the same key, which the upstream's contract makes one and the same act."
	case a.kind == outcome.IdempotencyNatural, a.kind == outcome.IdempotencySafe:
		return "Whether the upstream has done it. Repeating it leaves the same state, so another attempt does no harm."
	default:
		return "Whether the upstream has done it."
	}
}

// waitsFor says what has to happen before the next attempt, and until when.
func (a account) waitsFor() (string, *time.Time) {
	c := a.command
	attempt := fmt.Sprintf("Attempt %d starts", c.Attempts+1)
	if c.Waiting == nil {
		return attempt + " once the newest profile of the upstream can be read: as it stands it cannot.", nil
	}
	words, ok := waitWords[c.Waiting.For]
	if !ok {
		words = "when what it waits for is over: " + string(c.Waiting.For) + "."
	}
	return attempt + " " + words, c.Waiting.Until
}

// atDeadline says how it ends if nothing else happens before.
func (a account) atDeadline() string {
	if a.command.Record.Boundary != outcome.BoundaryNotCrossed {
		return "If its deadline comes first, it ends as unresolved."
	}
	if n := len(a.attempts); n > 0 && a.attempts[n-1].Answer == outcome.AnswerRefused {
		return "If its deadline comes first, it ends with the refusal."
	}
	return "If its deadline comes first, it ends as cancelled."
}

// explainExecuting: an attempt is open.
func (a account) explainExecuting() Explanation {
	c := a.command
	e := Explanation{
		Known:   "An attempt is on the wire.",
		Unknown: "How it will end. Until its answer is in, the upstream may or may not have acted on it.",
		Next:    "The attempt ends with its answer or by its timeouts; then the rules decide by what was seen. It is over for certain at:",
		Safe:    "Wait. Do not submit it again under a new key: that could do it twice. A cancel does not cut the attempt off; it keeps another one from following.",
	}
	if n := len(a.attempts); n > 0 && a.attempts[n-1].EndedAt == nil {
		open := a.attempts[n-1]
		e.Known = fmt.Sprintf("Attempt %d is on the wire since %s.", open.Number, stamp(open.StartedAt))
		e.NextAt = &open.LatestEnd
	}
	if earlier := a.lastDoubtful(); earlier != nil {
		e.Known += " " + doubtAbout(*earlier)
	}
	if c.CancelRequested {
		e.Next = "The caller has asked to cancel: this attempt's evidence decides, and no other follows. It is over for certain at:"
		e.Safe = "Wait. Do not submit it again under a new key: that could do it twice."
	}
	return e
}

// explainUnresolved: final for the caller, and open for us.
func (a account) explainUnresolved() Explanation {
	e := Explanation{
		Known:   a.doubt(),
		Unknown: "Whether the upstream has done it.",
		Safe:    "Do not submit it again under a new key: it may have been done already, and would be done twice. Settle it here first.",
	}
	if a.command.Outcome != nil && a.command.Outcome.Reason == outcome.OutcomeReasonRemotePending {
		e.Unknown = "How it ends there: whether the upstream finishes it or gives it up."
	}
	e.Next, e.NextAt = a.followUp()
	return e
}

// followUp says who finds out, and when.
func (a account) followUp() (string, *time.Time) {
	r := a.command.Reconciliation
	switch {
	case r == nil:
		return "A person has to find out and say what became of it.", nil
	case r.Phase == string(outcome.NextActionLookup) && r.NextLookupAt != nil:
		return fmt.Sprintf("The upstream is asked what became of it (%s so far), without sending it again. The next time:", plural(r.Lookups, "lookup", "lookups")), r.NextLookupAt
	case r.Phase == string(outcome.NextActionLookup):
		return "The upstream is being asked what became of it, without sending it again.", nil
	}
	text := "A person decides"
	if words, ok := handedWords[a.handed]; ok {
		text += ", because " + words
	}
	text += ". "
	if r.Assignee == "" {
		text += "Nobody has taken it on yet."
	} else {
		text += r.Assignee + " has taken it on."
	}
	if r.NextLookupAt != nil {
		return text + " Before that the upstream is asked once more:", r.NextLookupAt
	}
	return text, nil
}

// was is a number of attempts as the subject of "made".
func was(n int) string {
	if n == 1 {
		return "1 attempt was"
	}
	return number(n) + " attempts were"
}

// stamp is a moment in a sentence.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
