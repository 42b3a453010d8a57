package web_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/internal/operators"
	"executor/web"
)

// openToAll are the only pages and actions that nobody has to sign in for.
var openToAll = []string{"GET /sign-in", "POST /sign-in", "GET /sign-in/link", "POST /sign-in/link", "POST /sign-out"}

var parameter = regexp.MustCompile(`\{[a-z_]+(:[^}]*)?\}`)

// filled is a pattern with something for each parameter: the first of those that it
// lists, else an id of nothing.
func filled(pattern string) string {
	return parameter.ReplaceAllStringFunc(pattern, func(p string) string {
		if _, list, found := strings.Cut(strings.Trim(p, "{}"), ":"); found {
			first, _, _ := strings.Cut(list, "|")
			return first
		}
		return uuid.NewString()
	})
}

// TestEveryRouteHasItsRole walks all routes with all roles: who has less than the
// route takes is refused, who has enough is not, and strangers are led to the
// sign-in.
func TestEveryRouteHasItsRole(t *testing.T) {
	s := newSite(t)
	visitors := map[operators.Role]*browse{
		"": s.visitor(t), operators.RoleViewer: s.as(t, "vera"), operators.RoleOperator: s.as(t, "otto"), operators.RoleAdmin: s.as(t, "ada"),
	}
	for _, route := range web.AllRoutes() {
		name := route.Method + " " + route.Pattern
		if route.Role == "" != slices.Contains(openToAll, name) {
			t.Errorf("%s takes the role %q", name, route.Role)
		}
		if route.Role == "" || route.Pattern == "/live" {
			continue
		}
		path := filled(route.Pattern)
		for role, visitor := range visitors {
			page, next := visitor.once(route.Method, path, formOf(route.Method))
			switch {
			case role == "" && (page.status != http.StatusSeeOther || !strings.HasPrefix(next, "/sign-in")):
				t.Errorf("%s answers a stranger with %d %s", name, page.status, next)
			case role != "" && !role.Allows(route.Role) && page.status != http.StatusForbidden:
				t.Errorf("%s answers a %s with %d, not 403", name, role, page.status)
			case role != "" && role.Allows(route.Role) && (page.status == http.StatusForbidden || strings.HasPrefix(next, "/sign-in") || page.status >= 500):
				t.Errorf("%s answers a %s with %d %s", name, role, page.status, next)
			}
		}
	}
}

// formOf is the empty form of an action.
func formOf(method string) url.Values {
	if method == http.MethodPost {
		return url.Values{}
	}
	return nil
}

// TestForeignPostsAreRefused: a form on another site does nothing here, whoever is
// signed in.
func TestForeignPostsAreRefused(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	for _, route := range web.AllRoutes() {
		if route.Method != http.MethodPost {
			continue
		}
		for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"} {
			req, err := http.NewRequestWithContext(t.Context(), route.Method, s.http.URL+filled(route.Pattern), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(header, value)
			req.Header.Set("Cookie", ada.cookie)
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusForbidden || !strings.Contains(string(page), "so nothing was done") || resp.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s with %s: %s answers %d, sets %q: %s (%v)", route.Pattern, header, value, resp.StatusCode, resp.Header.Get("Set-Cookie"), page, err)
			}
		}
	}
	if p := ada.get("/"); p.path != "/" {
		t.Errorf("a foreign form signed ada out: %s", p.path)
	}
}

// TestEveryAnswerIsSecured: no page is without the policy, whatever it answers.
func TestEveryAnswerIsSecured(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/", "/sign-in", "/nowhere", "/static/x/y.js", "/commands/none", "/live"} {
		for _, visitor := range []*browse{s.visitor(t), s.as(t, "vera")} {
			if path == "/live" && visitor.cookie != "" {
				continue
			}
			page, _ := visitor.once(http.MethodGet, path, nil)
			policy := page.header.Get("Content-Security-Policy")
			if !strings.Contains(policy, "frame-ancestors 'none'") || page.header.Get("X-Frame-Options") != "DENY" {
				t.Errorf("%s: others may frame it", path)
			}
			if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || page.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: policy %q, nosniff %q", path, policy, page.header.Get("X-Content-Type-Options"))
			}
		}
	}
	cookie := s.visitor(t)
	page, _ := cookie.once(http.MethodPost, "/sign-in", url.Values{"name": {"vera"}, "password": {password}})
	set := page.header.Get("Set-Cookie")
	for _, part := range []string{"__Host-executor=", "Path=/;", "HttpOnly", "Secure", "SameSite=Strict"} {
		if !strings.Contains(set, part) {
			t.Errorf("the cookie lacks %s: %s", part, set)
		}
	}
}
