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
	m.Lookups.print(b)
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
