package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Submission asks for one command.
type Submission struct {
	// Key is the idempotency key, 1 to 255 printable ASCII characters; NewKey if
	// empty. The same key with the same request is the same command.
	Key       string
	Upstream  string
	Operation string
	Params    map[string]string
	Query     map[string]string
	Headers   map[string]string
	// Body is JSON and goes to the upstream byte for byte. Other bodies are
	// BodyBytes with their ContentType, BodyFile or Parts; one of the four at most.
	Body      json.RawMessage
	BodyBytes []byte
	// BodyFile is a file of the service, below the tenant's folder, for operations
	// with a raw body. It is not stored with the command but opened at each attempt.
	BodyFile *BodyFile
	// Parts make a multipart body (RFC 7578), for operations that have one.
	Parts []Part
	// OneShot keeps the body in the memory of the process that accepts it. It is sent
	// once at most; should that process end before, the command ends cancelled.
	OneShot     bool
	ContentType string
	// Deadline or Timeout, one at most, end the attempts; the profile has a default.
	Deadline  time.Time
	Timeout   time.Duration
	NotBefore time.Time // no attempt starts before it
	Priority  Priority
	Metadata  map[string]string
	// Wait lets a single submit wait for a final state, in whole seconds and up to
	// the service's limit of 30. See also Client.Run.
	Wait time.Duration
}

// BodyFile refers to a file of the service. One that has another size or other
// bytes is never sent.
type BodyFile struct {
	Path   string `json:"path"`   // relative, with slashes
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // 64 lower-case hex digits
}

// Part is one part of a multipart body. Its content is one of Value, JSON, Bytes and
// File.
type Part struct {
	Name        string
	Filename    string
	ContentType string
	Value       string          // text, also where all four are empty
	JSON        json.RawMessage // sent byte for byte
	Bytes       []byte
	File        *BodyFile
	OneShot     bool // makes the whole body so
}

// Accepted is a command that exists for good.
type Accepted struct {
	Command  Command
	Replayed bool // it existed before, under the same key
}

// NewKey returns a random key. One from the caller's own data, such as an order
// number, is better where there is one: it survives a crash of the caller.
func NewKey() string { return rand.Text() }

// Submit has the command accepted, which makes it durable. It repeats by itself
// where the answer is lost. An *Unconfirmed says that the acceptance is not
// known; any other error, a *Problem, an *Invalid or a failure to connect, that
// the command was not accepted.
func (c *Client) Submit(ctx context.Context, s Submission) (Accepted, error) {
	if s.Key == "" {
		s.Key = NewKey()
	}
	r, err := s.call()
	if err != nil {
		return Accepted{}, err
	}
	if s.Wait > 0 {
		r.wait = s.Wait
		r.headers["Prefer"] = fmt.Sprintf("wait=%d", seconds(s.Wait))
	}
	res, err := c.do(ctx, r)
	if err != nil {
		return Accepted{}, unconfirmed(s.Key, err)
	}
	accepted := Accepted{Replayed: res.header.Get("Idempotent-Replayed") == "true"}
	if err := json.Unmarshal(res.body, &accepted.Command); err != nil {
		return Accepted{}, &Unconfirmed{s.Key, fmt.Errorf("read the answer: %w", err)}
	}
	return accepted, nil
}

// Run submits and waits for the outcome. If ctx ends first, the error is ctx's
// and the command is as it was last seen.
func (c *Client) Run(ctx context.Context, s Submission) (Command, error) {
	if left := within(ctx, longestPoll); s.Wait == 0 && left > time.Second {
		s.Wait = left - time.Second // the rest is for the answer
	}
	accepted, err := c.Submit(ctx, s)
	if err != nil || accepted.Command.Final {
		return accepted.Command, err
	}
	cmd, err := c.Wait(ctx, accepted.Command.ID)
	if err != nil && cmd.ID == "" {
		cmd = accepted.Command
	}
	return cmd, err
}

// Preview is what a submit would send. Credentials are added at each attempt and
// are not shown.
type Preview struct {
	Request        PreviewRequest
	Deadline       time.Time
	ProfileVersion int
	Identity       *Identity // where the key goes; nil if nowhere
	Existing       *Command  // the command that the key already belongs to

	document json.RawMessage
}

// JSON is the preview as the service wrote it.
func (p Preview) JSON() json.RawMessage { return p.document }

// PreviewRequest is the request as it would go out.
type PreviewRequest struct {
	Method      string
	URL         string
	Headers     []Header // in order
	ContentType string
	Body        []byte // without the files
	BodyBytes   int64  // of the whole body, with them
	BodyKind    BodyKind
	BodyFiles   []PlacedFile
}

// PlacedFile is a file that is sent after so many bytes of the body shown.
type PlacedFile struct {
	At int64 `json:"at"`
	BodyFile
}

// Header is one line of a request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// DryRun has the submission checked and rendered; nothing is accepted.
func (c *Client) DryRun(ctx context.Context, s Submission) (Preview, error) {
	if s.Key == "" {
		s.Key = NewKey()
	}
	r, err := s.call()
	if err != nil {
		return Preview{}, err
	}
	r.query = url.Values{"dry_run": {"true"}}
	d, res, err := read[previewDocument](ctx, c, r)
	return Preview{
		PreviewRequest{d.Request.Method, d.Request.URL, d.Request.Headers, d.Request.ContentType, d.Request.payload.bytes(), d.Request.BodyBytes, d.Request.BodyKind, d.Request.BodyFiles},
		d.Deadline, d.ProfileVersion, d.Identity, d.Existing, res.body,
	}, err
}

type previewDocument struct {
	Request struct {
		Method      string   `json:"method"`
		URL         string   `json:"url"`
		Headers     []Header `json:"headers"`
		ContentType string   `json:"content_type"`
		payload
		BodyBytes int64        `json:"body_bytes"`
		BodyKind  BodyKind     `json:"body_kind"`
		BodyFiles []PlacedFile `json:"body_files"`
	} `json:"request"`
	Deadline       time.Time `json:"deadline"`
	ProfileVersion int       `json:"profile_version"`
	Identity       *Identity `json:"operation_identity"`
	Existing       *Command  `json:"existing"`
}

// BatchResult is what became of one item: Accepted, or Err, a *Problem.
type BatchResult struct {
	Accepted Accepted
	Err      error
}

// MaxBatch is how many submissions one batch takes.
const MaxBatch = 1000

// SubmitBatch has up to MaxBatch commands accepted, each on its own, and returns
// their results in the same order. Items without a key get one, in place, so that
// the slice can be submitted again: if the error is an *Unconfirmed, that is safe.
func (c *Client) SubmitBatch(ctx context.Context, items []Submission) ([]BatchResult, error) {
	if len(items) == 0 {
		return nil, nil
	}
	var body bytes.Buffer
	body.WriteString(`{"commands":[`)
	for i := range items {
		if items[i].Key == "" {
			items[i].Key = NewKey()
		}
		document, err := items[i].document(items[i].Key)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(document)
	}
	body.WriteString("]}")
	res, err := c.do(ctx, call{method: http.MethodPost, path: path("commands", "batch"), body: body.Bytes(), repeat: true})
	if err != nil {
		return nil, unconfirmed(items[0].Key, err)
	}
	results, err := readBatch(res.body, len(items))
	if err != nil {
		return nil, &Unconfirmed{items[0].Key, err}
	}
	return results, nil
}

func readBatch(body []byte, items int) ([]BatchResult, error) {
	var d struct {
		Results []struct {
			Index   int      `json:"index"`
			Status  int      `json:"status"`
			Command *Command `json:"command"`
			Problem *Problem `json:"problem"`
		} `json:"results"`
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, fmt.Errorf("read the results: %w", err)
	}
	results := make([]BatchResult, items)
	for i := range results {
		results[i].Err = errors.New("the service gave no result for this item; submit it again with the same key")
	}
	for _, r := range d.Results {
		switch {
		case r.Index < 0 || r.Index >= items:
		case r.Command != nil:
			results[r.Index] = BatchResult{Accepted: Accepted{*r.Command, r.Status == http.StatusOK}}
		case r.Problem != nil:
			r.Problem.Status = r.Status
			results[r.Index].Err = r.Problem
		}
	}
	return results, nil
}

// unconfirmed keeps a certain refusal as it is.
func unconfirmed(key string, err error) error {
	var u errUncertain
	if errors.As(err, &u) {
		return &Unconfirmed{key, u.error}
	}
	return err
}

const maxKey = 255

func (s Submission) call() (call, error) {
	if len(s.Key) > maxKey || strings.ContainsFunc(s.Key, func(c rune) bool { return c < ' ' || c > '~' }) {
		return call{}, &Invalid{"Key", fmt.Sprintf("the key is %q: use 1 to %d printable ASCII characters", s.Key, maxKey)}
	}
	document, err := s.document("")
	return call{
		method: http.MethodPost, path: path("commands"), body: document, repeat: true,
		headers: map[string]string{"Idempotency-Key": s.Key},
	}, err
}

// document is the submission on the wire. The body stands in it byte for byte,
// which json.Marshal would not leave it.
func (s Submission) document(key string) ([]byte, error) {
	if s.bodies() > 1 {
		return nil, &Invalid{"Body", "a submission has one of Body, BodyBytes, BodyFile and Parts"}
	}
	if s.Body != nil && !json.Valid(s.Body) {
		return nil, &Invalid{"Body", "the field Body is not JSON; send it as BodyBytes with its ContentType"}
	}
	envelope, err := json.Marshal(submissionDocument{
		Key: key, Upstream: s.Upstream, Operation: s.Operation, Params: s.Params, Query: s.Query, Headers: s.Headers,
		BodyBase64: s.base64(), BodyRef: s.BodyFile, BodyKind: kindOf(s.OneShot), ContentType: s.ContentType, Deadline: moment(s.Deadline), Timeout: span(s.Timeout), NotBefore: moment(s.NotBefore),
		Priority: s.Priority, Metadata: s.Metadata,
	})
	switch {
	case err != nil:
		return nil, err
	case s.Body != nil:
		return withMember(envelope, "body", s.Body), nil
	case s.Parts != nil:
		parts, err := partsDocument(s.Parts)
		return withMember(envelope, "parts", parts), err
	default:
		return envelope, nil
	}
}

// withMember puts a member in front of an object's others, byte for byte.
func withMember(object []byte, name string, value []byte) []byte {
	return bytes.Join([][]byte{[]byte(`{"` + name + `":`), value, []byte(`,`), object[1:]}, nil)
}

func (s Submission) bodies() (n int) {
	for _, given := range []bool{s.Body != nil, s.BodyBytes != nil, s.BodyFile != nil, s.Parts != nil} {
		if given {
			n++
		}
	}
	return n
}

func kindOf(oneShot bool) BodyKind {
	if oneShot {
		return BodyOneShot
	}
	return ""
}

// partsDocument writes the parts as the service takes them.
func partsDocument(parts []Part) ([]byte, error) {
	documents := make([][]byte, len(parts))
	for i, p := range parts {
		d := partDocument{Name: p.Name, Filename: p.Filename, ContentType: p.ContentType, BodyRef: p.File, BodyKind: kindOf(p.OneShot)}
		given := 0
		for _, content := range []bool{p.Value != "", p.JSON != nil, p.Bytes != nil, p.File != nil} {
			if content {
				given++
			}
		}
		switch {
		case given > 1:
			return nil, &Invalid{"Parts", fmt.Sprintf("part %d has more than one of Value, JSON, Bytes and File", i)}
		case p.JSON != nil && !json.Valid(p.JSON):
			return nil, &Invalid{"Parts", fmt.Sprintf("the JSON of part %d is not JSON", i)}
		case p.Bytes != nil:
			d.BodyBase64 = &p.Bytes
		case p.JSON == nil && p.File == nil:
			d.Value = &p.Value
		}
		var err error
		if documents[i], err = json.Marshal(d); err != nil {
			return nil, err
		}
		if p.JSON != nil {
			documents[i] = withMember(documents[i], "body", p.JSON)
		}
	}
	return slices.Concat([]byte{'['}, bytes.Join(documents, []byte{','}), []byte{']'}), nil
}

type partDocument struct {
	Name        string    `json:"name"`
	Filename    string    `json:"filename,omitempty"`
	ContentType string    `json:"content_type,omitempty"`
	Value       *string   `json:"value,omitempty"`
	BodyBase64  *[]byte   `json:"body_base64,omitempty"`
	BodyRef     *BodyFile `json:"body_ref,omitempty"`
	BodyKind    BodyKind  `json:"body_kind,omitempty"`
}

type submissionDocument struct {
	Key         string            `json:"idempotency_key,omitempty"`
	Upstream    string            `json:"upstream"`
	Operation   string            `json:"operation"`
	Params      map[string]string `json:"params,omitempty"`
	Query       map[string]string `json:"query,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	BodyBase64  *[]byte           `json:"body_base64,omitempty"`
	BodyRef     *BodyFile         `json:"body_ref,omitempty"`
	BodyKind    BodyKind          `json:"body_kind,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Deadline    string            `json:"deadline,omitempty"`
	Timeout     string            `json:"timeout,omitempty"`
	NotBefore   string            `json:"not_before,omitempty"`
	Priority    Priority          `json:"priority,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
}

// base64 keeps an empty body apart from none.
func (s Submission) base64() *[]byte {
	if s.BodyBytes == nil {
		return nil
	}
	return &s.BodyBytes
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// seconds rounds up, so that a short wait is not none.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
