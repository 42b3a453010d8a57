package upstreams

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"testing"

	"github.com/google/uuid"
)

// FuzzMultipart: each part is sent byte for byte under its own name, whatever is in it,
// and none becomes another one or a header of it.
func FuzzMultipart(f *testing.F) {
	id := uuid.MustParse("01890000-0000-7000-8000-000000000001")
	for _, body := range []string{"", "x", "\r\n--executor-01890000000070008000000000000001--\r\n", "--executor-", "\x00\xff"} {
		f.Add("file", "a.pdf", "application/pdf", []byte(body))
		f.Add("a\"\\\r\nX: y", `\"; x="`, "text/plain; charset=\"a\"", []byte(body))
		f.Add("支", "../é", "a/b\r\nX-Injected: 1", []byte(body))
	}
	o := operation(f, "body: multipart")
	f.Fuzz(func(t *testing.T, name, filename, contentType string, body []byte) {
		if bytes.Contains(body, []byte("executor-018900000000")) {
			return // nobody knows the boundary before the command is there
		}
		parts := []Part{{Name: name, Filename: filename, ContentType: contentType, Body: body}, {Name: "last", Body: []byte("end")}}
		sent, err := o.Render(Input{CommandID: id, HasBody: true, Parts: parts})
		if err != nil {
			wantPlaces(t, err, "/parts/0")
			return
		}
		_, parameters, err := mime.ParseMediaType(sent.ContentType)
		if err != nil {
			t.Fatal(err)
		}
		reader := multipart.NewReader(bytes.NewReader(sent.Body), parameters["boundary"])
		for _, want := range parts {
			got, err := reader.NextRawPart()
			if err != nil {
				t.Fatalf("%v in %q", err, sent.Body)
			}
			content, err := io.ReadAll(got)
			_, disposition, bad := mime.ParseMediaType(got.Header.Get("Content-Disposition"))
			if err != nil || bad != nil || !bytes.Equal(content, want.Body) || disposition["name"] != want.Name || disposition["filename"] != want.Filename {
				t.Fatalf("%+v is sent as %v %q, %v, %v", want, got.Header, content, err, bad)
			}
			if headers := len(got.Header); got.Header.Get("Content-Type") != want.ContentType || headers > 2 {
				t.Fatalf("%+v is sent with %v", want, got.Header)
			}
		}
		if _, err := reader.NextRawPart(); err != io.EOF {
			t.Fatalf("there is more: %v", err)
		}
	})
}
