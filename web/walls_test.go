package web_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"executor/outcome"
	"executor/web"
)

// TestSignInLeadsNowhereElse: the address to go on to comes from outside, and may be
// one of our own only.
func TestSignInLeadsNowhereElse(t *testing.T) {
	s := newSite(t)
	for to, want := range map[string]string{
		"/reviews?kind=conflict": "/reviews?kind=conflict",
		"https://evil.example/":  "/", "//evil.example": "/", `/\evil.example`: "/", `\\evil.example`: "/", "/\t/evil.example": "/",
		"javascript:alert(1)": "/", "evil.example": "/", "/x\r\nLocation: https://evil.example": "/", "/\x00//evil.example": "", "": "/",
	} {
		v := s.visitor(t)
		p, next := v.once(http.MethodPost, "/sign-in", url.Values{"name": {"vera"}, "password": {password}, "to": {to}})
		if next != want {
			t.Errorf("signed in with %q: %d, on to %q, want %q", to, p.status, next, want)
		}
		if want == "" {
			continue
		}
		if _, next = v.once(http.MethodGet, "/sign-in?"+url.Values{"to": {to}}.Encode(), nil); next != want {
			t.Errorf("already signed in with %q: on to %q, want %q", to, next, want)
		}
	}
}

// TestASessionIsOfOneSignIn: a cookie that was there before the sign-in is not the
// session, and one that was noted is worth nothing after the sign-out.
func TestASessionIsOfOneSignIn(t *testing.T) {
	s := newSite(t)
	b := s.visitor(t)
	const planted = "__Host-executor=planted-by-somebody-else"
	b.cookie = planted
	b.once(http.MethodPost, "/sign-in", url.Values{"name": {"vera"}, "password": {password}})
	first := b.cookie
	b.once(http.MethodPost, "/sign-in", url.Values{"name": {"vera"}, "password": {password}})
	second := b.cookie
	if first == planted || first == second || len(strings.TrimPrefix(second, "__Host-executor=")) < 40 {
		t.Errorf("the cookies are %q and %q", first, second)
	}
	for _, tt := range []struct {
		cookie string
		in     bool
	}{{planted, false}, {first, false}, {second, true}} {
		b.cookie = tt.cookie
		if p := b.get("/account"); strings.HasPrefix(p.path, "/account") != tt.in {
			t.Errorf("with %q one ends at %s", tt.cookie, p.path)
		}
	}
	b.cookie = second
	b.post("/sign-out")
	b.cookie = second
	if p := b.get("/account"); !strings.HasPrefix(p.path, "/sign-in") {
		t.Errorf("after the sign-out the session leads to %s", p.path)
	}
}

// TestNoGetChangesAnything: only posts act, which the check of their origin guards.
func TestNoGetChangesAnything(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "charge-1")
	s.ended(t, "paid-1", "create_payment", "", outcome.StateSuccess)
	ada := s.as(t, "ada")
	before := s.rows(t)
	for _, route := range web.AllRoutes() {
		if route.Method != http.MethodGet || route.Pattern == "/live" {
			continue
		}
		path := strings.NewReplacer("{id}", c.ID.String(), "{n}", "1", "{name}", "ledger").Replace(route.Pattern)
		query := "?reason=because&confirm=yes&name=x&_method=POST&method=POST"
		ada.once(http.MethodGet, filled(path)+query, nil)
	}
	if after := s.rows(t); !slices.Equal(before, after) {
		t.Errorf("something was changed:\n%q\n%q", before, after)
	}
}

// rows is a sum of each table with what people act on. Retry budgets fill by
// themselves.
func (s *site) rows(t *testing.T) []string {
	t.Helper()
	rows, _ := s.pool.Query(t.Context(), `
		SELECT table_name || ' ' || md5(query_to_xml(format('SELECT to_jsonb(t) - ''budget_tokens'' - ''budget_at'' AS row FROM %I t ORDER BY 1', table_name), true, false, '')::text)
		FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'
		AND table_name NOT LIKE 'river%' AND table_name NOT LIKE 'tall%' AND table_name NOT IN ('operator_sessions', 'leases')
		ORDER BY table_name`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(list) < 20 {
		t.Fatalf("%d tables, %v", len(list), err)
	}
	return list
}
