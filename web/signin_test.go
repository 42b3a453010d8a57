package web_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestSignInAndOut(t *testing.T) {
	s := newSite(t)
	stranger := s.visitor(t)
	p := stranger.get("/reviews?kind=conflict")
	if p.path != "/sign-in?to=%2Freviews%3Fkind%3Dconflict" {
		t.Errorf("a stranger ends at %s", p.path)
	}
	p.has(t, `name="to" value="/reviews?kind=conflict"`)
	wrong := stranger.post("/sign-in", "name", "otto", "password", "wrong battery horse")
	if wrong.status != http.StatusUnauthorized {
		t.Errorf("a wrong password answers %d", wrong.status)
	}
	wrong.has(t, "do not open the dashboard", `value="otto"`)
	wrong.lacks(t, "wrong battery")

	b := s.as(t, "otto")
	b.get("/").has(t, "What needs a person", ">otto</a>")
	if p := b.post("/sign-out"); p.path != "/sign-in" || b.cookie != "" {
		t.Errorf("after the sign-out: %s with the cookie %q", p.path, b.cookie)
	}
	if p := b.get("/"); p.path != "/sign-in" {
		t.Errorf("after the sign-out the home page is %s", p.path)
	}
}

// TestALinkFromElsewhere: the browser leaves the cookie out, and is led on once.
func TestALinkFromElsewhere(t *testing.T) {
	s := newSite(t)
	follow := func(path string, header ...string) page {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.http.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return page{status: resp.StatusCode, header: resp.Header, body: string(body)}
	}
	elsewhere := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	p := follow(`/reviews?kind=conflict&x=%22%3E%3Cscript%3E&y='">`, elsewhere...)
	if p.status != http.StatusOK || p.header.Get("Set-Cookie") != "" || !strings.Contains(p.header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("%d %v", p.status, p.header)
	}
	p.has(t, `content="0;url=/reviews?kind=conflict`, "Go on")
	p.lacks(t, "<script", `y='"`)
	for _, same := range [][]string{{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, {}} {
		if p := follow("/reviews", same...); p.status != http.StatusSeeOther {
			t.Errorf("%v: %d", same, p.status)
		}
	}
}
