package upstreams

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"executor/outcome"
)

// Found is what the answer to a lookup, or a notice, says. Nothing that the
// profile redacts is in it.
type Found struct {
	Finding   outcome.Finding
	Reference string   // the upstream's name for what was found; "" = not known
	Code      string   // of a refusal, for instance
	Message   string   // for people
	Rule      string   // which rule matched; "" = none
	Notes     []string // why it is unknown, and what went wrong while reading
}

// Find says what the answer to a lookup means: by the first rule that matches
// and, for what was found, if every compare holds. Everything else is unknown:
// an answer that no rule matches, a rule that cannot be evaluated, one that
// needs a body which is not there whole, an absence out of a cache, and whatever an upstream says that is
// in trouble or does not let us see.
func (o *Operation) Find(l Lookup, q Question, r Response) Found {
	shown := r
	shown.Body, shown.Headers = o.RedactBody(r.Body, false), o.redactHeaders(r.Headers)
	w := &finding{
		reading: reading{response: r, command: o.command(q, q.Body)},
		shown:   reading{response: shown, command: o.command(q, o.RedactBody(q.Body, true))},
		Found:   Found{Finding: outcome.FindingUnknown},
	}
	if silent(r.Status) {
		w.note(fmt.Sprintf("status %d says nothing about the command", r.Status))
		return w.done()
	}
	rule := w.match(l.Findings)
	if rule == nil || !w.believable() || !w.current() || !w.ours(l.Compare) {
		w.Finding = outcome.FindingUnknown
		return w.done()
	}
	w.tell(rule)
	return w.done()
}

// silent are the statuses of an upstream that is in trouble, or does not let us
// see: no rule can make a finding of them.
func silent(status int) bool {
	switch status {
	case 401, 403, 407, 408, 425, 429:
		return true
	default:
		return status < 200 || status > 499
	}
}

// finding is one answer while it is weighed.
type finding struct {
	reading
	Found
	shown reading // the same without what the profile redacts: what is kept is read from it
}

func (w *finding) done() Found {
	w.Notes = w.notes
	return w.Found
}

// match finds the first rule whose condition holds.
func (w *finding) match(rules []FindingRule) *FindingRule {
	for i, rule := range rules {
		label := fmt.Sprintf("findings[%d]: %s", i, clip(rule.When.Source, 200))
		matched, err := rule.When.Bool(w.vars())
		if err != nil {
			w.note(label + ": " + w.failure(rule.When, err))
			return nil
		}
		if matched {
			w.Finding, w.Rule = rule.Finding, label
			return &rules[i]
		}
	}
	w.note("no rule of findings matches")
	return nil
}

// believable refuses to take a redirect, perhaps to a login page, for a no.
func (w *finding) believable() bool {
	redirect := w.response.Status >= 300 && w.response.Status < 400
	if redirect && (w.Finding == outcome.FindingAbsent || w.Finding == outcome.FindingRefused) {
		w.note(fmt.Sprintf("%s: a redirect is not taken for %s", w.Rule, w.Finding))
		return false
	}
	return true
}

// current refuses to take an answer out of a cache for what is not there (RFC 9111,
// section 5.1): it may be from before the command arrived.
func (w *finding) current() bool {
	age := strings.Join(w.response.Headers.Values("Age"), ", ")
	if w.Finding != outcome.FindingAbsent || strings.Trim(age, "0, \t") == "" {
		return true
	}
	w.note(fmt.Sprintf("%s: the answer is %s s old and comes from a cache: it is not taken for absent", w.Rule, clip(age, 40)))
	return false
}

// ours compares what was found with what we asked for. What is absent has
// nothing to compare.
func (w *finding) ours(compare []*Expression) bool {
	if w.Finding == outcome.FindingAbsent {
		return true
	}
	for i, e := range compare {
		label := fmt.Sprintf("compare[%d]: %s", i, clip(e.Source, 200))
		holds, err := e.Bool(w.vars())
		if err != nil {
			w.note(label + ": " + w.failure(e, err))
			return false
		}
		if !holds {
			w.note(label + ": what was found is not ours: " + w.difference(e))
			return false
		}
	}
	return true
}

// difference shows both sides of a comparison, so that a person sees what
// differs.
func (w *finding) difference(e *Expression) string {
	if len(e.sides) != 2 {
		return "it does not hold"
	}
	return e.sides[0].show(w.shown.vars()) + " there, " + e.sides[1].show(w.shown.vars()) + " here"
}

// tell reads what a rule names, of what may be shown.
func (w *finding) tell(rule *FindingRule) {
	w.Reference = w.shown.cleanReference(w.shown.evaluate("reference", rule.Reference))
	if strings.Contains(w.Reference, redacted) {
		w.note("reference: the profile redacts it, left out")
		w.Reference = ""
	}
	w.Code = w.shown.text("code", rule.Code, maxCode)
	w.Message = w.shown.text("message", rule.Message, maxMessage)
	for _, note := range w.shown.notes {
		if strings.HasPrefix(note, "reference: ") || strings.HasPrefix(note, "code: ") || strings.HasPrefix(note, "message: ") {
			w.notes = append(w.notes, note)
		}
	}
}

// command is the variable of that name: what we know of the command. What cannot
// be read of its body is left out.
func (o *Operation) command(q Question, body []byte) map[string]any {
	params := map[string]any{}
	for name, v := range q.Params {
		params[name] = v
	}
	c := map[string]any{"key": q.Key, "id": q.CommandID.String(), "params": params, "reference": q.Reference}
	if value, ok := o.bodyValue(body); ok {
		c["body"] = value
	}
	return c
}

// bodyValue reads the body of a request: JSON as a document, a form as an object
// of texts, and lists where a name comes more than once, anything else as text.
func (o *Operation) bodyValue(body []byte) (any, bool) {
	switch {
	case len(body) == 0:
		return nil, true
	case len(body) > maxJSONBytes:
		return nil, false
	case o.Body == BodyJSON:
		document, err := decodeJSON(body, maxJSONBytes)
		return document, err == nil
	case o.Body == BodyForm:
		return formValue(string(body))
	default:
		return string(body), utf8.Valid(body)
	}
}

func formValue(body string) (any, bool) {
	fields, err := url.ParseQuery(body)
	if err != nil {
		return nil, false
	}
	object := map[string]any{}
	for name, values := range fields {
		object[name] = values[0]
		if len(values) > 1 {
			list := make([]any, len(values))
			for i, v := range values {
				list[i] = v
			}
			object[name] = list
		}
	}
	return object, true
}
