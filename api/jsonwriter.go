package api

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// jsonWriter appends JSON. It is here because encoding/json rewrites the raw
// JSON it is given, and what an upstream said must be shown as it said it.
type jsonWriter struct {
	buf []byte
}

// element puts the comma before a further element. No value ends in one of the
// bytes that an element follows at once.
func (w *jsonWriter) element() {
	if n := len(w.buf); n > 0 && w.buf[n-1] != '{' && w.buf[n-1] != '[' && w.buf[n-1] != ':' {
		w.buf = append(w.buf, ',')
	}
}

// name begins a member. Names are ours and need no escapes.
func (w *jsonWriter) name(name string) {
	w.element()
	w.buf = append(append(append(w.buf, '"'), name...), '"', ':')
}

func (w *jsonWriter) begin(bracket byte) { w.element(); w.buf = append(w.buf, bracket) }

func (w *jsonWriter) end(bracket byte) { w.buf = append(w.buf, bracket) }

// object writes a member that is an object.
func (w *jsonWriter) object(name string, members func()) {
	w.name(name)
	w.begin('{')
	members()
	w.end('}')
}

// array writes a member that is an array of n items.
func (w *jsonWriter) array(name string, n int, item func(i int)) {
	w.name(name)
	w.begin('[')
	for i := range n {
		item(i)
	}
	w.end(']')
}

// raw writes bytes that are JSON already.
func (w *jsonWriter) raw(name string, json []byte) {
	w.name(name)
	w.buf = append(w.buf, json...)
}

func (w *jsonWriter) null(name string) { w.raw(name, []byte("null")) }

func (w *jsonWriter) text(name, value string) {
	w.name(name)
	w.string(value)
}

// optional writes null for "".
func (w *jsonWriter) optional(name, value string) {
	if value == "" {
		w.null(name)
		return
	}
	w.text(name, value)
}

func (w *jsonWriter) integer(name string, value int64) {
	w.name(name)
	w.buf = strconv.AppendInt(w.buf, value, 10)
}

// integerOrNull writes null for 0.
func (w *jsonWriter) integerOrNull(name string, value int64) {
	if value == 0 {
		w.null(name)
		return
	}
	w.integer(name, value)
}

// texts writes an array of texts.
func (w *jsonWriter) texts(name string, list []string) {
	w.array(name, len(list), func(i int) { w.element(); w.string(list[i]) })
}

// labels writes an object of texts whose names are not ours.
func (w *jsonWriter) labels(name string, labels map[string]string) {
	w.object(name, func() {
		for _, label := range slices.Sorted(maps.Keys(labels)) {
			w.element()
			w.string(label)
			w.buf = append(w.buf, ':')
			w.string(labels[label])
		}
	})
}

// rawOrNull writes bytes that are JSON already; null for none.
func (w *jsonWriter) rawOrNull(name string, json []byte) {
	if len(json) == 0 {
		w.null(name)
		return
	}
	w.raw(name, json)
}

// rawOrNothing leaves the member out for none.
func (w *jsonWriter) rawOrNothing(name string, json []byte) {
	if len(json) > 0 {
		w.raw(name, json)
	}
}

// idOrNull writes null for nil.
func (w *jsonWriter) idOrNull(name string, id *uuid.UUID) {
	if id == nil {
		w.null(name)
		return
	}
	w.text(name, id.String())
}

// float writes a number; what JSON cannot say is 0.
func (w *jsonWriter) float(name string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		value = 0
	}
	w.name(name)
	w.buf = strconv.AppendFloat(w.buf, value, 'f', -1, 64)
}

func (w *jsonWriter) flag(name string, value bool) {
	w.name(name)
	w.buf = strconv.AppendBool(w.buf, value)
}

func (w *jsonWriter) time(name string, t time.Time) {
	w.name(name)
	w.buf = append(w.buf, '"')
	w.buf = t.UTC().AppendFormat(w.buf, time.RFC3339Nano)
	w.buf = append(w.buf, '"')
}

// timeOrNull writes null for nil.
func (w *jsonWriter) timeOrNull(name string, t *time.Time) {
	if t == nil {
		w.null(name)
		return
	}
	w.time(name, *t)
}

// hex writes a digest; null for none.
func (w *jsonWriter) hex(name string, digest []byte) { w.optional(name, hex.EncodeToString(digest)) }

// string writes a value, escaping what JSON must have escaped and nothing more.
// Invalid UTF-8 becomes U+FFFD.
func (w *jsonWriter) string(s string) {
	b := append(w.buf, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c == 0x7F:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += size
			continue
		}
		i++
	}
	w.buf = append(b, '"')
}

const hexDigits = "0123456789abcdef"

// shownDepth bounds the nesting of a body that is shown as JSON: deeper ones
// would break the parsers of those who read our answer.
const shownDepth = 256

// body shows bytes of a caller or an upstream: as the same bytes if they are
// JSON, else as text, else in base64. Nothing is written for an empty body.
func (w *jsonWriter) body(body []byte) {
	switch {
	case len(body) == 0:
	case isJSON(body):
		w.raw("body", body)
	case utf8.Valid(body):
		w.text("body_text", string(body))
	default:
		w.text("body_base64", base64.StdEncoding.EncodeToString(body))
	}
}

func isJSON(body []byte) bool {
	r := &jsonReader{src: body, maxDepth: shownDepth, duplicates: true}
	return r.document(r.skip) == nil
}
