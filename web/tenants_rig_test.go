package web_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/internal/postgres"
	"executor/internal/testkit/tenants"
	"executor/web"
)

// quarter is the dashboard on two tenants, of which acme's people look for what is
// globex's.
type quarter struct {
	*site
	t              *testing.T
	world          *tenants.World
	theirs, ghosts tenants.Names
	secrets        []string // that only globex knows
	forms          []webForm
}

func newQuarter(t *testing.T) *quarter {
	t.Helper()
	w := tenants.New(t)
	server, err := web.NewServer(web.Config{
		Pool: w.Pool, Commands: w.Commands, Upstreams: w.Upstreams, Doubts: w.Doubts, Hooks: w.Hooks, Deployment: w.Deployment,
		Keys: w.Keys, Operators: w.Operators, Sessions: w.Sessions, Instance: "test", Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		JSON: func(ctx context.Context, tenant string, id uuid.UUID) ([]byte, error) {
			_, err := w.Commands.Get(ctx, tenant, id)
			return []byte(`{}`), err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{pool: w.Pool, server: server, http: httptest.NewServer(server.Routes())}
	t.Cleanup(func() {
		server.Drain()
		s.http.Close()
	})
	globex := w.Tenants[tenants.Globex]
	q := &quarter{site: s, t: t, world: w, theirs: globex.Names(), secrets: w.Secrets(t, tenants.Globex)}
	q.theirs["url"] = strings.Replace(globex.WebhookURL, "/hook", "/hook-of-"+globex.Tenant, 1)
	q.theirs["cursor"] = globex.LastPage
	q.ghosts = q.theirs.Ghosts()
	at, _, _ := postgres.ParseCursor(globex.LastPage)
	q.ghosts["cursor"] = postgres.Cursor(at, uuid.New())
	q.forms = q.harvest(s.as(t, "globex-admin"))
	return q
}

// thingOf is what the {id} of a route is.
func thingOf(pattern string) string {
	if kind, special := map[string]string{
		"/commands/{id}/lookup": "asked", "/commands/{id}/cancel": "waiting", "/commands/{id}/correct": "disputed", "/commands/{id}/resend": "doubted",
		"/commands/{id}/attempts/{n}/body": "paid", "/webhooks/{id}/challenge": "unproven", "/webhooks/{id}/confirm": "unproven",
	}[pattern]; special {
		return kind
	}
	for prefix, kind := range map[string]string{
		"/commands/{id}": "command", "/webhooks/{id}": "webhook", "/deliveries/{id}": "delivery", "/reports/{id}": "report", "/bulk/{id}": "bulk",
		"/keys/{id}": "apikey", "/operators/{id}": "operator", "/account/sessions/{id}": "session",
	} {
		if strings.HasPrefix(pattern, prefix) {
			return kind
		}
	}
	return ""
}

// paths are all that a route leads to with these names, those of its own kind of
// thing first.
func (q *quarter) paths(pattern string, n tenants.Names, everyKind bool) (paths []string) {
	q.t.Helper()
	kinds := []string{thingOf(pattern)}
	if strings.Contains(pattern, "{id}") && kinds[0] == "" {
		q.t.Fatalf("the test does not know what the {id} of %s is of", pattern)
	}
	if everyKind && kinds[0] != "" {
		kinds = append(kinds, slices.DeleteFunc(slices.Sorted(slices.Values(n.IDs())), func(k string) bool { return k == kinds[0] })...)
	}
	for _, kind := range kinds {
		path := strings.NewReplacer("{id}", n[kind], "{n}", "1", "{name}", n["upstream"]).Replace(pattern)
		begin, choice, found := strings.Cut(path, "{deed:")
		for _, deed := range strings.Split(strings.TrimSuffix(choice, "}"), "|") {
			if strings.Contains(begin+deed, "{") || found && deed == "" {
				q.t.Fatalf("the test does not know the parameter of %s", pattern)
			}
			paths = append(paths, begin+deed)
		}
	}
	return paths
}

// harvest reads every form that an admin of globex is shown on a page of their own
// things.
func (q *quarter) harvest(admin *browse) []webForm {
	q.t.Helper()
	forms := []webForm{ // that only some are shown
		{"/account/tenant", true, url.Values{"tenant": {q.theirs["tenant"]}}},
		{"/account/sessions/" + q.theirs["session"] + "/end", true, url.Values{}},
		{"/account/sessions/end-others", true, url.Values{}},
		{"/deployment/freeze", true, url.Values{"reason": {"drill"}}}, {"/deployment/resume", true, url.Values{"reason": {"drill"}}},
	}
	for _, route := range web.AllRoutes() {
		if route.Method != http.MethodGet || route.Pattern == "/live" {
			continue
		}
		for _, path := range q.paths(route.Pattern, q.theirs, false) {
			if begin, deed := path[:strings.LastIndex(path, "/")], path[strings.LastIndex(path, "/")+1:]; deed == "role" {
				path += "?role=viewer"
			} else if strings.HasPrefix(begin, "/webhooks/") && deed == "redeliver" {
				path += "?since=2020-01-01T00:00"
			}
			p := admin.get(path)
			if forms = append(forms, formsOf(p)...); p.status != http.StatusOK && !strings.HasPrefix(path, "/deployment/") {
				q.t.Errorf("%s answers its own with %d", path, p.status)
			}
		}
	}
	forms = append(forms, formsOf(admin.get("/webhooks/"+q.theirs["unproven"]))...)
	for _, f := range forms {
		if at, found := strings.CutSuffix(f.action, "/disable"); found && strings.HasPrefix(at, "/webhooks/") {
			forms = append(forms, webForm{at + "/enable", true, f.fields})
		}
	}
	return forms
}
