package upstreams

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"executor/outcome"
)

func TestLinkOfPendingAnswers(t *testing.T) {
	o := operation(t, "result: {link: json.status_url}\nanswers: [{when: status == 200 && has(json.job), answer: pending, link: json.job}, {when: status == 409 && has(json.of), answer: unclear, link: json.of}]")
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	tests := []struct {
		name   string
		status int
		header http.Header
		body   string
		want   string
		note   string
	}{
		{"none", 202, nil, "", "", ""},
		{"location", 202, header("Location", "/v2/ops/1"), "", "/v2/ops/1", ""},
		{"the more specific header", 202, header("Location", "/v2/x", "Azure-AsyncOperation", "/v2/az", "Operation-Location", "/v2/op"), "", "/v2/op", ""},
		{"Azure's", 202, header("Location", "/v2/x", "Azure-AsyncOperation", "https://ledger.example/v2/az?api=1"), "", "/v2/az?api=1", ""},
		{"the profile's", 202, header("Location", "/v2/x"), `{"status_url":"https://ledger.example/v2/s"}`, "/v2/s", ""},
		{"the rule's", 200, header("Location", "/v2/x"), `{"job":"/v2/j","status_url":"/v2/s"}`, "/v2/j", ""},
		{"the rule's is foreign", 200, nil, `{"job":"https://evil.example/j","status_url":"/v2/s"}`, "/v2/s", "another origin than base_url (https://evil.example)"},
		{"no text", 202, header("Location", "/v2/x"), `{"status_url":{}}`, "/v2/x", "link: gives an object"},
		{"the body is not JSON", 202, header("Location", "/v2/x"), `<html>`, "/v2/x", ""},
		{"relative to the request", 202, header("Location", "status?x=1"), "", "/v2/payments/status?x=1", ""},
		{"up from the request", 202, header("Location", "../../ops/1"), "", "/ops/1", ""},
		{"only a query", 202, header("Location", "?id=1"), "", "/v2/payments/new?id=1", ""},
		{"a fragment is left out", 202, header("Location", "/v2/a#b"), "", "/v2/a", ""},
		{"the default port", 202, header("Location", "https://ledger.example:443/v2/a"), "", "/v2/a", ""},
		{"capitals", 202, header("Location", "HTTPS://LEDGER.example/v2/a"), "", "/v2/a", ""},
		{"escapes stay", 202, header("Location", "/v2/a%2Fb%20c?q=%26"), "", "/v2/a%2Fb%20c?q=%26", ""},
		{"unicode", 202, header("Location", "/v2/ü?q=ü x"), "", "/v2/%C3%BC?q=%C3%BC%20x", ""},
		{"no path", 202, header("Location", "https://ledger.example"), "", "/", ""},

		{"another host", 202, header("Location", "https://evil.example/v2/a"), "", "", "another origin"},
		{"a host that begins alike", 202, header("Location", "https://ledger.example.evil.example/a"), "", "", "another origin"},
		{"without a scheme", 202, header("Location", "//evil.example/a"), "", "", "another origin"},
		{"with backslashes", 202, header("Location", `/\evil.example/a`), "", "", "is not a link"},
		{"another port", 202, header("Location", "https://ledger.example:8443/a"), "", "", "another origin"},
		{"another scheme", 202, header("Location", "http://ledger.example/a"), "", "", "another origin"},
		{"a user", 202, header("Location", "https://me:pw@ledger.example/a"), "", "", "holds a user name"},
		{"a user that looks like the host", 202, header("Location", "https://ledger.example@evil.example/a"), "", "", "holds a user name"},
		{"a file", 202, header("Location", "file:///etc/passwd"), "", "", "another origin"},
		{"script", 202, header("Location", "javascript:alert(1)"), "", "", "is not a link"},
		{"two slashes", 202, header("Location", "https://ledger.example//evil.example/a"), "", "", "left out"},
		{"control characters", 202, header("Location", "/a\r\nX: y"), "", "", "is not a link"},
		{"endless", 202, header("Location", "/"+strings.Repeat("a", maxLink)), "", "", "left out"},

		{"a success has none", 201, header("Location", "/v2/ops/1"), "", "", ""},
		{"a conflict that says with what", 409, nil, `{"of":"/v2/payments/p1"}`, "/v2/payments/p1", ""},
		{"a conflict that does not say with what", 409, header("Location", "/login"), `{"of":null}`, "", ""},
		{"any other doubt has none", 500, header("Location", "/v2/ops/1"), "", "", ""},
	}
	for _, tt := range tests {
		j := o.Judge(Response{Status: tt.status, Headers: tt.header, Body: []byte(tt.body), BodyComplete: true, Attempt: 1, Target: "/v2/payments/new?a=b"})
		notes := strings.Join(j.Notes, "\n")
		if j.Link != tt.want || !strings.Contains(notes, tt.note) || strings.Contains(notes, "pw") || tt.note == "" && notes != "" {
			t.Errorf("%s: %q, notes %q, want %q %q", tt.name, j.Link, notes, tt.want, tt.note)
		}
	}
	port := operation(t, "", "egress: {allow: [10.0.0.0/8]}").profile
	port.Base = &url.URL{Scheme: "http", Host: "10.0.0.1:8080", Path: "/v2", RawPath: "/v2"}
	for raw, want := range map[string]string{"http://10.0.0.1:8080/a": "/a", "http://10.0.0.1/a": "", "http://10.0.0.1:80/a": "", "/a": "/a", "a": "/a"} {
		if got, _ := port.link("", raw); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// A redirect that means acceptance gives a link too.
func TestLinkOfSeeOther(t *testing.T) {
	o := operation(t, "answers: [{when: status == 303, answer: pending}]")
	j := o.Judge(Response{Status: 303, Headers: http.Header{"Location": {"/v2/ops/1"}}, BodyComplete: true, Attempt: 1})
	if j.Answer != outcome.AnswerPending || j.Link != "/v2/ops/1" {
		t.Errorf("%+v", j)
	}
}

// FuzzLink: what is kept of a stranger's link leads to base_url's origin and is
// one line.
func FuzzLink(f *testing.F) {
	for _, s := range []string{"/a", "//evil", "https://ledger.example/a?b#c", "https://ledger.example@evil/", "../../..", "?x", "\\\\evil", "https:evil", "/%2e%2e/%5c", "/a?\x7f", "http://[::1]/", "/\u2028"} {
		f.Add(s, "/v2/payments?x=y")
	}
	p := operation(f, "").profile
	f.Fuzz(func(t *testing.T, raw, target string) {
		link, err := p.link(target, raw)
		if err != nil {
			return
		}
		if !isTarget(link) {
			t.Fatalf("%q gives %q", raw, link)
		}
		u, err := url.Parse(p.Base.Scheme + "://" + p.Base.Host + link)
		if err != nil || !sameOrigin(u, p.Base) || u.User != nil || u.Fragment != "" {
			t.Fatalf("%q gives %q, which is %v, %v", raw, link, u, err)
		}
	})
}
