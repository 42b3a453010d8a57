package api

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a JSON request body beside its size.
const (
	maxDepth   = 64      // objects and arrays inside one another
	maxMembers = 100_000 // of one object
	fewMembers = 16      // up to here names are compared one by one
)

// jsonReader walks one JSON document from front to back, once, and never
// decodes what it is not asked for. It is stricter than encoding/json: names are
// taken as they are written, an object that holds a name twice is refused at
// any depth, and so are invalid UTF-8 and too deep nesting. Its errors are
// *malformed and carry the place.
type jsonReader struct {
	src   []byte
	pos   int
	path  []step   // from the document to where the reader stands
	names [][]byte // decoded names of the objects it stands in, outer ones first

	maxDepth   int
	duplicates bool // allowed: documents of others, which are only shown
}

// step is one token of a JSON Pointer: a name, or an index if name is nil.
type step struct {
	name  []byte
	index int
}

func newJSONReader(src []byte) *jsonReader { return &jsonReader{src: src, maxDepth: maxDepth} }

// malformed is a document that is not strict JSON.
type malformed struct {
	pointer      string
	code         string // syntax, duplicate_key, invalid_utf8, too_deep, too_many_members
	detail       string
	line, column int // of the byte where it was noticed, from 1; columns count bytes
}

func (e *malformed) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.line, e.column, e.detail)
}

// fail makes the error for the byte at position at.
func (r *jsonReader) fail(at int, code, format string, args ...any) error {
	before := r.src[:min(at, len(r.src))]
	line := bytes.Count(before, []byte{'\n'})
	column := len(before) - (bytes.LastIndexByte(before, '\n') + 1)
	return &malformed{
		pointer: r.pointer(), code: code, detail: fmt.Sprintf(format, args...),
		line: line + 1, column: column + 1,
	}
}

// pointer is the JSON Pointer (RFC 6901) to where the reader stands.
func (r *jsonReader) pointer() string {
	var b strings.Builder
	for _, s := range r.path {
		b.WriteByte('/')
		if s.name == nil {
			b.WriteString(strconv.Itoa(s.index))
			continue
		}
		b.WriteString(pointerEscapes.Replace(strings.ToValidUTF8(string(s.name), "\uFFFD")))
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// document reads a whole document with read and refuses anything behind it.
func (r *jsonReader) document(read func() error) error {
	if bytes.HasPrefix(r.src, []byte("\uFEFF")) {
		return r.fail(0, "syntax", "It begins with a byte order mark: leave that out.")
	}
	if err := read(); err != nil {
		return err
	}
	if r.space(); r.pos < len(r.src) {
		return r.fail(r.pos, "syntax", "Something follows the end of the document.")
	}
	return nil
}

// kind is the first byte of the next value, 0 at the end: it tells an object
// from a string without reading either.
func (r *jsonReader) kind() byte {
	r.space()
	if r.pos == len(r.src) {
		return 0
	}
	return r.src[r.pos]
}

func (r *jsonReader) space() {
	for r.pos < len(r.src) {
		switch r.src[r.pos] {
		case ' ', '\t', '\n', '\r':
			r.pos++
		default:
			return
		}
	}
}

// object reads an object. member is called for each name and must read its
// value.
func (r *jsonReader) object(member func(name []byte) error) error {
	if err := r.enter('{', "an object"); err != nil {
		return err
	}
	outer := len(r.names)
	var many map[string]struct{} // names, once they are too many to compare
	for first := true; ; first = false {
		more, err := r.next('}', first)
		if err != nil || !more {
			r.names = r.names[:outer]
			return err
		}
		start := r.pos
		raw, escaped, err := r.string()
		if err != nil {
			return err
		}
		name := raw
		if escaped {
			name = unescape(raw)
		}
		r.path = append(r.path, step{name: name})
		if many, err = r.unique(start, name, outer, many); err != nil {
			return err
		}
		if r.kind() != ':' {
			return r.fail(r.pos, "syntax", "A colon is missing after a name.")
		}
		r.pos++
		if err := member(name); err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
	}
}

// unique notes a name of the object whose names begin at outer.
func (r *jsonReader) unique(at int, name []byte, outer int, many map[string]struct{}) (map[string]struct{}, error) {
	if r.duplicates {
		return nil, nil
	}
	names := r.names[outer:]
	known := false
	switch {
	case many != nil:
		_, known = many[string(name)]
	case len(names) < fewMembers:
		known = slices.ContainsFunc(names, func(n []byte) bool { return bytes.Equal(n, name) })
	default:
		many = make(map[string]struct{}, 4*fewMembers)
		for _, n := range names {
			many[string(n)] = struct{}{}
		}
		_, known = many[string(name)]
	}
	if known {
		return nil, r.fail(at, "duplicate_key", "The object names %s twice.", quote(name))
	}
	if many == nil {
		r.names = append(r.names, name)
		return nil, nil
	}
	if many[string(name)] = struct{}{}; len(many) > maxMembers {
		return nil, r.fail(at, "too_many_members", "An object may have %d members at most.", maxMembers)
	}
	return many, nil
}

// array reads an array. item is called for each index and must read its value.
func (r *jsonReader) array(item func(i int) error) error {
	if err := r.enter('[', "an array"); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := r.next(']', i == 0)
		if err != nil || !more {
			return err
		}
		r.path = append(r.path, step{index: i})
		if err := item(i); err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
	}
}

// enter reads an opening bracket.
func (r *jsonReader) enter(open byte, what string) error {
	if r.kind() != open {
		return r.fail(r.pos, "syntax", "Expected %s.", what)
	}
	if len(r.path) >= r.maxDepth {
		return r.fail(r.pos, "too_deep", "The document is more than %d levels deep.", r.maxDepth)
	}
	r.pos++
	return nil
}

// next reads the comma before a further element, or the closing bracket.
func (r *jsonReader) next(closing byte, first bool) (more bool, err error) {
	c := r.kind()
	switch {
	case c == closing:
		r.pos++
		return false, nil
	case first:
		return true, nil
	case c != ',':
		return false, r.fail(r.pos, "syntax", "Expected a comma or %q.", closing)
	}
	r.pos++
	if r.kind() == closing {
		return false, r.fail(r.pos, "syntax", "A comma stands before %q.", closing)
	}
	return true, nil
}

// raw reads any value and returns its bytes as they stand in the document.
func (r *jsonReader) raw() ([]byte, error) {
	r.space()
	start := r.pos
	if err := r.skip(); err != nil {
		return nil, err
	}
	return r.src[start:r.pos:r.pos], nil
}

// skip reads any value, as strictly as one that is used.
func (r *jsonReader) skip() error {
	switch c := r.kind(); {
	case c == '{':
		return r.object(func([]byte) error { return r.skip() })
	case c == '[':
		return r.array(func(int) error { return r.skip() })
	case c == '"':
		_, _, err := r.string()
		return err
	case c == '-', '0' <= c && c <= '9':
		return r.number()
	case c == 't':
		return r.literal("true")
	case c == 'f':
		return r.literal("false")
	case c == 'n':
		return r.literal("null")
	default:
		return r.fail(r.pos, "syntax", "Expected a value.")
	}
}

func (r *jsonReader) literal(word string) error {
	if !bytes.HasPrefix(r.src[r.pos:], []byte(word)) {
		return r.fail(r.pos, "syntax", "Expected a value.")
	}
	r.pos += len(word)
	return nil
}

func (r *jsonReader) number() error {
	start := r.pos
	if r.at('-') {
		r.pos++
	}
	if r.at('0') {
		r.pos++
	} else if !r.digits() {
		return r.fail(start, "syntax", "A number is malformed.")
	}
	if r.at('.') {
		if r.pos++; !r.digits() {
			return r.fail(start, "syntax", "A number is malformed.")
		}
	}
	if r.at('e') || r.at('E') {
		if r.pos++; r.at('+') || r.at('-') {
			r.pos++
		}
		if !r.digits() {
			return r.fail(start, "syntax", "A number is malformed.")
		}
	}
	return nil
}

func (r *jsonReader) at(c byte) bool { return r.pos < len(r.src) && r.src[r.pos] == c }

func (r *jsonReader) digits() bool {
	start := r.pos
	for r.pos < len(r.src) && '0' <= r.src[r.pos] && r.src[r.pos] <= '9' {
		r.pos++
	}
	return r.pos > start
}

// string reads a string and returns what stands between its quotes, and
// whether that holds escapes.
func (r *jsonReader) string() (raw []byte, escaped bool, err error) {
	if r.kind() != '"' {
		return nil, false, r.fail(r.pos, "syntax", "Expected a string.")
	}
	start := r.pos + 1
	for r.pos = start; r.pos < len(r.src); {
		switch c := r.src[r.pos]; {
		case c == '"':
			r.pos++
			return r.src[start : r.pos-1], escaped, nil
		case c == '\\':
			escaped = true
			if err := r.escape(); err != nil {
				return nil, false, err
			}
		case c < ' ':
			return nil, false, r.fail(r.pos, "syntax", "A string holds the control character %U, which must be escaped.", c)
		case c < utf8.RuneSelf:
			r.pos++
		default:
			c, size := utf8.DecodeRune(r.src[r.pos:])
			if c == utf8.RuneError && size == 1 {
				return nil, false, r.fail(r.pos, "invalid_utf8", "A string holds the byte 0x%02X, which is not UTF-8.", r.src[r.pos])
			}
			r.pos += size
		}
	}
	return nil, false, r.fail(r.pos, "syntax", "A string is not closed.")
}

// escape reads one escape sequence.
func (r *jsonReader) escape() error {
	rest := r.src[r.pos:]
	switch {
	case len(rest) >= 2 && strings.IndexByte(`"\/bfnrt`, rest[1]) >= 0:
		r.pos += 2
		return nil
	case len(rest) >= 6 && rest[1] == 'u' && hex4(rest[2:6]) >= 0:
		r.pos += 6
		return nil
	}
	return r.fail(r.pos, "syntax", "A string holds an unknown escape.")
}
