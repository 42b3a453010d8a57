package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"executor/client"
)

// printCommand shows one command for people: where it stands, what is known,
// and what is safe to do.
func printCommand(w io.Writer, c client.Command) error {
	t := newTable(w)
	t.row("id", c.ID)
	t.row("state", c.State)
	t.row("known", meaning(c))
	t.row("upstream", fmt.Sprintf("%s, operation %s, profile version %d", c.Upstream, c.Operation, c.ProfileVersion))
	t.row("key", c.Key)
	t.row("created", stamp(c.CreatedAt))
	if c.BodyKind != "" && c.BodyKind != client.BodyReplayable {
		t.row("body", string(c.BodyKind))
	}
	t.row("deadline", stamp(c.Deadline))
	printProgress(t, c)
	if c.Outcome != nil {
		printOutcome(t, c.Outcome)
	}
	if c.Reconciliation != nil {
		t.row("doubt", doubtText(c))
	}
	if next := nextText(c); next != "" {
		t.row("next", next)
	}
	t.row("attempts", attemptsText(c))
	for _, name := range slices.Sorted(maps.Keys(c.Metadata)) {
		t.row("metadata", name+"="+c.Metadata[name])
	}
	return t.flush()
}

// meaning is the state in one sentence.
func meaning(c client.Command) string {
	switch {
	case c.Outcome == nil && c.State == client.StateExecuting:
		return "a request to the upstream is under way"
	case c.Outcome == nil && c.CancelRequested:
		return "nothing yet; a cancel was asked for"
	case c.Outcome == nil:
		return "nothing yet; it waits for its next attempt"
	case c.State == client.StatePending && c.Record.Boundary == "not_crossed":
		return "nothing of it arrived, as was found; it is sent once more, so do not do it by other means"
	case c.State == client.StateExecuting:
		return "a request to the upstream is under way, once more; do not do it again by other means"
	}
	return client.Match(c.Outcome,
		func(o client.Success) string {
			switch {
			case byPerson(o.Decision):
				return "the upstream did it: a person found so"
			case o.Result.Incomplete:
				return "the upstream did it; its answer was lost or cut"
			}
			return "the upstream did it, and said so"
		},
		func(o client.Rejected) string {
			if byPerson(o.Decision) {
				return "the upstream refused and did nothing: a person found so"
			}
			return "the upstream refused and did nothing; the same again would be refused again"
		},
		func(client.Unresolved) string {
			return "nobody knows yet whether the upstream did it; do not do it again by other means"
		},
		func(o client.Cancelled) string {
			if byPerson(o.Decision) {
				return "the upstream did not do it: a person found so; safe to submit again under a new key"
			}
			return "the upstream did not do it; safe to submit again under a new key"
		})
}

// byPerson tells what a person decided from what the upstream said.
func byPerson(d client.Decision) bool { return d.DecidedBy == "operator" }

// printProgress shows what a command without an answer waits for.
func printProgress(t *table, c client.Command) {
	if c.NotBefore != nil {
		t.row("not before", stamp(*c.NotBefore))
	}
	if w := c.Waiting; w != nil {
		text := w.For
		if w.Until != nil {
			text += " until " + stamp(*w.Until)
		}
		t.row("waits for", text)
	}
}

func printOutcome(t *table, o client.Outcome) {
	d := o.Common()
	t.row("why", whyText(d))
	t.row("decided", fmt.Sprintf("%s by %s", stamp(d.DecidedAt), d.DecidedBy))
	switch o := o.(type) {
	case client.Success:
		if o.Result.Reference != "" {
			t.row("reference", o.Result.Reference)
		}
		if o.Result.Status != 0 {
			t.row("answer", strings.TrimSpace(fmt.Sprintf("%d %s", o.Result.Status, shorten(string(o.Result.Body)))))
		}
	case client.Rejected:
		words := strings.Fields(statusText(o.Rejection.Status) + " " + o.Rejection.Code + " " + shorten(o.Rejection.Message))
		if len(words) > 0 { // a person may have named no reason of the upstream's
			t.row("refusal", strings.Join(words, " "))
		}
	}
}

// whyText is what is known of the remote side and, where that is something
// else, why there was no further attempt.
func whyText(d client.Decision) string {
	if d.StoppedBy == "" || d.StoppedBy == d.Reason {
		return d.Reason
	}
	text := d.Reason + "; no further attempt because of " + d.StoppedBy
	if d.WaitedFor != "" {
		text += ", reached while it waited: " + d.WaitedFor
	}
	return text
}

func attemptsText(c client.Command) string {
	text := fmt.Sprintf("%d, boundary %s", c.Record.Attempts, c.Record.Boundary)
	if c.Record.LastResponseClass != "" {
		text += ", last response " + c.Record.LastResponseClass
	}
	if t := c.Record.LastTimeout; t != nil {
		text += ", last timeout " + t.Kind
	}
	if c.Record.Attempts > 0 {
		text += ", over " + age(time.Duration(c.Record.ElapsedMS)*time.Millisecond)
	}
	return text
}

// printAttempts shows the account: what was seen of each attempt and what was
// made of it.
func printAttempts(w io.Writer, attempts []client.Attempt) error {
	t := newTable(w, "ATTEMPT", "STARTED", "TOOK", "EVIDENCE", "STATUS", "ANSWER", "BOUNDARY", "FAILURE", "THEN")
	for _, a := range attempts {
		t.row(a.Number, stamp(a.StartedAt), took(a), orOpen(a.Evidence), statusText(a.Status), a.Answer, a.Boundary, failureText(a.Category), thenText(a))
	}
	return t.flush()
}

func took(a client.Attempt) string {
	if a.EndedAt == nil {
		return ""
	}
	return age(a.EndedAt.Sub(a.StartedAt))
}

func orOpen(evidence string) string {
	if evidence == "" {
		return "under way"
	}
	return evidence
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return fmt.Sprint(status)
}

// failureText leaves out the category of what did not fail.
func failureText(category string) string {
	if category == "none" {
		return ""
	}
	return category
}

// thenText is the decision after an attempt, with the rule that made it.
func thenText(a client.Attempt) string {
	if a.Decision == "" {
		return ""
	}
	text := a.Decision
	if a.Reason != "" {
		text += " (" + a.Reason + ")"
	}
	if a.Rule > 0 {
		text += fmt.Sprintf(" by rule %d", a.Rule)
	}
	if a.WaitMS > 0 {
		text += " after " + age(time.Duration(a.WaitMS)*time.Millisecond)
	}
	return text
}

// longestText is how much of a foreign text a table shows.
const longestText = 120

func shorten(s string) string {
	r := []rune(strings.TrimSpace(s))
	if len(r) <= longestText {
		return string(r)
	}
	return string(r[:longestText-1]) + "…"
}
