package upstreams

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"executor/outcome"
)

// FuzzParse: any text gives a profile that works, or problems with their place.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/errors/*.yaml")
	files = append(files, "testdata/format.yaml", "../examples/ledger.yaml", "../examples/stripe.yaml")
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	for _, src := range []string{"", "\xef\xbb\xbfversion: 1", "a: &a {<<: *a}", "- {when: json.a[0], answer: x}", "{when: \"", "version: 1\r\nupstream: a\r", "? a\n: b", "%YAML 1.2\n---\n", "a: |+\n\n  x\n...\n"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := Parse("fuzz.yaml", src)
		if err == nil {
			for _, o := range p.Operations {
				_, _ = o.Render(Input{Key: "k", Body: []byte("{}"), HasBody: true})
				o.Judge(reply(409, `{"code":1}`))
			}
			return
		}
		var bad *ParseError
		if !errors.As(err, &bad) || len(bad.Problems) == 0 || len(bad.Problems) > maxProblems {
			t.Fatalf("%v", err)
		}
		lines := len(splitLines(string(src)))
		for _, problem := range bad.Problems {
			if problem.Line < 1 || problem.Line > lines+1 || problem.Column < 1 || problem.Message == "" {
				t.Errorf("%+v in %d lines", problem, lines)
			}
		}
		if !utf8.ValidString(err.Error()) {
			t.Errorf("the error is not text: %q", err.Error())
		}
	})
}

// FuzzJudge: any response is judged, within bounds, and a success is one that the
// rules or the status allow.
func FuzzJudge(f *testing.F) {
	for _, body := range []string{"", "{}", `{"id":1}`, `{"id":"\ud800"}`, `{"id":"\u0000"}`, `{"a":1,"a":2}`, "\xff", `[[[[`, `{"id":1e400}`, `{"status":"failed"}`, `{"code":"already_exists","existing":{}}`, "<html>", `"`, `{"id":123456789012345678901234567890}`} {
		f.Add(200, body, "application/json", true, 1)
		f.Add(409, body, "text/html", false, 2)
	}
	o := operation(f, rules+"\nredact: {response: [/id, /a/0]}")
	f.Fuzz(func(t *testing.T, status int, body, contentType string, complete bool, attempt int) {
		r := Response{Status: status, Headers: http.Header{"Content-Type": {contentType}, "X-Origin": {body}}, Body: []byte(body), BodyComplete: complete, Attempt: attempt}
		j := o.Judge(r)
		if !slices.Contains(outcome.Answers(), j.Answer) || j.Rule == "" {
			t.Fatalf("%+v", j)
		}
		if j.Answer == outcome.AnswerApplied && status != 409 && (status < 200 || status > 299) {
			t.Errorf("status %d is a success: %+v", status, j)
		}
		if len(j.Reference) > maxReference || len(j.Code) > maxCode+3 || len(j.Message) > maxMessage+3 || strings.ContainsRune(j.Reference+j.Code+j.Message+strings.Join(j.Notes, ""), 0) {
			t.Errorf("out of bounds: %+v", j)
		}
		if !utf8.ValidString(j.Reference + j.Code + j.Message + strings.Join(j.Notes, "")) {
			t.Errorf("not text: %+v", j)
		}
		o.RedactBody([]byte(body), false)
	})
}
