package upstreams

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// insertMember writes a text into a JSON document as the last member of the
// object that a pointer names, and leaves every other byte as it is. A member
// that has the same value already is left alone; one with another value is a
// conflict. The document has to be valid.
func insertMember(body []byte, path []string, value string) ([]byte, *FieldError) {
	w := &insertion{dec: json.NewDecoder(bytes.NewReader(body)), path: path, value: value}
	w.dec.UseNumber()
	if err := w.enter(0); err != nil {
		return nil, err
	}
	if w.present {
		return body, nil
	}
	var b bytes.Buffer
	if !w.empty {
		b.WriteByte(',')
	}
	b.WriteString(quoteJSON(path[len(path)-1]) + ":" + quoteJSON(value))
	return slices.Concat(body[:w.at], b.Bytes(), body[w.at:]), nil
}

// insertion walks down to the object that gets the member.
type insertion struct {
	dec     *json.Decoder
	path    []string
	value   string
	at      int64 // where to insert
	empty   bool  // the object has no member yet
	present bool  // the member is there already, with this value
}

// enter reads the value at the first depth tokens of the path, which has to be
// an object.
func (w *insertion) enter(depth int) *FieldError {
	start, err := w.dec.Token()
	if err != nil || start != json.Delim('{') {
		return w.problem(depth, "invalid", "The idempotency key goes into an object here, and this is none.")
	}
	w.at, w.empty = w.dec.InputOffset(), true
	for w.dec.More() {
		name, err := w.dec.Token()
		if err != nil {
			return w.problem(depth, "invalid", "This cannot be read.")
		}
		if name == w.path[depth] {
			return w.found(depth)
		}
		var skipped json.RawMessage
		if err := w.dec.Decode(&skipped); err != nil {
			return w.problem(depth, "invalid", "This cannot be read.")
		}
		w.at, w.empty = w.dec.InputOffset(), false
	}
	if depth < len(w.path)-1 {
		return w.problem(depth+1, "required", "The idempotency key goes into this object.")
	}
	return nil
}

// found stands before the value of the next name of the path.
func (w *insertion) found(depth int) *FieldError {
	if depth < len(w.path)-1 {
		return w.enter(depth + 1)
	}
	var there any
	if err := w.dec.Decode(&there); err != nil || there != w.value {
		return w.problem(depth+1, "conflict", "The idempotency key goes here, and another value stands there.")
	}
	w.present = true
	return nil
}

func (w *insertion) problem(depth int, code, detail string) *FieldError {
	return &FieldError{Pointer: "/body" + pointer(w.path[:depth]...), Code: code, Detail: detail}
}

// quoteJSON writes a JSON string without escaping what need not be.
func quoteJSON(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return fmt.Sprintf("%q", s) // cannot happen: a string always encodes
	}
	return strings.TrimSuffix(b.String(), "\n")
}
