package web

import (
	"fmt"
	"time"

	"executor/commands"
	"executor/outcome"
)

// commandRow is a command as lists show it.
type commandRow struct {
	commands.Command
	Why    string     // in words where it stands
	Next   string     // what happens next, before NextAt
	NextAt *time.Time // nil: nobody can say
}

func commandRows(list []commands.Command) []commandRow {
	rows := make([]commandRow, len(list))
	for i, c := range list {
		rows[i] = commandRow{Command: c, Why: whyOf(c)}
		rows[i].Next, rows[i].NextAt = nextOf(c)
	}
	return rows
}

// whyOf says in one sentence why a command stands where it does.
func whyOf(c commands.Command) string {
	switch {
	case c.State == outcome.StatePending && c.Waiting != nil:
		return fmt.Sprintf("Attempt %d starts %s", c.Attempts+1, waitWords[c.Waiting.For])
	case c.State == outcome.StatePending:
		return fmt.Sprintf("Attempt %d is about to start.", c.Attempts+1)
	case c.State == outcome.StateExecuting:
		return fmt.Sprintf("Attempt %d is under way.", c.Attempts)
	case c.Outcome == nil:
		return ""
	case c.State == outcome.StateSuccess:
		return successWords[c.Outcome.DecidedBy]
	case c.State == outcome.StateRejected:
		return rejectedWords[c.Outcome.DecidedBy]
	case c.State == outcome.StateUnresolved:
		return unresolvedWords[c.Outcome.Reason]
	default:
		return cancelledText(c) + stoppedText(c)
	}
}

// stoppedText adds why no more was sent, where that is something of its own.
func stoppedText(c commands.Command) string {
	words, ok := stopWords(c.Outcome.StoppedBy)
	switch {
	case !ok || c.Outcome.StoppedBy == outcome.ReasonCancelRequested:
		return ""
	case c.Attempts == 0:
		return " It was given up: " + words + "."
	}
	return " It was not tried again: " + words + "."
}

// nextOf says what happens next to a command, if anything does.
func nextOf(c commands.Command) (string, *time.Time) {
	switch {
	case c.State == outcome.StatePending:
		return "attempt", c.NextAttemptAt
	case c.State != outcome.StateUnresolved || c.Reconciliation == nil:
		return "", nil
	case c.Reconciliation.NextLookupAt != nil:
		return "lookup", c.Reconciliation.NextLookupAt
	case c.Reconciliation.Assignee != "":
		return "decision of " + c.Reconciliation.Assignee, nil
	default:
		return "decision of a person", nil
	}
}
