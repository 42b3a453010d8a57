package upstreams

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// reading is one response, or a notice, while expressions read it.
type reading struct {
	response  Response
	command   map[string]any // of lookups; nil elsewhere
	variables map[string]any // made when first needed
	noJSON    string         // why json is null, of a whole body; "" = it is not
	notes     []string       // what went wrong while reading
}

// failure says why an expression failed. Where that is a json that is null, the
// member it asked for is not what is missing.
func (w *reading) failure(e *Expression, err error) string {
	if w.noJSON != "" && e.failedOnJSON(err) {
		return "it cannot be evaluated: json is null, as the body " + w.noJSON
	}
	return "it cannot be evaluated: " + withoutValues(err)
}

var quotedValue = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// withoutValues is an error of an expression without the values it quotes, as in
// `parsing "4242…"`: they may be what the profile redacts.
func withoutValues(err error) string { return quotedValue.ReplaceAllString(err.Error(), `"…"`) }

func (w *reading) note(text string) { w.notes = append(w.notes, printable(clip(text, 500))) }

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
	w.variables = map[string]any{"status": r.Status, "headers": headers, "attempt": r.Attempt, "in_doubt": r.InDoubt}
	if w.command != nil {
		w.variables["command"] = w.command
	}
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
	document, err := decodeJSON(withoutBOM(w.response.Body), maxJSONBytes)
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

// cleanReference keeps a reference only whole and clean: half a name names
// something else.
func (w *reading) cleanReference(s string) string {
	switch {
	case len(s) > maxReference:
		w.note(fmt.Sprintf("reference: longer than %d bytes, left out", maxReference))
	case strings.IndexFunc(s, unprintable) >= 0:
		w.note("reference: holds characters that cannot be kept, left out")
	default:
		return s
	}
	return ""
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
		w.note(label + ": " + withoutValues(err))
	}
	return s
}
