package upstreams

import (
	"fmt"
	"maps"
	"mime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"executor/outcome"
)

// Input is what a command brings for its request.
type Input struct {
	Key                    string // the caller's idempotency key
	CommandID              uuid.UUID
	Params, Query, Headers map[string]string
	Body                   []byte
	HasBody                bool
	ContentType            string
}

// Request is a command as it goes on the wire, but for credentials. It is
// rendered once, at accept, and stored.
type Request struct {
	Method      string
	Path        string   // escaped path and query, that of the base URL included
	Headers     []Header // of profile, caller, key and content type; no credentials
	Body        []byte
	ContentType string
	Identity    Identity
}

// Identity is where the idempotency key goes, and the key. It is zero for
// operations that have none.
type Identity struct {
	In   string `json:"in"`
	Name string `json:"name"`
	Key  string `json:"key"`
}

// FieldError is one thing wrong with a submission. Pointer is a JSON pointer
// into its body.
type FieldError struct {
	Pointer string `json:"pointer"`
	Code    string `json:"code"` // required, unknown, forbidden, invalid, too_long or conflict
	Detail  string `json:"detail"`
}

// InputError lists everything wrong with a submission.
type InputError struct{ Fields []FieldError }

// Error names the first fields.
func (e *InputError) Error() string {
	var parts []string
	for _, f := range e.Fields {
		parts = append(parts, f.Pointer+" "+f.Detail)
	}
	return strings.Join(parts, "; ")
}

const maxTarget = 8 << 10 // bytes of path and query that servers commonly take

// Render makes the request of a command. The error is an *InputError.
func (o *Operation) Render(in Input) (Request, error) {
	r := &rendering{operation: o, input: in}
	key := r.key()
	request := Request{Method: o.Method, Identity: r.identity(key)}
	request.Path = r.target(key)
	request.Body, request.ContentType = r.body(key)
	request.Headers = r.headers(key, request.ContentType)
	if len(r.problems) > 0 {
		return Request{}, &InputError{r.problems}
	}
	return request, nil
}

// parameters lists the parameters that a command has to give.
func (o *Operation) parameters() []string {
	names := o.path.parameters()
	for _, q := range o.query {
		for _, name := range q.value.parameters() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// parameters lists what a lookup asks by.
func (l Lookup) parameters() []string {
	path, _ := parseTemplate(l.Path)
	names := path.parameters()
	for _, q := range l.Query {
		value, _ := parseTemplate(q.Value)
		names = append(names, value.parameters()...)
	}
	return names
}

// rendering is one request while it is made.
type rendering struct {
	operation *Operation
	input     Input
	problems  []FieldError
}

func (r *rendering) fail(pointer, code, detail string) {
	r.problems = append(r.problems, FieldError{pointer, code, detail})
}

// key gives the key as it goes on the wire, "" for operations without one.
func (r *rendering) key() string {
	i := r.operation.Idempotency
	if i.Kind != outcome.IdempotencyKeyed {
		return ""
	}
	key := r.input.Key
	if i.Key.From == KeyFromCommandID {
		key = r.input.CommandID.String()
	}
	switch length := utf8.RuneCountInString(key); {
	case key == "":
		r.fail("/idempotency_key", "required", "This operation needs an idempotency key.")
	case length > i.Key.MaxLength:
		r.fail("/idempotency_key", "too_long", fmt.Sprintf("The upstream takes keys of up to %d characters, this one has %d.", i.Key.MaxLength, length))
	case !validHeaderValue(key):
		r.fail("/idempotency_key", "invalid", "A key is printable ASCII without spaces at the ends.")
	}
	return key
}

func (r *rendering) identity(key string) Identity {
	if key == "" {
		return Identity{}
	}
	k := r.operation.Idempotency.Key
	return Identity{In: k.In, Name: k.Name, Key: key}
}

// target renders path and query.
func (r *rendering) target(key string) string {
	o := r.operation
	r.checkParameters()
	value := func(name string) string { return r.input.Params[name] }
	path := o.profile.Base.EscapedPath() + o.path.expand(func(name string) string { return escape(value(name)) })
	var query []string
	for _, q := range o.query {
		query = append(query, escape(q.name)+"="+escape(q.value.expand(value)))
	}
	for _, name := range slices.Sorted(maps.Keys(r.input.Query)) {
		switch v := r.input.Query[name]; {
		case !slices.Contains(o.CallerQuery, name):
			r.fail(pointer("query", name), "forbidden", "The profile does not let callers set this query parameter"+listed(o.CallerQuery)+".")
		case !plainText(v):
			r.fail(pointer("query", name), "invalid", "Control characters and broken UTF-8 are refused.")
		default:
			query = append(query, escape(name)+"="+escape(v))
		}
	}
	if k := o.Idempotency.Key; key != "" && k.In == KeyInQuery {
		query = append(query, escape(k.Name)+"="+escape(key))
	}
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	if len(path) > maxTarget {
		r.fail("/params", "too_long", fmt.Sprintf("Path and query have %d bytes, at most %d are sent.", len(path), maxTarget))
	}
	return path
}

// checkParameters refuses values that would make another path: an empty segment,
// "." and "..", which servers resolve, and control characters. Everything else
// is escaped.
func (r *rendering) checkParameters() {
	known := r.operation.parameters()
	for _, name := range known {
		v, given := r.input.Params[name]
		switch {
		case !given:
			r.fail(pointer("params", name), "required", "The path needs this parameter.")
		case v == "":
			r.fail(pointer("params", name), "invalid", "An empty value would change the path.")
		case v == "." || v == "..":
			r.fail(pointer("params", name), "invalid", fmt.Sprintf("%q would change the path.", v))
		case !plainText(v):
			r.fail(pointer("params", name), "invalid", "Control characters and broken UTF-8 are refused.")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.input.Params)) {
		if !slices.Contains(known, name) {
			r.fail(pointer("params", name), "unknown", "The operation has no such parameter"+listed(known)+".")
		}
	}
}

func listed(names []string) string {
	if len(names) == 0 {
		return "; there are none"
	}
	return "; there are " + strings.Join(names, ", ")
}

func plainText(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, unicode.IsControl) < 0
}

// headers joins those of profile, caller, key and content type.
func (r *rendering) headers(key, contentType string) []Header {
	o := r.operation
	headers := slices.Clone(o.profile.Headers)
	seen := map[string]bool{}
	for _, given := range slices.Sorted(maps.Keys(r.input.Headers)) {
		name, v := canonicalHeader(given), r.input.Headers[given]
		switch {
		case !slices.Contains(o.CallerHeaders, name):
			r.fail(pointer("headers", given), "forbidden", "The profile does not let callers set this header"+listed(o.CallerHeaders)+".")
		case !validHeaderValue(v):
			r.fail(pointer("headers", given), "invalid", "A header value is printable ASCII without spaces at the ends.")
		case seen[name]:
			r.fail(pointer("headers", given), "invalid", "The header is given twice, in two spellings.")
		default:
			seen[name] = true
			headers = setHeader(headers, name, v)
		}
	}
	if k := o.Idempotency.Key; key != "" && k.In == KeyInHeader {
		headers = setHeader(headers, k.Name, key)
	}
	if contentType != "" {
		headers = append(headers, Header{"Content-Type", contentType})
	}
	return headers
}

// body encodes the body and puts the key into it, if that is its place.
func (r *rendering) body(key string) ([]byte, string) {
	o := r.operation
	switch {
	case o.Body == BodyNone && r.input.HasBody:
		r.fail("/body", "forbidden", "This operation has no body.")
		return nil, ""
	case o.Body == BodyNone:
		return nil, ""
	case !r.input.HasBody:
		r.fail("/body", "required", "This operation needs a body ("+o.Body+").")
		return nil, ""
	}
	if o.Idempotency.Key.In != KeyInBody {
		key = ""
	}
	media, parameters, err := mime.ParseMediaType(r.input.ContentType)
	if r.input.ContentType != "" && (err != nil || !validHeaderValue(r.input.ContentType)) {
		r.fail("/content_type", "invalid", "This is not a content type.")
		return nil, ""
	}
	switch o.Body {
	case BodyRaw:
		return r.input.Body, orDefault(r.input.ContentType, "application/octet-stream")
	case BodyForm:
		return r.form(key, media)
	default:
		return r.json(key, media, parameters)
	}
}

func orDefault(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

func isJSONType(media string) bool {
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// json sends the bytes as they came.
func (r *rendering) json(key, media string, parameters map[string]string) ([]byte, string) {
	if media != "" && !isJSONType(media) || parameters["charset"] != "" && !strings.EqualFold(parameters["charset"], "utf-8") {
		r.fail("/content_type", "invalid", "This operation sends JSON in UTF-8.")
		return nil, ""
	}
	if _, err := decodeJSON(r.input.Body, len(r.input.Body)); err != nil {
		r.fail("/body", "invalid", "The body "+err.Error()+".")
		return nil, ""
	}
	body := r.input.Body
	if key != "" {
		tokens, _ := parsePointer(r.operation.Idempotency.Key.Name)
		var bad *FieldError
		if body, bad = insertMember(body, tokens, key); bad != nil {
			r.problems = append(r.problems, *bad)
		}
	}
	return body, orDefault(r.input.ContentType, "application/json")
}
