package web_test

import (
	"bytes"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"executor/internal/operators"
	"executor/internal/testkit/tenants"
	"executor/web"
)

// TestNoPageReachesAnotherTenant walks every page and action, in every role of one
// tenant, to every kind of thing of the other. No answer tells it from a thing that
// does not exist, none shows anything of the other tenant, and nothing of it changes.
func TestNoPageReachesAnotherTenant(t *testing.T) {
	q := newQuarter(t)
	before := q.world.Rows(t, tenants.Globex)
	for _, role := range operators.Roles() {
		visitor := q.as(t, "acme-"+string(role))
		for _, route := range web.AllRoutes() {
			if route.Method == http.MethodGet && role.Allows(route.Role) && route.Role != "" {
				q.look(visitor, route, role == route.Role)
			}
		}
		for _, route := range web.AllRoutes() {
			if route.Method == http.MethodPost && role.Allows(route.Role) && route.Role != "" {
				q.act(visitor, route)
			}
		}
	}
	if diff := cmp.Diff(before, q.world.Rows(t, tenants.Globex)); diff != "" {
		t.Errorf("something of the other tenant changed:\n%s", diff)
	}
	q.world.CheckJoins(t)
}

// look asks for a page with things of the other tenant in its path and its filters.
//
// Who has more than the least role that may is asked for less: a role decides whether,
// and never what.
func (q *quarter) look(visitor *browse, route web.Route, least bool) {
	q.t.Helper()
	queries, control := q.queries(route, q.theirs), q.queries(route, q.ghosts)
	if !least {
		queries = queries[:1]
	}
	theirs, ghosts := q.paths(route.Pattern, q.theirs, least), q.paths(route.Pattern, q.ghosts, least)
	for i := range theirs {
		for j := range queries {
			q.compare(route, visitor.get(theirs[i]+queries[j]), visitor.get(ghosts[i]+control[j]), theirs[i]+queries[j])
		}
	}
}

// queries are those that a page can be asked by its own forms and links.
func (q *quarter) queries(route web.Route, n tenants.Names) []string {
	q.t.Helper()
	list := map[string][]string{
		"/live":                     {"?seen=0&topic=command:" + n["command"]},
		"/upstreams/{name}":         {"", "?version=1"},
		"/upstreams/{name}/diff":    {"", "?from=1&to=1"},
		"/upstreams/{name}/explain": {"?version=1&operation=pay"},
		"/commands/{id}":            {"", "?attempts=all"},
		"/bulk/{id}":                {"", "?show=done"},
		"/reports/{id}":             {"", "?kind=different"},
		"/reports/new":              {"?upstream=" + n["upstream"]},
		"/operators/{id}/{deed:role|remove|disable|enable|link|end-sessions}": {"?role=viewer"},
	}[route.Pattern]
	if len(list) == 0 {
		list = []string{""}
	}
	if strings.Contains(route.Pattern, "{") {
		return list
	}
	for _, f := range q.forms {
		if f.post || f.action != strings.TrimSuffix(route.Pattern, ".csv") {
			continue
		}
		found, unknown := asked(f, n)
		if len(unknown) > 0 {
			q.t.Fatalf("the test does not know what to ask %s for by %v", route.Pattern, unknown)
		}
		for _, query := range found {
			if query = "?" + query; !slices.Contains(list, query) {
				list = append(list, query)
			}
		}
	}
	if slices.Contains([]string{"/search", "/reviews", "/deliveries", "/reports", "/bulk", "/audit"}, route.Pattern) {
		list = append(list, "?cursor="+n["cursor"])
	}
	return list
}

// act sends the forms that people of globex are shown.
func (q *quarter) act(visitor *browse, route web.Route) {
	q.t.Helper()
	sent := 0
	theirs, ghosts := q.paths(route.Pattern, q.theirs, false), q.paths(route.Pattern, q.ghosts, false)
	for i, path := range theirs {
		for _, f := range q.forms {
			if !f.post || f.action != path {
				continue
			}
			fields := typed(maps.Clone(f.fields), q.theirs)
			control := renamed(fields, q.theirs, q.ghosts)
			for _, tenant := range []string{"", "?for="} {
				if tenant != "" && sent > 0 {
					continue
				}
				got, want := visitor.submit(path+query(tenant, q.theirs), fields), visitor.submit(ghosts[i]+query(tenant, q.ghosts), control)
				q.compare(route, got, want, path+" "+fields.Encode())
			}
			sent++
		}
	}
	if sent == 0 {
		q.t.Errorf("no page shows a form that POSTs to %s", route.Pattern)
	}
}

func query(name string, n tenants.Names) string {
	if name == "" {
		return ""
	}
	return name + n["tenant"]
}

// renamed is the form with the names of nothing.
func renamed(fields url.Values, theirs, ghosts tenants.Names) url.Values {
	control := url.Values{}
	for name, values := range fields {
		for _, value := range values {
			for kind, text := range theirs {
				if _, err := uuid.Parse(text); err == nil {
					value = strings.ReplaceAll(value, text, ghosts[kind])
				}
			}
			control.Add(name, strings.ReplaceAll(value, theirs["tenant"], ghosts.Nobody()))
		}
	}
	return control
}

// submit sends a form as its page would; one with a file as such.
func (b *browse) submit(path string, fields url.Values) page {
	b.t.Helper()
	if !fields.Has("file") {
		return b.do(http.MethodPost, path, fields)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, values := range fields {
		for _, value := range values {
			if name != "file" {
				_ = form.WriteField(name, value)
			}
		}
	}
	file, err := form.CreateFormFile("file", "report.csv")
	if err != nil {
		b.t.Fatal(err)
	}
	_, _ = io.WriteString(file, "key,state\n"+fields.Get("reference")+",success\n")
	_ = form.Close()
	return b.send(path, form.FormDataContentType(), &body)
}

// fleeting is what differs between two equal pages.
var fleeting = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|<time[^>]*>[^<]*</time>|\d{4}-\d\d-\d\d[T ][0-9:.]+Z?|[0-9a-f]{64}`)

// compare holds the answer about something of the other tenant against that about
// nothing.
func (q *quarter) compare(route web.Route, got, want page, question string) {
	q.t.Helper()
	name := route.Method + " " + route.Pattern
	if leaks := tenants.Leaks(q.secrets, question, got.body); len(leaks) > 0 {
		q.t.Errorf("%s: %s shows %v of the other tenant:\n%s", name, question, leaks, got.body)
	}
	if got.status >= 500 {
		q.t.Errorf("%s: %s answers %d", name, question, got.status)
	}
	if route.Method == http.MethodPost && !strings.Contains(route.Pattern, "{") { // it makes something, and shows it
		if got.status != want.status {
			q.t.Errorf("%s: %s answers %d, and %d about nothing", name, question, got.status, want.status)
		}
		return
	}
	theirs, nothing := shapes(shape(got, q.theirs), shape(want, q.ghosts))
	if diff := cmp.Diff(nothing, theirs); diff != "" {
		q.t.Errorf("%s: %s is told from what does not exist: (-nothing +theirs)\n%s", name, question, diff)
	}
	if strings.Contains(route.Pattern, "{") && got.status < 400 && !strings.HasPrefix(route.Pattern, "/account/") {
		q.t.Errorf("%s: %s answers %d", name, question, got.status)
	}
}

// shape is a page without what names things.
func shape(p page, n tenants.Names) string {
	return http.StatusText(p.status) + " " + n.Hide(p.path+"\n"+p.body)
}

// shapes are two pages without what they share, line by line, and without what is
// fleeting: to look for that in all of every page takes most of the time of the test.
func shapes(a, b string) (string, string) {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	if len(x) == len(y) {
		var differs []int
		for i := range x {
			if x[i] != y[i] {
				differs = append(differs, i)
			}
		}
		x, y = pick(x, differs), pick(y, differs)
	}
	return fleeting.ReplaceAllString(strings.Join(x, "\n"), "«»"), fleeting.ReplaceAllString(strings.Join(y, "\n"), "«»")
}

func pick(lines []string, which []int) (picked []string) {
	for _, i := range which {
		picked = append(picked, lines[i])
	}
	return picked
}

// TestEveryFormActsForItsOwn: the same forms, sent by whom they are shown to, are
// about something: taken, or refused because it changed since. Without that the other
// test would prove nothing.
func TestEveryFormActsForItsOwn(t *testing.T) {
	q := newQuarter(t)
	admin := q.as(t, "globex-admin")
	for _, route := range web.AllRoutes() {
		if route.Method != http.MethodPost || route.Role == "" || strings.HasPrefix(route.Pattern, "/deployment/") {
			continue
		}
		paths := q.paths(route.Pattern, q.theirs, false)
		slices.SortStableFunc(paths, func(a, b string) int { return last(a) - last(b) })
		for _, path := range paths {
			for _, f := range q.forms {
				if f.post && f.action == path {
					if p := admin.submit(path, typed(maps.Clone(f.fields), q.theirs)); p.status == http.StatusForbidden || p.status == http.StatusNotFound || p.status >= 500 {
						t.Errorf("%s %v answers %d", path, f.fields, p.status)
					}
				}
			}
		}
	}
}

// last puts behind the others what takes the thing away.
func last(path string) int {
	if strings.HasSuffix(path, "/remove") {
		return 1
	}
	return 0
}
