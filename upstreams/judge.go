package upstreams

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"executor/outcome"
)

// Response is what came back of one attempt.
type Response struct {
	Status       int
	Headers      http.Header // canonical names
	Body         []byte
	BodyComplete bool // read to its end, and not cut at a limit
	Attempt      int  // number of the attempt, from 1
}

// Judgement is a response read through the profile.
type Judgement struct {
	Answer    outcome.Answer
	Reference string   // the upstream's name for what was done; "" = not known
	Code      string   // of a refusal or another failure
	Message   string   // for people
	NeedsBody bool     // the rule that answered reads the body
	Rule      string   // which rule answered, for people
	Notes     []string // what went wrong while reading
}

const (
	defaultTable = "default table"

	maxReference = 512 // bytes; a longer one is no name
	maxCode      = 200
	maxMessage   = 2000
)

// Judge says what a response means: by the first rule that matches, else by the
// default table, where a success has to show what `require` asks for. A rule
// that cannot be evaluated ends the search with `unclear`; so does one that
// depends on a body which is not there whole.
func (o *Operation) Judge(r Response) Judgement {
	w := &reading{operation: o, response: r}
	w.answer()
	if w.Answer == outcome.AnswerApplied || w.Answer == outcome.AnswerPending {
		w.readReference(o.Result.Reference)
	} else {
		w.readReference(nil)
		w.Code = w.text("rejection.code", o.Rejection.Code, maxCode)
		w.Message = w.text("rejection.message", o.Rejection.Message, maxMessage)
	}
	return w.Judgement
}

// reading is one response while it is judged.
type reading struct {
	Judgement
	operation *Operation
	response  Response
	variables map[string]any // made when first needed
	noJSON    string         // why json is null, of a whole body; "" = it is not
	reference *Expression    // of the rule that matched
}

func (w *reading) answer() {
	for i, rule := range w.operation.Answers {
		label := fmt.Sprintf("answers[%d]: %s", i, clip(rule.When.Source, 200))
		matched, err := rule.When.Bool(w.vars())
		if err != nil {
			w.unclear(label, rule.When, w.failure(rule.When, err))
			return
		}
		if matched {
			w.Answer, w.Rule, w.NeedsBody, w.reference = rule.Answer, label, rule.When.needsBody, rule.Reference
			return
		}
	}
	w.Answer, w.Rule = outcome.DefaultAnswer(w.response.Status), defaultTable
	if w.Answer == outcome.AnswerApplied {
		w.require()
	}
}

// require looks for what a success has to show.
func (w *reading) require() {
	for i, e := range w.operation.Result.Require {
		label := fmt.Sprintf("result.require[%d]: %s", i, clip(e.Source, 200))
		holds, err := e.Bool(w.vars())
		switch {
		case err != nil:
			w.unclear(label, e, w.failure(e, err))
			return
		case !holds:
			w.unclear(label, e, "it does not hold")
			return
		}
		w.NeedsBody = w.NeedsBody || e.needsBody
	}
}

// failure says why an expression failed. Where that is a json that is null, the
// member it asked for is not what is missing.
func (w *reading) failure(e *Expression, err error) string {
	if w.noJSON != "" && e.failedOnJSON(err) {
		return "it cannot be evaluated: json is null, as the body " + w.noJSON
	}
	return "it cannot be evaluated: " + err.Error()
}

func (w *reading) unclear(label string, e *Expression, why string) {
	w.Answer, w.Rule, w.NeedsBody = outcome.AnswerUnclear, label, e.needsBody
	w.note(label + ": " + why)
}

func (w *reading) note(text string) { w.Notes = append(w.Notes, printable(clip(text, 500))) }

// vars gives the variables of expressions. What is not there to be read, because
// the body is cut or too large, is left out, so that only an expression which
// depends on it fails.
func (w *reading) vars() map[string]any {
	if w.variables != nil {
		return w.variables
	}
	r := w.response
	headers := make(map[string][]string, len(r.Headers))
	for name, values := range r.Headers {
		lower := strings.ToLower(name)
		for _, v := range values {
			headers[lower] = append(headers[lower], strings.ToValidUTF8(v, "\uFFFD"))
		}
	}
	w.variables = map[string]any{"status": r.Status, "headers": headers, "attempt": r.Attempt}
	if !r.BodyComplete {
		return w.variables
	}
	if len(r.Body) <= maxJSONBytes {
		w.variables["text"] = strings.ToValidUTF8(string(r.Body), "\uFFFD")
	}
	w.variables["json"] = w.document()
	return w.variables
}

// document reads the body as JSON; nil, and the reason in noJSON, if it is none.
func (w *reading) document() any {
	if len(bytes.TrimSpace(w.response.Body)) == 0 {
		w.noJSON = "is empty"
		return nil
	}
	document, err := decodeJSON(w.response.Body, maxJSONBytes)
	switch {
	case err != nil:
		if w.noJSON = err.Error(); looksLikeJSON(w.response) {
			w.note("the body " + w.noJSON + "; json is null")
		}
		return nil
	case document == nil:
		w.noJSON = "is null"
	}
	return document
}

// looksLikeJSON says whether a body that cannot be read was meant as JSON.
func looksLikeJSON(r Response) bool {
	return strings.Contains(r.Headers.Get("Content-Type"), "json") || bytes.IndexByte([]byte("{["), bytes.TrimSpace(r.Body)[0]) >= 0
}

// readReference takes the reference from the rule that matched, else from
// fallback. Only a whole and clean one is kept: half a name names something else.
func (w *reading) readReference(fallback *Expression) {
	e := w.reference
	if e == nil {
		e = fallback
	}
	if e == nil {
		return
	}
	s := w.evaluate("reference", e)
	switch {
	case len(s) > maxReference:
		w.note(fmt.Sprintf("reference: longer than %d bytes, left out", maxReference))
	case strings.IndexFunc(s, unprintable) >= 0:
		w.note("reference: holds characters that cannot be kept, left out")
	default:
		w.Reference = s
	}
}

func unprintable(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }

// text evaluates an expression for people to read.
func (w *reading) text(label string, e *Expression, limit int) string {
	s := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, w.evaluate(label, e))
	return clip(s, limit)
}

// evaluate reads a piece of the response. What is missing is left out; other
// failures are noted.
func (w *reading) evaluate(label string, e *Expression) string {
	if e == nil || e.needsBody && !w.response.BodyComplete {
		return ""
	}
	s, err := e.Text(w.vars())
	if err != nil && !errors.Is(err, errMissing) {
		w.note(label + ": " + err.Error())
	}
	return s
}
