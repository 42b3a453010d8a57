package upstreams

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// redacted stands where a value was.
const redacted = "[redacted]"

// Redact blanks the values of headers that the profile names, that carry its
// credential, or that are credentials by their name. It works for requests and
// responses.
func (o *Operation) Redact(headers []Header) []Header {
	out := slices.Clone(headers)
	for i, h := range out {
		if o.secretHeader(canonicalHeader(h.Name)) {
			out[i].Value = redacted
		}
	}
	return out
}

// redactHeaders is Redact for the headers of a response.
func (o *Operation) redactHeaders(headers http.Header) http.Header {
	out := headers.Clone()
	for name, values := range out {
		if o.secretHeader(canonicalHeader(name)) {
			for i := range values {
				values[i] = redacted
			}
		}
	}
	return out
}

// redacts says that the profile names the header.
func (o *Operation) redacts(name string) bool { return slices.Contains(o.Redaction.Headers, name) }

func (o *Operation) secretHeader(name string) bool {
	return o.redacts(name) ||
		o.profile.Auth.Type == AuthHeader && o.profile.Auth.Name == name ||
		strings.HasPrefix(name, "Proxy-Auth") || isCredentialName(name)
}

// RedactBody blanks the members that the profile names, of a request or of a
// response, and leaves every other byte as it is. A body in which they cannot be
// found for sure, because it is cut or neither JSON nor a form, is blanked whole.
func (o *Operation) RedactBody(body []byte, request bool) []byte {
	pointers := o.Redaction.Response
	if request {
		pointers = o.Redaction.Request
	}
	if len(pointers) == 0 || len(body) == 0 {
		return body
	}
	paths := pathsOf(pointers)
	document := body
	if !request {
		document = withoutBOM(body)
	}
	if _, err := decodeJSON(document, len(document)); err == nil {
		return redactJSON(document, paths)
	}
	if request && o.Body == BodyForm {
		if form, ok := redactForm(string(body), paths); ok {
			return form
		}
	}
	return []byte(redacted)
}

func pathsOf(pointers []string) [][]string {
	var paths [][]string
	for _, p := range pointers {
		path, _ := parsePointer(p)
		paths = append(paths, path)
	}
	return paths
}

// redactJSON copies a valid document and replaces the values at the paths.
func redactJSON(body []byte, paths [][]string) []byte {
	var out bytes.Buffer
	copied := int64(0)
	eachMember(body, paths, func(start, end int64, _ json.RawMessage) {
		out.Write(body[copied:start])
		out.WriteString(`"` + redacted + `"`)
		copied = end
	})
	out.Write(body[copied:])
	return out.Bytes()
}

// eachMember calls found with each value at which a path ends, in the order of a
// valid document, and where it stands.
func eachMember(body []byte, paths [][]string, found func(start, end int64, value json.RawMessage)) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	// walk reads one value, of which the paths in rest lead further inside.
	var walk func(rest [][]string)
	walk = func(rest [][]string) {
		if slices.ContainsFunc(rest, func(p []string) bool { return len(p) == 0 }) {
			start := valueStart(body, dec.InputOffset())
			var value json.RawMessage
			_ = dec.Decode(&value) // the document is known to be valid
			found(start, dec.InputOffset(), value)
			return
		}
		token, err := dec.Token()
		if err != nil {
			return
		}
		switch token {
		case json.Delim('{'):
			for dec.More() {
				name, _ := dec.Token()
				member, _ := name.(string)
				walk(below(rest, member))
			}
			_, _ = dec.Token()
		case json.Delim('['):
			for i := 0; dec.More(); i++ {
				walk(below(rest, strconv.Itoa(i)))
			}
			_, _ = dec.Token()
		}
	}
	walk(paths)
}

// below keeps the paths that go through a member, shortened by it.
func below(paths [][]string, member string) [][]string {
	var out [][]string
	for _, p := range paths {
		if len(p) > 0 && p[0] == member {
			out = append(out, p[1:])
		}
	}
	return out
}

// valueStart skips what stands between two tokens.
func valueStart(body []byte, offset int64) int64 {
	for offset < int64(len(body)) && bytes.IndexByte([]byte(" \t\r\n:,"), body[offset]) >= 0 {
		offset++
	}
	return offset
}

// redactForm blanks the fields that are named by a path of one step.
func redactForm(body string, paths [][]string) ([]byte, bool) {
	fields := strings.Split(body, "&")
	for i, field := range fields {
		name, _, _ := strings.Cut(field, "=")
		decoded, err := url.QueryUnescape(name)
		if err != nil {
			return nil, false
		}
		if len(below(paths, decoded)) > 0 {
			fields[i] = name + "=" + url.QueryEscape(redacted)
		}
	}
	return []byte(strings.Join(fields, "&")), true
}
