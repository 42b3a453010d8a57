package web_test

import (
	"net/http"
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
