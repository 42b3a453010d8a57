package upstreams

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"executor/internal/bodyfiles"
	"executor/outcome"
)

// Input is what a command brings for its request.
type Input struct {
	Key                    string // the caller's idempotency key
	CommandID              uuid.UUID
	Params, Query, Headers map[string]string
	Body                   []byte
	HasBody                bool
	BodyFile               *bodyfiles.File // instead of Body
	Parts                  []Part          // instead of Body, of a multipart body
	ContentType            string
}

// Request is a command as it goes on the wire, but for credentials. It is
// rendered once, at accept, and stored.
type Request struct {
	Method      string
	Path        string   // escaped path and query, that of the base URL included
	Headers     []Header // of profile, caller, key and content type; no credentials
	Body        []byte
	Files       []bodyfiles.Placed // sent within Body, in order
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

// Render makes the request of a command. The error is an *InputError.
func (o *Operation) Render(in Input) (Request, error) {
	r := &rendering{operation: o, input: in}
	key := r.key()
	request := Request{Method: o.Method, Identity: r.identity(key)}
	request.Path = r.target(key)
	request.Body, request.ContentType = r.body(key)
	request.Files = r.files
	request.Headers = r.headers(key, request.ContentType)
	if len(r.problems) > 0 {
		return Request{}, &InputError{r.problems}
	}
	return request, nil
}

// rendering is one request while it is made.
type rendering struct {
	operation *Operation
	input     Input
	files     []bodyfiles.Placed
	fileBytes int64
	problems  []FieldError
}

// maxInputProblems bounds what is said of a hopeless submission: each name in it may
// be one too many, and what is said of it much longer than it is.
const maxInputProblems = 100

func (r *rendering) fail(pointer, code, detail string) {
	if len(r.problems) < maxInputProblems {
		r.problems = append(r.problems, FieldError{pointer, code, detail})
	}
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
