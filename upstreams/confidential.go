package upstreams

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"executor/internal/egress"
)

// Confidential are the values of one exchange that the profile redacts. They are to
// be taken out of what is kept wherever else they stand: an upstream may repeat what
// it was sent, or say twice what it must not be quoted with. header and body are the
// response's, and may be nil.
func (o *Operation) Confidential(request Request, header http.Header, body []byte) []egress.Secret {
	var out confidential
	for _, h := range request.Headers {
		if o.redacts(h.Name) {
			out.add(h.Value)
		}
	}
	for _, name := range o.Redaction.Headers {
		out.add(header.Values(name)...)
	}
	if len(o.Redaction.Request) > 0 {
		paths := pathsOf(o.Redaction.Request)
		switch o.Body {
		case BodyForm:
			out.fields(string(request.Body), paths)
		case BodyMultipart:
			out.parts(request, paths)
		default:
			out.members(request.Body, paths)
		}
	}
	if len(o.Redaction.Response) > 0 {
		out.members(body, pathsOf(o.Redaction.Response))
	}
	return out
}

type confidential []egress.Secret

func (c *confidential) add(values ...string) {
	for _, v := range values {
		if len(v) >= egress.Maskable {
			*c = append(*c, egress.NewSecret(v))
		}
	}
}

// members adds what stands at the paths of a document.
func (c *confidential) members(body []byte, paths [][]string) {
	body = withoutBOM(body)
	if _, err := decodeJSON(body, len(body)); err != nil {
		return
	}
	eachMember(body, paths, func(_, _ int64, value json.RawMessage) { c.leaves(value) })
}

// leaves adds the texts and numbers within a value; of a text also what is written
// for it, which is what those see who take the document for text.
func (c *confidential) leaves(value json.RawMessage) {
	if value[0] == '"' && bytes.IndexByte(value, '\\') >= 0 {
		c.add(string(value[1 : len(value)-1]))
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var walk func() bool // reads one value, or the end of what it is in
	walk = func() bool {
		token, err := dec.Token()
		if err != nil {
			return false
		}
		switch token := token.(type) {
		case string:
			c.add(token)
		case json.Number:
			c.add(token.String())
		case json.Delim:
			for dec.More() {
				if token == '{' && !c.name(dec) || !walk() {
					return false
				}
			}
			_, err = dec.Token()
		}
		return err == nil
	}
	walk()
}

// name reads the name of a member. One of letters is a word of the interface, which
// stands in other places too and tells nothing; any other may be a person's.
func (c *confidential) name(dec *json.Decoder) bool {
	token, err := dec.Token()
	name, _ := token.(string)
	if strings.ContainsFunc(name, func(r rune) bool { return r != '_' && r != '-' && !unicode.IsLetter(r) }) {
		c.add(name)
	}
	return err == nil
}

// fields adds the values of a form that are named by a path of one step.
func (c *confidential) fields(form string, paths [][]string) {
	for field := range strings.SplitSeq(form, "&") {
		name, value, _ := strings.Cut(field, "=")
		decoded, err := url.QueryUnescape(name)
		if err != nil || len(below(paths, decoded)) == 0 {
			continue
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			c.add(plain)
		}
	}
}

// parts adds the parts that are named by a path of one step, and what stands at longer
// ones in those that are documents. What files hold is not looked at.
func (c *confidential) parts(request Request, paths [][]string) {
	var boundary string
	for _, h := range request.Headers {
		if canonicalHeader(h.Name) == "Content-Type" {
			_, parameters, _ := mime.ParseMediaType(h.Value)
			boundary = parameters["boundary"]
		}
	}
	if boundary == "" {
		return
	}
	reader := multipart.NewReader(bytes.NewReader(request.Body), boundary)
	for {
		part, err := reader.NextRawPart()
		if err != nil {
			return
		}
		within := below(paths, part.FormName())
		if len(within) == 0 {
			continue
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return
		}
		if slices.ContainsFunc(within, func(path []string) bool { return len(path) == 0 }) {
			c.add(string(body))
		}
		c.members(body, within)
	}
}
