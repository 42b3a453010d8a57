package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"executor/web"
)

// TestOddAddressesAreNoFaultOfOurs: whatever stands in an address or a form, no page
// answers that something went wrong here.
func TestOddAddressesAreNoFaultOfOurs(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "charge-1")
	ada := s.as(t, "ada")
	names := []string{"q", "state", "upstream", "operation", "evidence", "reason", "created_after", "metadata", "cursor", "kind", "assignee", "older_than", "sort",
		"label", "min", "max", "endpoint", "type", "command", "since", "until", "actor", "action", "after", "before", "version", "from", "to", "show", "seen", "attempts", "limit"}
	for _, odd := range []string{"\x00", "\xff\xfe", "-1", "99999999999999999999", strings.Repeat("x", 4000), "2026-13-45", "a=b=c", " "} {
		query := url.Values{}
		for _, name := range names {
			query.Add(name, odd)
			query.Add(name, odd+"2")
		}
		for _, route := range web.AllRoutes() {
			path := strings.Replace(filled(route.Pattern), "{id}", c.ID.String(), 1)
			if strings.HasPrefix(route.Pattern, "/commands/{id}") {
				path = strings.ReplaceAll(strings.ReplaceAll(route.Pattern, "{id}", c.ID.String()), "{n}", "1")
			}
			path = strings.ReplaceAll(path, "{name}", "ledger")
			switch {
			case route.Pattern == "/live" || strings.HasPrefix(route.Pattern, "/sign-"):
			case route.Method == http.MethodGet:
				if p, _ := ada.once(route.Method, path+"?"+query.Encode(), nil); p.status >= 500 {
					t.Errorf("%s with %.20q answers %d", path, odd, p.status)
				}
			default:
				if strings.HasPrefix(route.Pattern, "/deployment") || strings.HasPrefix(route.Pattern, "/account") {
					continue // they act on the site or end the session
				}
				if p, _ := ada.once(route.Method, path, query); p.status >= 500 {
					t.Errorf("POST %s with %.20q answers %d", path, odd, p.status)
				}
			}
		}
	}
}
