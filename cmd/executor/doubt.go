package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"executor/client"
)

// doubtText is where the following up of a doubt stands.
func doubtText(c client.Command) string {
	r := reconciliation(c)
	text := map[string]string{"lookup": "the upstream is being asked", "review": "waits for a person", "closed": "settled"}[r.Phase]
	switch {
	case c.State == client.StatePending || c.State == client.StateExecuting:
		text = "it is sent once more"
	case text == "":
		text = r.Phase
	}
	if text += "; " + plural(r.Lookups, "lookup"); r.Phase == "lookup" && r.Lookups == 0 {
		text += " yet"
	}
	switch {
	case r.AbsentInARow == 1:
		text += ", the last one found nothing of it"
	case r.AbsentInARow > 1:
		text += fmt.Sprintf(", the last %d found nothing of it", r.AbsentInARow)
	}
	if r.Conflicts > 0 {
		text += "; contradicted by evidence, which a person has to look at: \"executor reviews\""
	}
	if r.Assignee != "" {
		text += "; looked after by " + r.Assignee
	}
	return text
}

// nextText says what happens next to an unresolved command, and whether somebody
// has to do something.
func nextText(c client.Command) string {
	if c.State != client.StateUnresolved || c.Outcome == nil {
		return ""
	}
	r := reconciliation(c)
	switch next := c.Outcome.Common().NextAction; {
	case r.Phase == "lookup" && r.NextLookupAt != nil:
		return "the upstream is asked again at " + stamp(*r.NextLookupAt) + "; nothing to do meanwhile"
	case r.Phase == "lookup", next == "lookup":
		return "the upstream is asked what became of it; nothing to do meanwhile"
	case r.Phase == "review", next == "review":
		return `a person has to decide: "executor reviews" shows what can be done`
	default:
		return next
	}
}

// eventText shows an event's data: lookups and evidence in words, others as they are.
func eventText(e client.Event) string {
	var d struct {
		Round     int    `json:"round"`
		Question  int    `json:"question"`
		Attempt   int    `json:"attempt"`
		Finding   string `json:"finding"`
		Answer    string `json:"answer"`
		Evidence  string `json:"evidence"`
		Counts    bool   `json:"counts"`
		Status    int    `json:"status"`
		Category  string `json:"category"`
		Detail    string `json:"detail"`
		Reference string `json:"reference"`
		Code      string `json:"code"`
		Message   string `json:"message"`
		Effect    string `json:"effect"`
		Reason    string `json:"reason"`
		State     string `json:"state"`
		Source    string `json:"source"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return string(e.Data)
	}
	switch {
	case e.Type == "lookup.ended":
		text := fmt.Sprintf("round %d, question %d: %s", d.Round, d.Question, d.Finding)
		if d.Counts {
			text += ", which counts"
		}
		return joined(text, tryText(d.Status, d.Category, d.Detail))
	case e.Type == "evidence.late":
		return joined(fmt.Sprintf("of attempt %d: %s", d.Attempt, d.Evidence), d.Answer, statusText(d.Status), effectText(d.Effect))
	case strings.HasPrefix(e.Type, "evidence."):
		return joined(d.Finding, d.Reference, d.Code, d.Message, statusText(d.Status), effectText(d.Effect))
	case e.Type == "command.review":
		return "waits for a person: " + d.Reason
	case e.Type == "command.conflict":
		return fmt.Sprintf("it is %s, but %s says %s", d.State, d.Source, d.Finding+d.Answer)
	default:
		return string(e.Data)
	}
}

// effectText is what evidence did to the command.
func effectText(effect string) string {
	switch effect {
	case "settled":
		return "it settled the command"
	case "kept":
		return "it is kept until the command can be settled"
	case "conflict":
		return "it contradicts the outcome"
	default:
		return ""
	}
}

// joined puts commas between what there is.
func joined(parts ...string) string {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(list, ", ")
}
