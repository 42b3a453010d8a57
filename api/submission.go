package api

import (
	"encoding/base64"
	"time"

	"executor/commands"
)

// Limits of a submission's own fields.
const (
	maxKey           = 255
	maxName          = 100 // of an upstream or operation
	maxMetadata      = 50
	maxMetadataName  = 40
	maxMetadataValue = 500
	maxText          = 1 << 20 // of a parameter; the body's limit is the smaller one
	maxContentType   = 255
	maxBatch         = 1000
)

// decodeSubmission reads the body of a submit.
func decodeSubmission(src []byte) (commands.Submission, error) {
	var sub commands.Submission
	err := decodeObject(src, func(r *jsonReader, fields *complaints) error {
		d := submissionReader{r: r, fields: fields}
		err := d.read()
		sub = d.sub
		return err
	})
	return sub, err
}

// batchItem is one item of a batch: a submission, or what is wrong with it.
type batchItem struct {
	sub   commands.Submission
	bytes int // of its JSON
	err   error
}

// decodeBatch reads the body of a batch. What is wrong with one item is that
// item's own error; the document as a whole has to be right.
func decodeBatch(src []byte) ([]batchItem, error) {
	var (
		items []batchItem
		found bool
		count int
	)
	err := decodeObject(src, func(r *jsonReader, fields *complaints) error {
		err := r.object(func(name []byte) error {
			if string(name) != "commands" {
				return fields.unknown(r, name)
			}
			found = true
			if r.kind() != '[' {
				return fields.here(r, "type", "This field is an array of commands.")
			}
			return r.array(func(int) error {
				if count++; count > maxBatch {
					return r.skip()
				}
				item, err := decodeItem(r)
				items = append(items, item)
				return err
			})
		})
		switch {
		case err != nil:
		case !found:
			fields.add("/commands", "required", "A batch needs its commands.")
		case count == 0 && len(fields.list) == 0:
			fields.add("/commands", "too_few", "A batch has at least one command.")
		case count > maxBatch:
			fields.add("/commands", "too_many", "A batch has %d commands at most.", maxBatch)
		}
		return err
	})
	return items, err
}

// decodeItem reads one item of a batch.
func decodeItem(r *jsonReader) (batchItem, error) {
	d := submissionReader{r: r, fields: &complaints{}, withKey: true}
	var err error
	kind, start := r.kind(), r.pos
	if kind == '{' {
		err = d.read()
	} else {
		err = d.fields.here(r, "type", "A command is an object.")
	}
	return batchItem{sub: d.sub, bytes: r.pos - start, err: d.fields.err()}, err
}

// submissionReader reads one submission. A member that is null counts as left
// out.
type submissionReader struct {
	r       *jsonReader
	fields  *complaints
	withKey bool // an item of a batch, which carries its own key
	sub     commands.Submission

	hasBase64  bool
	hasTimeout bool
}

func (d *submissionReader) read() error {
	base := d.r.pointer()
	seen := make(map[string]bool, 3)
	err := d.r.object(func(name []byte) error {
		switch string(name) {
		case "upstream", "operation", "idempotency_key":
			seen[string(name)] = true
		default:
			if d.r.kind() == 'n' {
				return d.null(name)
			}
		}
		return d.member(name)
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"upstream", "operation", "idempotency_key"} {
		if !seen[name] && (name != "idempotency_key" || d.withKey) {
			d.fields.add(base+"/"+name, "required", "The field %s is required.", name)
		}
	}
	d.oneBody(base)
	d.sub.HasBody = d.sub.HasBody || d.hasBase64
	if d.sub.Deadline != nil && d.hasTimeout {
		d.fields.add(base+"/timeout", "exclusive", "Give deadline or timeout, not both.")
	}
	return nil
}

// null reads a null: a known member is left out by it.
func (d *submissionReader) null(name []byte) error {
	switch string(name) {
	case "params", "query", "headers", "body", "body_base64", "body_ref", "parts", "body_kind", "content_type", "deadline", "timeout", "not_before", "priority", "metadata":
		return d.r.skip()
	}
	return d.fields.unknown(d.r, name)
}

// member reads the value of one member.
func (d *submissionReader) member(name []byte) (err error) {
	r, fields, sub := d.r, d.fields, &d.sub
	switch string(name) {
	case "upstream":
		sub.Upstream, err = d.required(maxName)
	case "operation":
		sub.Operation, err = d.required(maxName)
	case "idempotency_key":
		if !d.withKey {
			return fields.here(r, "unknown_field", "The key of a single command goes into the header Idempotency-Key.")
		}
		err = d.key()
	case "params":
		sub.Params, err = d.texts(true)
	case "query":
		sub.Query, err = d.texts(true)
	case "headers":
		sub.Headers, err = d.texts(false)
	case "body":
		sub.HasBody = true
		var raw []byte
		if raw, err = r.raw(); !d.hasBase64 {
			sub.Body = raw
		}
	case "body_base64":
		sub.Body, d.hasBase64, err = d.base64(sub.Body)
	case "body_ref":
		sub.BodyFile, err = d.file()
	case "parts":
		err = d.parts()
	case "body_kind":
		err = d.bodyKind()
	case "content_type":
		sub.ContentType, err = d.contentType()
	case "deadline":
		sub.Deadline, err = d.moment()
	case "timeout":
		err = d.timeout()
	case "not_before":
		sub.NotBefore, err = d.moment()
	case "priority":
		err = d.priority()
	case "metadata":
		err = d.metadata()
	default:
		err = fields.unknown(r, name)
	}
	return err
}

// required reads a text that must not be empty.
func (d *submissionReader) required(max int) (string, error) {
	value, ok, err := textField(d.r, d.fields, max)
	if ok && value == "" {
		d.fields.add(d.r.pointer(), "required", "This field must not be empty.")
	}
	return value, err
}

func (d *submissionReader) key() error {
	value, ok, err := textField(d.r, d.fields, maxKey)
	if ok && !printable(value) {
		d.fields.add(d.r.pointer(), "invalid", "A key has 1 to %d printable ASCII characters.", maxKey)
	}
	d.sub.Key = value
	return err
}

// texts reads an object of texts. With literals, numbers and booleans are taken
// as they are written.
func (d *submissionReader) texts(literals bool) (map[string]string, error) {
	if d.r.kind() != '{' {
		return nil, d.fields.here(d.r, "type", "This field is an object.")
	}
	texts := make(map[string]string)
	err := d.r.object(func(name []byte) error {
		if !d.textName(name, maxName) {
			return d.r.skip()
		}
		switch c := d.r.kind(); {
		case literals && (c == '-' || '0' <= c && c <= '9' || c == 't' || c == 'f'):
			raw, err := d.r.raw()
			texts[string(name)] = string(raw)
			return err
		case literals && c != '"':
			return d.fields.here(d.r, "type", "A value here is a string, a number or a boolean.")
		}
		value, _, err := textField(d.r, d.fields, maxText)
		texts[string(name)] = value
		return err
	})
	return texts, err
}

// textName checks a name that becomes text of ours.
func (d *submissionReader) textName(name []byte, max int) bool {
	before := len(d.fields.list)
	switch bad := badText(name); {
	case bad != "":
		d.fields.add(d.r.pointer(), bad, "A name must be text without NUL characters and half surrogate pairs.")
	case len(name) == 0:
		d.fields.add(d.r.pointer(), "required", "A name must not be empty.")
	case longer(string(name), max):
		d.fields.add(d.r.pointer(), "too_long", "A name here has %d characters at most.", max)
	}
	return len(d.fields.list) == before
}

// base64 reads bytes; what is wrong leaves those from before.
func (d *submissionReader) base64(before []byte) (body []byte, ok bool, err error) {
	value, ok, err := textField(d.r, d.fields, maxText*16)
	if err != nil || !ok {
		return before, false, err
	}
	body, err = base64.StdEncoding.Strict().DecodeString(value)
	if err != nil {
		d.fields.add(d.r.pointer(), "format", "This field is standard base64 with padding.")
		return before, false, nil
	}
	return body, true, nil
}

func (d *submissionReader) contentType() (string, error) {
	value, ok, err := textField(d.r, d.fields, maxContentType)
	if ok && !printable(value) {
		d.fields.add(d.r.pointer(), "format", "A content type is a media type such as text/plain.")
		return "", err
	}
	return value, err
}

// moment reads a time.
func (d *submissionReader) moment() (*time.Time, error) {
	value, ok, err := textField(d.r, d.fields, maxName)
	if err != nil || !ok {
		return nil, err
	}
	t, err := time.Parse(time.RFC3339, value)
	if err != nil {
		d.fields.add(d.r.pointer(), "format", "This field is a time such as 2026-12-01T00:00:00Z.")
		return nil, nil
	}
	return &t, nil
}

func (d *submissionReader) timeout() error {
	d.hasTimeout = true
	value, ok, err := textField(d.r, d.fields, maxName)
	if err != nil || !ok {
		return err
	}
	timeout, err := time.ParseDuration(value)
	if err != nil || timeout <= 0 {
		d.fields.add(d.r.pointer(), "format", "This field is a positive duration such as 90s or 15m.")
		return nil
	}
	d.sub.Timeout = timeout
	return nil
}

func (d *submissionReader) priority() error {
	value, ok, err := textField(d.r, d.fields, maxName)
	if err != nil || !ok {
		return err
	}
	for _, p := range commands.Priorities() {
		if value == string(p) {
			d.sub.Priority = p
			return nil
		}
	}
	d.fields.add(d.r.pointer(), "unknown_value", "A priority is high, normal or low.")
	return nil
}

func (d *submissionReader) metadata() error {
	if d.r.kind() != '{' {
		return d.fields.here(d.r, "type", "This field is an object of strings.")
	}
	d.sub.Metadata = make(map[string]string)
	pointer := d.r.pointer()
	err := d.r.object(func(name []byte) error {
		if !d.textName(name, maxMetadataName) {
			return d.r.skip()
		}
		value, _, err := textField(d.r, d.fields, maxMetadataValue)
		d.sub.Metadata[string(name)] = value
		return err
	})
	if len(d.sub.Metadata) > maxMetadata {
		d.fields.add(pointer, "too_many", "Metadata has %d names at most.", maxMetadata)
	}
	return err
}

// printable reports whether s is printable ASCII and not empty.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}
