package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"executor/client"
)

// TestSubmitBodies: what the flags about bodies make of a submission.
func TestSubmitBodies(t *testing.T) {
	copied := filepath.Join(t.TempDir(), "copy.pdf")
	if err := os.WriteFile(copied, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := &client.BodyFile{Path: "in/a.pdf", Size: 3, SHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
	for name, c := range map[string]struct {
		flags submitFlags
		want  client.Submission
	}{
		"one shot":    {submitFlags{bodyKind: "one_shot"}, client.Submission{OneShot: true}},
		"measured":    {submitFlags{bodyRef: "in/a.pdf;from=" + copied}, client.Submission{BodyFile: file}},
		"as it says":  {submitFlags{bodyRef: "in/a.pdf;sha256=" + file.SHA256 + ";size=3"}, client.Submission{BodyFile: file}},
		"text parts":  {submitFlags{parts: []string{"a=b=c;d", "e="}}, client.Submission{Parts: []client.Part{{Name: "a", Value: "b=c;d"}, {Name: "e"}}}},
		"typed parts": {submitFlags{parts: []string{`j={"x":1};type=application/json`}}, client.Submission{Parts: []client.Part{{Name: "j", Value: `{"x":1}`, ContentType: "application/json"}}}},
		"file parts": {submitFlags{parts: []string{"f=@" + copied + ";filename=x.pdf;type=application/pdf", "g=ref:in/a.pdf;from=" + copied + ";filename=y"}},
			client.Submission{Parts: []client.Part{
				{Name: "f", Bytes: []byte("abc"), Filename: "x.pdf", ContentType: "application/pdf"}, {Name: "g", File: file, Filename: "y"},
			}}},
	} {
		var got client.Submission
		if err := c.flags.referTo(&got); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestSubmitBodiesRefused: what is wrong is said with what to write instead.
func TestSubmitBodiesRefused(t *testing.T) {
	for want, flags := range map[string]submitFlags{
		"--body-kind is":         {bodyKind: "reopenable"},
		"exclude one another":    {body: "{}", bodyRef: "a;size=1;sha256=x"},
		"a reference needs from": {bodyRef: "in/a.pdf"},
		"give from, or size":     {bodyRef: "a;from=b;size=1"},
		"read the copy":          {bodyRef: "a;from=/does/not/exist"},
		"--body-ref: write":      {bodyRef: "a;size=1;sha256=x;type=text/plain"},
		"--part 2: write NAME":   {parts: []string{"a=1", "nothing"}},
		"read the part":          {parts: []string{"a=@/does/not/exist"}},
	} {
		if err := flags.referTo(&client.Submission{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPlacedFiles: a preview says what of the body is read later, and where it goes.
func TestPlacedFiles(t *testing.T) {
	file := client.PlacedFile{At: 5, BodyFile: client.BodyFile{Path: "in/a.pdf", Size: 3}}
	for want, body := range map[string]string{
		"The file in/a.pdf (3 bytes) is the body.":                             "",
		"The file in/a.pdf (3 bytes) is sent after 5 bytes of the body shown.": "0123456789",
	} {
		if got := placed([]byte(body), file); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
