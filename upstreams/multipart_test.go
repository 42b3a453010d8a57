package upstreams_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/internal/bodyfiles"
	"executor/upstreams"
)

const multipartProfile = `
version: 1
upstream: docs
base_url: https://docs.example
operations:
  file: {method: POST, path: /files, body: multipart}
  keyed: {method: POST, path: /files, body: multipart, idempotency: {kind: keyed, key: {in: body, name: /request_id}}}
  raw: {method: PUT, path: /raw, body: raw}
  json: {method: POST, path: /json}
  none: {method: POST, path: /none, body: none}
`

func multipartOperation(t *testing.T, name string) *upstreams.Operation {
	t.Helper()
	p, err := upstreams.Parse("docs.yaml", []byte(multipartProfile))
	if err != nil {
		t.Fatal(err)
	}
	op, ok := p.Operation(name)
	if !ok {
		t.Fatalf("no operation %s", name)
	}
	return op
}

func fileOf(content string) *bodyfiles.File {
	sum := sha256.Sum256([]byte(content))
	return &bodyfiles.File{Path: "a/file.bin", Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

// assemble puts the files into the stored bytes, as sending does.
func assemble(r upstreams.Request, contents ...string) []byte {
	var out []byte
	from := int64(0)
	for i, f := range r.Files {
		out = append(append(out, r.Body[from:f.At]...), contents[i]...)
		from = f.At
	}
	return append(out, r.Body[from:]...)
}

// TestMultipart: what a server reads are the parts that were given, in their order,
// and the key behind them.
func TestMultipart(t *testing.T) {
	binary := string([]byte{0, 1, 2, '\r', '\n', '-', '-', 0xff})
	in := upstreams.Input{Key: "k-1", CommandID: uuid.New(), Parts: []upstreams.Part{
		{Name: "meta", ContentType: "application/json", Body: []byte(`{"amount":9007199254740993}`)},
		{Name: `odd "name"`, Filename: `a"b\.txt`, Body: []byte("")},
		{Name: "first", Filename: "f.bin", ContentType: "application/pdf", File: fileOf("one")},
		{Name: "naïve", Body: []byte(binary)},
		{Name: "second", File: fileOf("two two")},
	}}
	r, err := multipartOperation(t, "keyed").Render(in)
	if err != nil {
		t.Fatal(err)
	}
	media, parameters, err := mime.ParseMediaType(r.ContentType)
	if err != nil || media != "multipart/form-data" || len(r.Files) != 2 {
		t.Fatalf("%q, %d files, %v", r.ContentType, len(r.Files), err)
	}
	again, err := multipartOperation(t, "keyed").Render(in)
	if err != nil || !bytes.Equal(again.Body, r.Body) || again.ContentType != r.ContentType {
		t.Error("the same command is rendered in two ways")
	}
	reader := multipart.NewReader(bytes.NewReader(assemble(r, "one", "two two")), parameters["boundary"])
	var got []string
	for {
		part, err := reader.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, _ := io.ReadAll(part)
		got = append(got, part.Header.Get("Content-Disposition")+"|"+part.Header.Get("Content-Type")+"|"+string(content))
	}
	want := []string{
		`form-data; name="meta"|application/json|{"amount":9007199254740993}`,
		`form-data; name="odd \"name\""; filename="a\"b\\.txt"||`,
		`form-data; name="first"; filename="f.bin"|application/pdf|one`,
		`form-data; name="naïve"||` + binary,
		`form-data; name="second"||two two`,
		`form-data; name="request_id"||k-1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("parts\n%q\nwant\n%q", got, want)
	}
}

// TestEncodedMultipart: who has encoded the parts already sends them as they are.
func TestEncodedMultipart(t *testing.T) {
	body := []byte("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--\r\n")
	op := multipartOperation(t, "file")
	r, err := op.Render(upstreams.Input{CommandID: uuid.New(), HasBody: true, Body: body, ContentType: `multipart/form-data; boundary=x`})
	if err != nil || !bytes.Equal(r.Body, body) || r.ContentType != "multipart/form-data; boundary=x" {
		t.Errorf("%q %q %v", r.Body, r.ContentType, err)
	}
	for name, in := range map[string]upstreams.Input{
		"cut":         {HasBody: true, Body: body[:len(body)-5], ContentType: "multipart/form-data; boundary=x"},
		"no parts":    {HasBody: true, Body: []byte("--x--\r\n"), ContentType: "multipart/form-data; boundary=x"},
		"no boundary": {HasBody: true, Body: body, ContentType: "multipart/form-data"},
		"other type":  {HasBody: true, Body: body, ContentType: "text/plain"},
		"no type":     {HasBody: true, Body: body},
	} {
		if _, err := op.Render(in); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := multipartOperation(t, "keyed").Render(upstreams.Input{Key: "k", HasBody: true, Body: body, ContentType: "multipart/form-data; boundary=x"}); err == nil {
		t.Error("a body without its key is accepted")
	}
}

// TestBodiesRefused: each refusal names the member that it is about.
func TestBodiesRefused(t *testing.T) {
	part := upstreams.Part{Name: "a", Body: []byte("1")}
	huge := fileOf("x")
	huge.Size = bodyfiles.MaxBytes
	for name, c := range map[string]struct {
		operation string
		in        upstreams.Input
		pointer   string
	}{
		"parts for raw":      {"raw", upstreams.Input{Parts: []upstreams.Part{part}}, "/parts"},
		"parts for json":     {"json", upstreams.Input{Parts: []upstreams.Part{part}}, "/parts"},
		"parts for none":     {"none", upstreams.Input{Parts: []upstreams.Part{part}}, "/parts"},
		"file for json":      {"json", upstreams.Input{BodyFile: fileOf("x")}, "/body_ref"},
		"file for none":      {"none", upstreams.Input{BodyFile: fileOf("x")}, "/body_ref"},
		"file for multipart": {"file", upstreams.Input{BodyFile: fileOf("x")}, "/body_ref"},
		"bad file":           {"raw", upstreams.Input{BodyFile: &bodyfiles.File{Path: "../x"}}, "/body_ref"},
		"no name":            {"file", upstreams.Input{Parts: []upstreams.Part{{Body: []byte("1")}}}, "/parts/0/name"},
		"line in a name":     {"file", upstreams.Input{Parts: []upstreams.Part{part, {Name: "a\r\nX-Evil: 1"}}}, "/parts/1/name"},
		"line in a filename": {"file", upstreams.Input{Parts: []upstreams.Part{{Name: "a", Filename: "b\nc"}}}, "/parts/0/filename"},
		"line in a type":     {"file", upstreams.Input{Parts: []upstreams.Part{{Name: "a", ContentType: "text/plain\r\nX: 1"}}}, "/parts/0/content_type"},
		"type given":         {"file", upstreams.Input{ContentType: "multipart/form-data; boundary=x", Parts: []upstreams.Part{part}}, "/content_type"},
		"too many":           {"file", upstreams.Input{Parts: slices.Repeat([]upstreams.Part{part}, 101)}, "/parts"},
		"too large":          {"file", upstreams.Input{Parts: []upstreams.Part{{Name: "a", File: huge}, {Name: "b", File: huge}}}, "/parts/1/body_ref"},
		"another key":        {"keyed", upstreams.Input{Key: "k", Parts: []upstreams.Part{{Name: "request_id", Body: []byte("other")}}}, "/body/request_id"},
	} {
		_, err := multipartOperation(t, c.operation).Render(c.in)
		if err == nil || !strings.Contains(err.Error(), c.pointer+" ") {
			t.Errorf("%s: %v, want one at %s", name, err, c.pointer)
		}
	}
}
