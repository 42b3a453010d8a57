package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// readBody reads a whole request body of one of the media types. The bytes are
// the caller's own: stores may keep them.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, types ...string) ([]byte, error) {
	if err := checkMediaType(r.Header, types); err != nil {
		return nil, err
	}
	return readBytes(w, r, limit)
}

// maxAhead is how much memory a request body gets before it is there.
const maxAhead = 64 << 10

// readBytes reads a whole request body of whatever type.
func readBytes(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var b bytes.Buffer
	if r.ContentLength > 0 { // room for the read that finds the end; for what is only announced, not much
		b.Grow(int(min(r.ContentLength, maxAhead)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(callOf(r).held.reader(http.MaxBytesReader(w, r.Body, limit)))
	var over *http.MaxBytesError
	switch {
	case errors.Is(err, errBodiesFull):
		return nil, bodiesFull()
	case errors.As(err, &over):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, &failure{code: ProblemCodeMalformedBody, detail: "The request body ended early."}
	}
	return b.Bytes(), nil
}

// readNothing reads the body of a call that takes none: empty, or an empty
// object from clients that always send one.
func readNothing(w http.ResponseWriter, r *http.Request, limit int64) error {
	return readMaybe(w, r, limit)
}

// readMaybe reads a body that may be left out: an object with these members.
func readMaybe(w http.ResponseWriter, r *http.Request, limit int64, members ...member) error {
	if r.ContentLength == 0 {
		return nil
	}
	first := make([]byte, 1)
	if n, err := r.Body.Read(first); n == 0 && errors.Is(err, io.EOF) {
		return nil // chunked, and empty
	} else if n > 0 {
		r.Body = prefixed{io.MultiReader(bytes.NewReader(first), r.Body), r.Body}
	}
	src, err := readBody(w, r, limit, "application/json")
	if err != nil {
		return err
	}
	return decodeForm(src, members...)
}

type prefixed struct {
	io.Reader
	io.Closer
}

func tooLarge(limit int64) error {
	return &failure{code: ProblemCodeBodyTooLarge, detail: fmt.Sprintf("The request body may have %d bytes at most.", limit)}
}

// checkMediaType refuses what is not one of the types, is in another charset
// than UTF-8, or is compressed.
func checkMediaType(h http.Header, types []string) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return &failure{code: ProblemCodeUnsupportedMediaType, detail: "The request body must not be compressed: leave Content-Encoding out."}
	}
	given := h.Get("Content-Type")
	if given == types[0] {
		return nil
	}
	name, params, err := mime.ParseMediaType(given)
	charset := params["charset"]
	if err != nil || !slices.Contains(types, name) || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &failure{code: ProblemCodeUnsupportedMediaType, detail: "The Content-Type must be " + strings.Join(types, " or ") + ", in UTF-8."}
	}
	return nil
}

// complaints collects what is wrong with the fields of a document, so that a
// caller hears of all of it at once.
type complaints struct {
	list []FieldProblem
}

// maxComplaints bounds the answer to a hopeless document.
const maxComplaints = 100

func (c *complaints) add(pointer, code, format string, args ...any) {
	if len(c.list) < maxComplaints {
		c.list = append(c.list, FieldProblem{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)})
	}
}

// here complains of the value that the reader stands at, and reads past it.
func (c *complaints) here(r *jsonReader, code, format string, args ...any) error {
	c.add(r.pointer(), code, format, args...)
	return r.skip()
}

// unknown complains of a member that nobody knows.
func (c *complaints) unknown(r *jsonReader, name []byte) error {
	return c.here(r, "unknown_field", "There is no field %s here.", quote(name))
}

// err is the problem of all complaints, nil without any.
func (c *complaints) err() error {
	if len(c.list) == 0 {
		return nil
	}
	return invalidRequest(c.list)
}

// decodeObject reads a document that is one object.
func decodeObject(src []byte, read func(r *jsonReader, fields *complaints) error) error {
	r, fields := newJSONReader(src), &complaints{}
	err := r.document(func() error {
		if c := r.kind(); c != '{' && c != 0 {
			return fields.here(r, "type", "The request body is a JSON object.")
		}
		return read(r, fields)
	})
	if err != nil {
		return err
	}
	return fields.err()
}

// textField reads a string of ours; max counts characters. ok is false if there
// was something to complain of.
func textField(r *jsonReader, fields *complaints, max int) (value string, ok bool, err error) {
	if r.kind() != '"' {
		return "", false, fields.here(r, "type", "This field is a string.")
	}
	value, bad, err := r.text()
	switch {
	case err != nil:
		return "", false, err
	case bad == "nul_character":
		fields.add(r.pointer(), bad, "A text must not hold the NUL character.")
	case bad != "":
		fields.add(r.pointer(), bad, "A text must not hold half a surrogate pair.")
	case longer(value, max):
		fields.add(r.pointer(), "too_long", "A text here has %d characters at most.", max)
	default:
		return value, true, nil
	}
	return "", false, nil
}

// longer reports whether s has more than max characters.
func longer(s string, max int) bool { return len(s) > max && len([]rune(s)) > max }
