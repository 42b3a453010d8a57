package web

import (
	"slices"
	"strings"
	"time"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// pastLine is one thing that happened to a command.
type pastLine struct {
	At     time.Time
	Who    string
	What   string
	Reason string // in the words of who did it
}

const sinceShown = 8

// sinceLines are what people and the machinery did since a form was rendered, newest
// first. Where nothing is dated after it, the newest event stands for what happened.
func sinceLines(deeds []audit.Recorded, events []commands.Event, f actionForm) []pastLine {
	var list []pastLine
	for _, d := range deeds {
		if versionBefore(d) >= f.Version && f.Version > 0 {
			list = append(list, pastLine{d.At, d.Actor, capital(strings.TrimPrefix(d.Action, "command.")), d.Reason})
		}
	}
	for _, e := range events {
		if e.At.After(f.SeenAt) && e.Type != "evidence."+string(outcome.DecidedByOperator) {
			list = append(list, eventLine(e))
		}
	}
	if len(list) == 0 && len(events) > 0 {
		list = append(list, eventLine(events[len(events)-1]))
	}
	slices.SortStableFunc(list, func(a, b pastLine) int { return b.At.Compare(a.At) })
	return list[:min(len(list), sinceShown)]
}

// eventLine is an event in plain words.
func eventLine(e commands.Event) pastLine {
	what, known := map[string]string{
		"command.accepted": "It was accepted", "attempt.started": "An attempt was started", "attempt.ended": "An attempt ended",
		"evidence.late": "Late evidence of an attempt came", "notice.received": "The upstream sent a notice", "lookup.ended": "The upstream was asked",
		"command.cancel_requested": "A cancel was asked for", "command.review": "It was left to a person", "command.conflict": "Evidence contradicted it",
		commands.EventCorrected: "Its state was corrected",
	}[e.Type]
	if !known {
		what = "It became " + strings.TrimPrefix(e.Type, "command.")
	}
	return pastLine{At: e.At, Who: e.Actor, What: what}
}
