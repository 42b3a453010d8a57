package upstreams

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"executor/outcome"
)

// Widths of the columns; a line has at most 120 characters.
const (
	eventWidth  = 38
	answerWidth = 9
	thenWidth   = 26
)

// WriteTo prints the matrix as a table for people.
func (m Matrix) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	for i, o := range m.Operations {
		if i > 0 {
			b.WriteByte('\n')
		}
		o.print(&b, m.Upstream)
	}
	return b.WriteTo(w)
}

func (m OperationMatrix) print(b *bytes.Buffer, upstream string) {
	fmt.Fprintf(b, "%s\n%s\n", clip(fmt.Sprintf("%s/%s: %s %s", upstream, m.Operation, m.Method, m.Path), 117), m.contract())
	for i, rule := range m.Rules {
		fmt.Fprintf(b, "rule %d: %s\n", i+1, clip(strings.Join(strings.Fields(rule), " "), 105))
	}
	b.WriteByte('\n')
	line(b, "what happens", "answer", "then", "if it happens every time")
	for _, r := range m.Rows {
		line(b, r.Event, string(r.Answer), r.then(), r.AtTheEnd.String())
	}
	m.printOneShot(b)
	m.Lookups.print(b)
}

// printOneShot says how it ends where the body cannot be sent again, for everything
// that would be retried otherwise, end by end.
func (m OperationMatrix) printOneShot(b *bytes.Buffer) {
	var ends []string
	events := map[string][]string{}
	for _, r := range m.Rows {
		retried := r.Decision == outcome.VerdictRetry || r.Decision == outcome.VerdictWaitBudget
		if r.OneShot == nil || !retried {
			continue
		}
		end := r.OneShot.String()
		if events[end] == nil {
			ends = append(ends, end)
		}
		events[end] = append(events[end], r.Event)
	}
	if len(ends) == 0 {
		return
	}
	b.WriteString("\nwith a one-shot body nothing is retried: instead it ends\n")
	for _, end := range ends {
		wrap(b, cell(end, eventWidth), events[end])
	}
}

// wrap lists items behind a head, in lines of 120 characters at most.
func wrap(b *bytes.Buffer, head string, items []string) {
	width := utf8.RuneCountInString(head)
	text := head
	for i, item := range items {
		if i < len(items)-1 {
			item += ";"
		}
		if utf8.RuneCountInString(text)+utf8.RuneCountInString(item) > 119 {
			b.WriteString(strings.TrimRight(text, " ") + "\n")
			text = strings.Repeat(" ", width)
		}
		text += item + " "
	}
	b.WriteString(strings.TrimRight(text, " ") + "\n")
}

// contract says in words what the upstream promises.
func (m OperationMatrix) contract() string {
	var parts []string
	switch {
	case m.Key != nil:
		parts = append(parts, fmt.Sprintf("keyed, %s %s", m.Key.In, clip(m.Key.Name, 40)))
		if m.Retention == "" {
			parts = append(parts, "kept for an unknown time")
		} else {
			parts = append(parts, "kept "+m.Retention)
		}
		if m.CountsAs != m.Idempotency {
			parts = append(parts, "but counts as "+m.CountsAs)
		}
	default:
		parts = append(parts, "idempotency "+m.Idempotency)
	}
	if m.Lookup == "" {
		parts = append(parts, "no lookup")
	} else {
		parts = append(parts, "lookup "+clip(m.Lookup, 40))
	}
	return strings.Join(parts, ", ")
}

func line(b *bytes.Buffer, event, answer, then, end string) {
	if answer == "" {
		answer = "-"
	}
	b.WriteString(strings.TrimRight(cell(event, eventWidth)+cell(answer, answerWidth)+cell(then, thenWidth)+end, " ") + "\n")
}

// cell fits text into a column and leaves a gap behind it.
func cell(s string, width int) string {
	if utf8.RuneCountInString(s) > width {
		s = string([]rune(s)[:width-1]) + "…"
	}
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s)+1)
}

// then says what follows the first time.
func (r Row) then() string {
	switch r.Decision {
	case outcome.VerdictRetry, outcome.VerdictWaitBudget:
		return fmt.Sprintf("retry within %s", r.Wait)
	default:
		return fmt.Sprintf("%s: %s", r.Decision, r.Reason)
	}
}

// String says in words how it ends and who moves next.
func (e End) String() string {
	s := string(e.State)
	if e.State != outcome.StateSuccess && e.State != outcome.StateRejected {
		s += " " + string(e.Reason)
	}
	if e.Incomplete {
		s += " (incomplete)"
	}
	if e.Attempts > 1 {
		s += fmt.Sprintf(" ×%d", e.Attempts)
	}
	if e.NextAction != outcome.NextActionNone {
		s += ", " + string(e.NextAction)
	}
	return s
}
