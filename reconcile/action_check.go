package reconcile

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"executor/commands"
	"executor/outcome"
	"executor/upstreams"
)

// Bounds of what people write, in characters.
const (
	maxReason    = 2000
	maxReference = 500
	maxName      = 200
)

// checkAction trims what the person wrote and refuses what may not be stored,
// together with what else is wrong with the request.
func checkAction(a *Action, more ...upstreams.FieldError) error {
	a.Reason, a.EvidenceReference = strings.TrimSpace(a.Reason), strings.TrimSpace(a.EvidenceReference)
	var fields []upstreams.FieldError
	if a.Actor == "" {
		fields = append(fields, field("/actor", "missing", "It is not known who does it."))
	}
	if a.Reason == "" {
		fields = append(fields, field("/reason", "missing", "A reason is required: it is kept for those who ask later."))
	}
	fields = append(fields, checkPrintable("/reason", a.Reason, maxReason)...)
	fields = append(fields, checkLine("/evidence_reference", a.EvidenceReference, maxReference)...)
	return invalidIf(append(fields, more...))
}

func invalidIf(fields []upstreams.FieldError) error {
	if len(fields) == 0 {
		return nil
	}
	return &commands.Invalid{Detail: fields[0].Detail, Fields: fields}
}

func field(pointer, code, format string, args ...any) upstreams.FieldError {
	return upstreams.FieldError{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)}
}

// check trims a resolution and says what is wrong with it.
func (r *Resolution) check(a Action) []upstreams.FieldError {
	r.Reference, r.Code, r.Message = strings.TrimSpace(r.Reference), strings.TrimSpace(r.Code), strings.TrimSpace(r.Message)
	var fields []upstreams.FieldError
	if !r.State.Absorbing() {
		fields = append(fields, field("/state", "not_a_settled_state", "A command is settled as success, rejected or cancelled, not as %q.", r.State))
	}
	fields = append(fields, checkLine("/reference", r.Reference, maxReference)...)
	fields = append(fields, checkLine("/code", r.Code, maxName)...)
	return append(fields, checkPrintable("/message", r.Message, maxReason)...)
}

// checkProof: a success has something to find it by.
func (r Resolution) checkProof(a Action) []upstreams.FieldError {
	if r.State == outcome.StateSuccess && r.Reference == "" && strings.TrimSpace(a.EvidenceReference) == "" {
		return []upstreams.FieldError{field("/evidence_reference", "missing", "A success needs the upstream's reference, or a reference to your evidence.")}
	}
	return nil
}

// checkAbsent: that nothing has arrived is a finding, and a finding has evidence.
func checkAbsent(a Action, absent bool) []upstreams.FieldError {
	if absent && strings.TrimSpace(a.EvidenceReference) == "" {
		return []upstreams.FieldError{field("/evidence_reference", "missing", "Your finding that nothing has arrived needs a reference to its evidence.")}
	}
	return nil
}

// checkLine is for text of one line.
func checkLine(pointer, text string, most int) []upstreams.FieldError {
	if strings.ContainsAny(text, "\n\t") {
		return []upstreams.FieldError{field(pointer, "not_printable", "It is one line of printable characters.")}
	}
	return checkPrintable(pointer, text, most)
}

// checkPrintable is for text of any number of lines.
func checkPrintable(pointer, text string, most int) []upstreams.FieldError {
	printable := func(c rune) bool { return unicode.IsPrint(c) || c == '\n' || c == '\t' }
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !printable(c) }):
		return []upstreams.FieldError{field(pointer, "not_printable", "It is text in UTF-8 without control characters.")}
	case utf8.RuneCountInString(text) > most:
		return []upstreams.FieldError{field(pointer, "too_long", "It has %d characters; %d are allowed.", utf8.RuneCountInString(text), most)}
	default:
		return nil
	}
}
