package commands

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"executor/internal/bodyfiles"
	"executor/outcome"
	"executor/upstreams"
)

// Asked is what a command asks of its upstream, as far as people may see it.
type Asked struct {
	Method      string
	Path        string             // escaped path and query, that of the base URL included
	Headers     []upstreams.Header // without credentials, redacted
	Body        []byte             // as it is sent, redacted; the beginning of it, if it is cut
	BodyBytes   int64              // of the whole body
	Cut         bool
	Kind        outcome.Body       // of a one-shot body nothing is kept
	Files       []bodyfiles.Placed // sent within the body
	ContentType string
	By          string // who submitted it

	// Submission is the one that gives this command again: the same key, and the
	// same request. Lost names the parts of it that are not kept as they came or may
	// not be shown; without them the repeat would be refused.
	Submission Submission
	Lost       []string
}

// askedRow is what is kept of a submission.
type askedRow struct {
	Method, Path, ContentType, SubmittedBy string
	KeyIn, KeyName, WireKey                string
	Headers                                []upstreams.Header
	Params, Metadata                       map[string]string
	Body                                   []byte
	BodyBytes                              int64
	BodyKind                               outcome.Body
	Files                                  []bodyfiles.Placed
	FieldHashes                            []byte
}

// Asked reads it. A body that is longer than so many bytes is cut there.
func (s *Store) Asked(ctx context.Context, c Command, bytes int) (Asked, error) {
	var r askedRow
	err := s.pool.QueryRow(ctx, `
		SELECT method, path, content_type, submitted_by, key_in, key_name, wire_key, headers, params, metadata,
			substring(body FROM 1 FOR $3), octet_length(body), body_kind, coalesce(body_files, '[]'), field_hashes
		FROM command_requests WHERE tenant = $1 AND command_id = $2`, c.Tenant, c.ID, bytes).Scan(
		&r.Method, &r.Path, &r.ContentType, &r.SubmittedBy, &r.KeyIn, &r.KeyName, &r.WireKey, &r.Headers, &r.Params, &r.Metadata,
		&r.Body, &r.BodyBytes, &r.BodyKind, &r.Files, &r.FieldHashes)
	if errors.Is(err, pgx.ErrNoRows) {
		return Asked{}, ErrNotFound
	}
	if err != nil {
		return Asked{}, unavailable("read a request", err)
	}
	op, err := s.Operation(ctx, c.UpstreamID, c.ProfileVersion, c.Operation)
	var unreadable *upstreams.ParseError
	if errors.As(err, &unreadable) { // nobody can say any more what of it may be shown
		return Asked{Method: r.Method, Path: r.Path, BodyBytes: r.BodyBytes, Cut: r.BodyBytes > 0, Kind: r.BodyKind, Files: r.Files, ContentType: r.ContentType, By: r.SubmittedBy, Lost: identityFields}, nil
	}
	if err != nil {
		return Asked{}, err
	}
	return r.asked(c, op), nil
}

// asked is the row without what the profile keeps from people.
func (r askedRow) asked(c Command, op *upstreams.Operation) Asked {
	a := Asked{
		Method: r.Method, Path: r.Path, Headers: op.Redact(r.Headers), Body: op.RedactBody(r.Body, true), BodyBytes: r.BodyBytes,
		Cut: r.BodyBytes > int64(len(r.Body)), Kind: r.BodyKind, Files: r.Files, ContentType: r.ContentType, By: r.SubmittedBy,
	}
	a.Submission = Submission{
		Tenant: c.Tenant, Key: c.Key, Upstream: c.Upstream, Operation: c.Operation, Params: r.Params, Priority: c.Priority, Metadata: r.Metadata,
	}
	for _, field := range identityFields {
		if !r.recover(field, &a.Submission, op) || !a.shows(field, r, op) {
			a.Lost = append(a.Lost, field)
		}
	}
	return a
}

// shows reports whether nothing of a field is redacted.
func (a Asked) shows(field string, r askedRow, op *upstreams.Operation) bool {
	switch field {
	case "body":
		return bytes.Equal(a.Body, r.Body)
	case "headers":
		return maps.Equal(callerHeaders(a.Headers, op), callerHeaders(r.Headers, op))
	default:
		return true
	}
}

// recover puts one field of the submission together again. The hash of the field
// tells whether it is the one that came: what the operation added is a guess until
// then.
func (r askedRow) recover(field string, s *Submission, op *upstreams.Operation) bool {
	switch field {
	case "query":
		s.Query = r.query(op)
		return r.came(field, flatten(s.Query))
	case "headers":
		s.Headers = callerHeaders(r.Headers, op)
		return r.came(field, flatten(canonicalHeaders(s.Headers)))
	case "content_type":
		if r.came(field, nil) {
			return true
		}
		s.ContentType = r.ContentType
		return r.came(field, []byte(s.ContentType))
	case "body":
		return r.body(s)
	case "params":
		return r.came(field, flatten(s.Params))
	default:
		return true // upstream and operation are the command's own
	}
}

// came reports whether the field was submitted like this.
func (r askedRow) came(field string, value []byte) bool {
	at := slices.Index(identityFields, field) * sha256.Size
	sum := sha256.Sum256(value)
	return at >= 0 && len(r.FieldHashes) >= at+sha256.Size && bytes.Equal(sum[:], r.FieldHashes[at:at+sha256.Size])
}

// query is what the caller may have set of the query.
func (r askedRow) query(op *upstreams.Operation) map[string]string {
	given := map[string]string{}
	_, text, _ := strings.Cut(r.Path, "?")
	values, err := url.ParseQuery(text)
	if err != nil {
		return given
	}
	for _, name := range op.CallerQuery {
		if list := values[name]; len(list) > 0 {
			given[name] = list[0]
		}
	}
	return given
}

// callerHeaders is what the caller may have set of the headers.
func callerHeaders(headers []upstreams.Header, op *upstreams.Operation) map[string]string {
	given := map[string]string{}
	for _, h := range headers {
		if slices.Contains(op.CallerHeaders, h.Name) {
			given[h.Name] = h.Value
		}
	}
	return given
}

// body finds the one that came: none, the one that is sent, or that without the key
// that was written into it.
func (r askedRow) body(s *Submission) bool {
	switch {
	case r.BodyKind == outcome.BodyOneShot:
		s.HasBody, s.OneShot = true, true
		return false
	case r.came("body", bodyValue(Submission{})):
		return true
	case len(r.Files) == 1 && r.came("body", bodyValue(Submission{BodyFile: &r.Files[0].File})):
		s.BodyFile = &r.Files[0].File
		return true
	}
	s.HasBody = true
	if int64(len(r.Body)) < r.BodyBytes {
		return false
	}
	for _, candidate := range r.withoutKey() {
		if r.came("body", bodyValue(Submission{HasBody: true, Body: candidate})) {
			s.Body = candidate
			return true
		}
	}
	return false
}

// withoutKey lists what the body may have been before the key was written into it.
func (r askedRow) withoutKey() [][]byte {
	candidates := [][]byte{r.Body}
	if r.KeyIn != upstreams.KeyInBody {
		return candidates
	}
	name := r.KeyName[strings.LastIndex(r.KeyName, "/")+1:]
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	member := fmt.Sprintf("%s:%s", quoted(name), quoted(r.WireKey))
	for _, part := range []string{"," + member, member} {
		if at := bytes.LastIndex(r.Body, []byte(part)); at >= 0 {
			candidates = append(candidates, slices.Concat(r.Body[:at], r.Body[at+len(part):]))
		}
	}
	return candidates
}

// quoted is a JSON string in which nothing is escaped that need not be.
func quoted(text string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
