package api

import (
	"strconv"

	"executor/internal/bodyfiles"
	"executor/outcome"
	"executor/upstreams"
)

const maxPath = 1000 // characters of a file's path

// oneBody refuses a submission with several bodies.
func (d *submissionReader) oneBody(base string) {
	given := ""
	for _, body := range []struct {
		name  string
		given bool
	}{{"body", d.sub.HasBody}, {"body_base64", d.hasBase64}, {"body_ref", d.sub.BodyFile != nil}, {"parts", d.sub.Parts != nil}} {
		switch {
		case !body.given:
		case given != "":
			d.fields.add(base+"/"+body.name, "exclusive", "Give %s or %s, not both.", given, body.name)
		default:
			given = body.name
		}
	}
}

// bodyKind reads how often the body may be sent. That it is reopenable follows from
// a reference, and cannot be asked for.
func (d *submissionReader) bodyKind() error {
	value, ok, err := textField(d.r, d.fields, maxName)
	switch {
	case err != nil || !ok:
		return err
	case value == string(outcome.BodyOneShot):
		d.sub.OneShot = true
	case value != string(outcome.BodyReplayable):
		d.fields.add(d.r.pointer(), "unknown_value", "A body is replayable or one_shot; one that is referred to is reopenable by itself.")
	}
	return nil
}

// file reads a reference to a file.
func (d *submissionReader) file() (*bodyfiles.File, error) {
	if d.r.kind() != '{' {
		return nil, d.fields.here(d.r, "type", "This field is an object with path, size and sha256.")
	}
	at, before := d.r.pointer(), len(d.fields.list)
	f := &bodyfiles.File{Size: -1}
	err := d.r.object(func(name []byte) (err error) {
		switch string(name) {
		case "path":
			f.Path, _, err = textField(d.r, d.fields, maxPath)
		case "sha256":
			f.SHA256, _, err = textField(d.r, d.fields, maxName)
		case "size":
			f.Size, err = d.size()
		default:
			err = d.fields.unknown(d.r, name)
		}
		return err
	})
	if bad := bodyfiles.Check(*f); err == nil && bad != "" && len(d.fields.list) == before {
		d.fields.add(at, "invalid", "%s", bad)
	}
	return f, err
}

// size reads a number of bytes.
func (d *submissionReader) size() (int64, error) {
	if c := d.r.kind(); c < '0' || c > '9' {
		return -1, d.fields.here(d.r, "type", "This field is a number of bytes.")
	}
	raw, err := d.r.raw()
	if err != nil {
		return -1, err
	}
	n, bad := strconv.ParseInt(string(raw), 10, 64)
	if bad != nil {
		d.fields.add(d.r.pointer(), "format", "This field is a whole number of bytes.")
		return -1, nil
	}
	return n, nil
}

// parts reads those of a multipart body.
func (d *submissionReader) parts() error {
	if d.r.kind() != '[' {
		return d.fields.here(d.r, "type", "This field is an array of parts.")
	}
	at := d.r.pointer()
	d.sub.Parts = []upstreams.Part{}
	err := d.r.array(func(int) error {
		part, err := d.part()
		d.sub.Parts = append(d.sub.Parts, part)
		return err
	})
	if err == nil && len(d.sub.Parts) == 0 {
		d.fields.add(at, "too_few", "A body of parts has at least one.")
	}
	return err
}

// part reads one part. One of value, body, body_base64 and body_ref is its content;
// a part that is one-shot makes the whole body so.
func (d *submissionReader) part() (upstreams.Part, error) {
	var p upstreams.Part
	if d.r.kind() != '{' {
		return p, d.fields.here(d.r, "type", "A part is an object.")
	}
	at, contents := d.r.pointer(), 0
	err := d.r.object(func(name []byte) (err error) {
		switch string(name) {
		case "name":
			p.Name, _, err = textField(d.r, d.fields, maxPath)
		case "filename":
			p.Filename, _, err = textField(d.r, d.fields, maxPath)
		case "content_type":
			p.ContentType, err = d.contentType()
		case "body_kind":
			err = d.bodyKind()
		case "value", "body", "body_base64", "body_ref":
			contents++
			err = d.content(&p, string(name))
		default:
			err = d.fields.unknown(d.r, name)
		}
		return err
	})
	if err == nil && contents != 1 {
		d.fields.add(at, "exclusive", "A part has one of value, body, body_base64 and body_ref.")
	}
	return p, err
}

func (d *submissionReader) content(p *upstreams.Part, name string) (err error) {
	switch name {
	case "value":
		var value string
		value, _, err = textField(d.r, d.fields, maxText*16)
		p.Body = []byte(value)
	case "body":
		p.Body, err = d.r.raw()
		if p.ContentType == "" {
			p.ContentType = "application/json"
		}
	case "body_base64":
		p.Body, _, err = d.base64(nil)
	default:
		p.File, err = d.file()
	}
	return err
}
