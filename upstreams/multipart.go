package upstreams

import (
	"bytes"
	"fmt"
	"mime"
	"mime/multipart"
	"net/textproto"
	"strings"
	"unicode/utf8"

	"executor/internal/bodyfiles"
)

const multipartType = "multipart/form-data"

const (
	maxParts    = 100
	maxPartName = 200 // bytes, of a part's name and of its file's
)

// Part is one part of a multipart body (RFC 7578): bytes, or a file.
type Part struct {
	Name        string
	Filename    string // "" is left out
	ContentType string // "" is left out
	Body        []byte // sent byte for byte
	File        *bodyfiles.File
}

// multipart joins the parts, and the key as the last one if that is its place. The
// boundary is made of the command's id, which nobody knew when the parts were made;
// it is stored with the content type, so that every attempt sends the same. A body
// that is encoded already goes as it is.
func (r *rendering) multipart(key, media string, parameters map[string]string) ([]byte, string) {
	if len(r.input.Parts) == 0 {
		return r.encodedMultipart(key, media, parameters)
	}
	if r.input.ContentType != "" {
		r.fail("/content_type", "forbidden", "The content type of a body of parts carries a boundary and is made here.")
	}
	if len(r.input.Parts) > maxParts {
		r.fail("/parts", "too_many", fmt.Sprintf("A body has %d parts at most.", maxParts))
		return nil, ""
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("executor-" + strings.ReplaceAll(r.input.CommandID.String(), "-", "")); err != nil {
		r.fail("/parts", "invalid", "The parts cannot be told apart.")
		return nil, ""
	}
	name, hasKey := r.keyField(key), false
	for i, p := range r.input.Parts {
		if key != "" && p.Name == name {
			hasKey = true
			r.sameKey(string(p.Body), key)
		}
		r.part(w, &b, i, p)
	}
	if key != "" && !hasKey {
		r.part(w, &b, len(r.input.Parts), Part{Name: name, Body: []byte(key)})
	}
	_ = w.Close() // a buffer takes everything
	return b.Bytes(), w.FormDataContentType()
}

// part writes one part; of a file only the place is noted.
func (r *rendering) part(w *multipart.Writer, b *bytes.Buffer, i int, p Part) {
	at := "/parts/" + fmt.Sprint(i)
	if bad := badPartName(p.Name); bad != "" || p.Name == "" {
		r.fail(at+"/name", "invalid", "A part has a name of 1 to 200 bytes without control characters.")
	}
	if bad := badPartName(p.Filename); bad != "" {
		r.fail(at+"/filename", "invalid", bad)
	}
	header := textproto.MIMEHeader{"Content-Disposition": {disposition(p)}}
	if p.ContentType != "" {
		if _, _, err := mime.ParseMediaType(p.ContentType); err != nil || !validHeaderValue(p.ContentType) {
			r.fail(at+"/content_type", "invalid", "This is not a content type.")
		}
		header.Set("Content-Type", p.ContentType)
	}
	into, err := w.CreatePart(header)
	if err != nil {
		r.fail(at, "invalid", "The part cannot be written.")
		return
	}
	if p.File != nil {
		r.file(at+"/body_ref", *p.File, int64(b.Len()))
		return
	}
	_, _ = into.Write(p.Body)
}

func badPartName(name string) string {
	if len(name) > maxPartName || !utf8.ValidString(name) || !plainText(name) {
		return "A name here has at most 200 bytes, without control characters."
	}
	return ""
}

// disposition names a part and its file as quoted strings (RFC 7578, section 4.2).
func disposition(p Part) string {
	if p.Filename != "" {
		return multipart.FileContentDisposition(p.Name, p.Filename)
	}
	return `form-data; name="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(p.Name) + `"`
}

// file notes a file that is sent after so many bytes of the stored ones.
func (r *rendering) file(pointer string, f bodyfiles.File, at int64) {
	if bad := bodyfiles.Check(f); bad != "" {
		r.fail(pointer, "invalid", bad)
		return
	}
	if r.fileBytes += f.Size; r.fileBytes > bodyfiles.MaxBytes {
		r.fail(pointer, "too_large", fmt.Sprintf("The files of a body have %d bytes at most.", bodyfiles.MaxBytes))
		return
	}
	r.files = append(r.files, bodyfiles.Placed{At: at, File: f})
}

// encodedMultipart sends the bytes as they came.
func (r *rendering) encodedMultipart(key, media string, parameters map[string]string) ([]byte, string) {
	boundary := parameters["boundary"]
	switch {
	case media != multipartType || boundary == "":
		r.fail("/parts", "required", "This operation sends "+multipartType+": give its parts, or an encoded body with its content type and boundary.")
	case key != "":
		r.fail("/parts", "required", "The idempotency key is a part of its own: give the body in parts.")
	case !wholeMultipart(r.input.Body, boundary):
		r.fail("/body", "invalid", "The body is not "+multipartType+" with that boundary.")
	}
	return r.input.Body, r.input.ContentType
}

// wholeMultipart reports whether a body has parts and ends with its last boundary.
func wholeMultipart(body []byte, boundary string) bool {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for n := 0; ; n++ {
		part, err := parts.NextRawPart()
		if err != nil {
			return n > 0 && bytes.HasSuffix(bytes.TrimRight(body, "\r\n"), []byte("--"+boundary+"--"))
		}
		_ = part.Close()
	}
}
