package web

import (
	"encoding/hex"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"executor/upstreams"
)

// shownBytes is how much of a body a page shows.
const shownBytes = 16 << 10

// excerpt is the beginning of a body as a page shows it.
type excerpt struct {
	Text   template.HTML
	Pretty bool   // it is JSON, and was set in lines
	Empty  bool   // there is no body
	Shown  int    // bytes of it that stand here
	Stored int64  // bytes that are kept
	Came   int64  // bytes that came over the wire; 0 where that is not on record
	Cut    bool   // what is kept is not all of it
	SHA256 string // of what came
}

// newExcerpt shows at most so many bytes of a body of which the beginning is given.
func newExcerpt(body []byte, stored int64, most int) excerpt {
	e := excerpt{Stored: stored, Empty: stored == 0}
	if len(body) > most {
		body = wholeRunes(body[:most])
	} else if int64(len(body)) < stored {
		body = wholeRunes(body)
	}
	e.Shown = len(body)
	text := body
	if int64(len(body)) == stored && json.Valid(body) {
		if lines := pretty(body); lines != string(body) {
			e.Pretty, text = true, []byte(lines)
		}
	}
	e.Text = marked(string(text))
	return e
}

// Whole reports whether all that is kept stands here.
func (e excerpt) Whole() bool { return int64(e.Shown) == e.Stored }

// wholeRunes cuts a character off that the end cut through.
func wholeRunes(body []byte) []byte {
	for i := len(body) - 1; i >= max(0, len(body)-utf8.UTFMax); i-- {
		if utf8.RuneStart(body[i]) {
			if !utf8.FullRune(body[i:]) {
				return body[:i]
			}
			break
		}
	}
	return body
}

// redactedText stands in the record where the profile keeps a value from people.
const redactedText = "[redacted]"

// marked is text of others as HTML: harmless, and with its redactions marked.
func marked(text string) template.HTML {
	safe := template.HTMLEscapeString(string(inert([]byte(text))))
	return template.HTML(strings.ReplaceAll(safe, redactedText, `<span class="redacted">`+redactedText+`</span>`)) //nolint:gosec // it is escaped
}

// namedText is a header as a page shows it.
type namedText struct {
	Name  string
	Value template.HTML
}

// sentHeaders are those of a request, in their order.
func sentHeaders(headers []upstreams.Header) []namedText {
	list := make([]namedText, len(headers))
	for i, h := range headers {
		list[i] = namedText{h.Name, marked(h.Value)}
	}
	return list
}

// receivedHeaders are those of a response, by name.
func receivedHeaders(headers http.Header) []namedText {
	var list []namedText
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[name] {
			list = append(list, namedText{name, marked(value)})
		}
	}
	return list
}

// digest is a sum as it is written; "" without one.
func digest(sum []byte) string { return hex.EncodeToString(sum) }
