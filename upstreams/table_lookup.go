package upstreams

import (
	"bytes"
	"fmt"
	"strings"
)

// tableWidth is the length of a line, in characters.
const tableWidth = 117

// print adds how an unresolved outcome is followed up.
func (m *LookupMatrix) print(b *bytes.Buffer) {
	if m == nil {
		return
	}
	for i, q := range m.Questions {
		fmt.Fprintf(b, "\nlookup %d: %s\n", i+1, clip(q.Ask, tableWidth-14))
		q.print(b, i+1)
	}
	b.WriteByte('\n')
	text(b, "rounds", m.Schedule())
	text(b, "used up", fmt.Sprintf("after %s: %s", m.After, m.UsedUp))
	text(b, "absence", m.Absence.String())
	text(b, "found, then absent", m.Vanished.String())
	if m.ReportOnly {
		text(b, "report_only", "findings are recorded and change nothing")
	}
}

func (q QuestionMatrix) print(b *bytes.Buffer, number int) {
	if q.Ask == "replay" {
		b.WriteString("sends the command again under its key, as an attempt; the rules above read its answer\n")
		return
	}
	if len(q.Needs) > 0 {
		fmt.Fprintf(b, "asked only where {%s} is known\n", strings.Join(q.Needs, "} and {"))
	}
	for i, rule := range q.Rules {
		fmt.Fprintf(b, "rule %d: %s\n", i+1, clip(strings.Join(strings.Fields(rule), " "), 105))
	}
	for _, e := range q.Compare {
		fmt.Fprintf(b, "compare: %s\n", clip(strings.Join(strings.Fields(e), " "), 105))
	}
	b.WriteByte('\n')
	line(b, fmt.Sprintf("answer to lookup %d", number), "finding", "then", "")
	for _, r := range q.Rows {
		b.WriteString(strings.TrimRight(cell(r.Event, eventWidth)+cell(string(r.Finding), answerWidth)+r.End.String(), " ") + "\n")
	}
}

// String says in words where the command stands.
func (e FindingEnd) String() string {
	if e.Then == string(e.State) || strings.HasPrefix(e.Then, string(e.State)+" ") {
		return e.Then
	}
	s := string(e.State)
	if e.NextAction != "none" {
		s += ", " + string(e.NextAction)
	}
	return s + ": " + e.Then
}

// Schedule says in words when the rounds are made.
func (m *LookupMatrix) Schedule() string {
	s := "at " + strings.Join(m.Rounds, ", ")
	if m.Every != "" {
		s += fmt.Sprintf(", … at most %s apart, about %d in all", m.Every, m.Total)
	}
	return s + ", counted from when it became unresolved"
}

// String says in words when an absence is one.
func (a AbsenceMatrix) String() string {
	if a.SettlesAfter == "" {
		return "never proves anything: no lookup has settles_after"
	}
	s := fmt.Sprintf("counts from %s after the last attempt could be under way, %s at the latest; ", a.SettlesAfter, a.CountsFrom)
	switch {
	case a.Confirmations == 1:
		s += "once is enough, "
	default:
		s += fmt.Sprintf("%d in a row, %s apart, ", a.Confirmations, a.Spacing)
	}
	if a.Confirmed == "" {
		return s + "for which the rounds do not last"
	}
	return s + fmt.Sprintf("so after %s at the latest: %s", a.Confirmed, a.End)
}

// text writes words behind a name, over as many lines as they need.
func text(b *bytes.Buffer, name, words string) {
	used := 0
	for i, word := range strings.Fields(name + ": " + words) {
		switch length := len([]rune(word)); {
		case i == 0:
			used = length
		case used+1+length > tableWidth:
			b.WriteString("\n    ")
			used = 4 + length
		default:
			b.WriteByte(' ')
			used += 1 + length
		}
		b.WriteString(word)
	}
	b.WriteByte('\n')
}
