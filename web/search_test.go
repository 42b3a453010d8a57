package web_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/operators"
	"executor/outcome"
)

// found fails the test unless exactly the commands of these keys are listed.
func (p page) found(t testing.TB, all []string, want ...string) {
	t.Helper()
	for _, key := range all {
		if got := strings.Contains(p.body, "<bdi>"+key+"</bdi></a></th>"); got != slices.Contains(want, key) {
			t.Errorf("%s (%d): %s is listed: %v", p.path, p.status, key, got)
		}
	}
}

func TestSearch(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	vera.get("/search").has(t, "There is no command yet")
	shop := func(sub *commands.Submission) { sub.Metadata = map[string]string{"shop": "north"} }
	paid := s.ended(t, "paid-1", "create_payment", "", outcome.StateSuccess)
	s.ended(t, "refused-1", "charge_card", "status:422", outcome.StateRejected)
	s.doubtful(t, "doubt-1", shop)
	s.submit(t, "later-1", "charge_card", "", func(sub *commands.Submission) { sub.NotBefore = new(time.Now().Add(time.Hour)) })
	all := []string{"paid-1", "refused-1", "doubt-1", "later-1"}
	day := func(d time.Duration) string {
		return url.QueryEscape(time.Now().Add(d).UTC().Format("2006-01-02T15:04"))
	}
	for query, want := range map[string][]string{
		"":                                          all,
		"?q=paid-1":                                 {"paid-1"},
		"?q=doubt":                                  {"doubt-1"},
		"?q=" + paid.Outcome.Result.Reference:       {"paid-1"},
		"?q=north":                                  {"doubt-1"},
		"?q=shop%3Dnorth":                           {"doubt-1"},
		"?q=nobody":                                 nil,
		"?state=success&state=pending":              {"paid-1", "later-1"},
		"?state=unresolved":                         {"doubt-1"},
		"?upstream=ledger&state=success":            {"paid-1"},
		"?upstream=elsewhere":                       nil,
		"?operation=create_payment":                 {"paid-1"},
		"?evidence=sent_no_response":                {"doubt-1"},
		"?reason=no_response":                       {"doubt-1"},
		"?reason=refused":                           {"refused-1"},
		"?metadata=order%3D42":                      {"paid-1", "refused-1", "later-1"},
		"?metadata=order%3D42&state=rejected":       {"refused-1"},
		"?after=" + day(-time.Hour):                 all,
		"?after=" + day(time.Hour):                  nil,
		"?before=" + day(-time.Hour):                nil,
		"?q=paid-1&state=rejected":                  nil,
		"?q=" + paid.ID.String() + "&state=pending": nil,
	} {
		p := vera.get("/search" + query)
		if p.status != http.StatusOK || strings.Contains(p.body, "There is no command yet") {
			t.Errorf("%s: %d", query, p.status)
		}
		p.found(t, all, want...)
	}
	vera.get("/search").has(t, "when the moment has come before which the caller wants nothing sent", "The upstream refused it, and nothing was done.", "data-row", "data-open")
	if p := vera.get("/search?q=" + paid.ID.String()); p.path != "/commands/"+paid.ID.String() {
		t.Errorf("an id leads to %s", p.path)
	}
	vera.get("/search?q="+uuid.NewString()).has(t, "No command of this tenant is like that")
	for _, query := range []string{"?metadata=order", "?after=yesterday", "?state=done", "?evidence=none", "?cursor=x", "?q=%00"} {
		if p := vera.get("/search" + query); p.status < 400 || p.status >= 500 {
			t.Errorf("%s: %d", query, p.status)
		}
	}
}

// TestSearchPages walks all pages, and says how far it looked where it gave up.
func TestSearchPages(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	_, err := s.pool.Exec(t.Context(), `
		WITH old AS (
			INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, finalized_at, outcome)
			SELECT gen_random_uuid(), 'default', 'old-' || n, (SELECT id FROM upstreams), 'charge_card', 1, 'cancelled', now() - n * interval '1 second', now(), now(),
				'{"state": "cancelled", "reason": "never_sent"}'
			FROM generate_series(1, $1::int) n RETURNING id)
		INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by)
		SELECT id, 'default', 'POST', '/', '[]', '', 'replayable', '', '', '', '', '{}', '', '{}', 'test' FROM old`, commands.ScanPage+70)
	if err != nil {
		t.Fatal(err)
	}
	p := vera.get("/search")
	next := linkAfter(t, p, `rel="next" href="`)
	if n := strings.Count(p.body, "data-row"); n != 50 {
		t.Errorf("%d rows on a page", n)
	}
	if p = vera.get(next); strings.Contains(p.body, "<bdi>old-50</bdi>") || !strings.Contains(p.body, "<bdi>old-51</bdi>") {
		t.Errorf("the second page does not begin after the first")
	}
	p = vera.get("/search?evidence=not_sent")
	p.has(t, "Looked back to <time", "nothing found so far", "Go on from there")
	vera.get(linkAfter(t, p, `rel="next" href="`)).has(t, "No command of this tenant is like that from here on")
}

// linkAfter is the address that stands after a text.
func linkAfter(t testing.TB, p page, before string) string {
	t.Helper()
	_, rest, ok := strings.Cut(p.body, before)
	if !ok {
		t.Fatalf("%s has no %s:\n%s", p.path, before, p.body)
	}
	link, _, _ := strings.Cut(rest, `"`)
	return strings.ReplaceAll(link, "&amp;", "&")
}

func TestSearchIsOfOneTenant(t *testing.T) {
	s := newSite(t)
	c := s.ended(t, "secret-key", "charge_card", "", outcome.StateSuccess)
	s.addOperator(t, "eve", "elsewhere", operators.RoleAdmin)
	eve := s.as(t, "eve")
	for _, path := range []string{"/search", "/search?q=secret", "/search?q=" + c.ID.String(), "/search?upstream=ledger", "/search.csv"} {
		p := eve.get(path)
		if strings.Contains(p.body, "<bdi>secret-key") || strings.Contains(p.path, "/commands/") || p.status != http.StatusOK {
			t.Errorf("%s shows another tenant's command: %d %s", path, p.status, p.path)
		}
	}
}

func TestSearchExport(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	for i := range 3 {
		s.ended(t, fmt.Sprintf("=cmd-%d", i), "charge_card", "", outcome.StateSuccess, func(sub *commands.Submission) {
			sub.Metadata = map[string]string{"note": "\t=1+1"}
		})
	}
	s.ended(t, "refused", "charge_card", "status:422", outcome.StateRejected)
	p := vera.get("/search.csv?state=success")
	lines, err := csv.NewReader(strings.NewReader(p.body)).ReadAll()
	if err != nil || len(lines) != 4 || lines[0][1] != "key" {
		t.Fatalf("%v, %v", lines, err)
	}
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line[1], "'=cmd-") || line[2] != "success" {
			t.Errorf("line %q", line)
		}
	}
	if disposition := p.header.Get("Content-Disposition"); !strings.HasPrefix(disposition, `attachment; filename="commands-`) {
		t.Errorf("the file is %s", disposition)
	}
	if p := vera.get("/search.csv?state=done"); p.status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown state: %d", p.status)
	}
}

func TestSearchShowsHostileTextInert(t *testing.T) {
	s := newSite(t)
	key := `"><script>alert(1)</script>`
	s.ended(t, key, "charge_card", "", outcome.StateSuccess, func(sub *commands.Submission) {
		sub.Body = []byte(`{"amount": 1}`)
		sub.Metadata = map[string]string{"<img src=x onerror=alert(1)>": "\u202egnp.exe"}
	})
	p := s.as(t, "vera").get("/search?q=" + url.QueryEscape(key) + "&operation=" + url.QueryEscape(`"onfocus="x`) + "&metadata=" + url.QueryEscape("<b>=\u202ex"))
	p.lacks(t, "<script>alert", `"onfocus=`, "<b>=", "\u202e")
	p = s.as(t, "vera").get("/search?q=" + url.QueryEscape(key))
	p.has(t, "&lt;script&gt;alert(1)")
	p.lacks(t, "<script>alert")
}
