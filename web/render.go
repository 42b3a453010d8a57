package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"executor/attempts"
	"executor/internal/operators"
)

//go:embed *.html
var templateFiles embed.FS

// pages are the templates, by file name, each with the layout around it.
type pages map[string]*template.Template

// shared are the files that every page has.
var shared = []string{"layout.html", "parts.html", "part_*.html"}

func parsePages(a *assets) (pages, error) {
	names, err := fs.Glob(templateFiles, "*.html")
	if err != nil {
		return nil, err
	}
	base, err := template.New("").Funcs(functions(a)).ParseFS(templateFiles, shared...)
	if err != nil {
		return nil, err
	}
	all := pages{}
	for _, name := range names {
		if isShared(name) {
			continue
		}
		page, err := template.Must(base.Clone()).ParseFS(templateFiles, name)
		if err != nil {
			return nil, err
		}
		all[name] = page
	}
	return all, nil
}

func isShared(name string) bool {
	return slices.ContainsFunc(shared, func(pattern string) bool {
		matches, err := path.Match(pattern, name)
		return err == nil && matches
	})
}

// frame is what the layout shows around a page.
type frame struct {
	Title      string
	Page       any    // what the page itself shows
	URI        string // of the page, to come back to
	SignedIn   bool
	Operator   string
	Role       operators.Role
	Tenant     string
	Tenants    []string
	Notice     string
	Tone       string
	Deployment attempts.DeploymentState
	Instance   string
	Sections   []section
}

// section is an entry of the navigation.
type section struct {
	Path, Name string
	Current    bool
}

// sections is the navigation as the role sees it.
func (v *visit) sections() []section {
	if !v.signedIn() {
		return nil
	}
	list := []section{
		{Path: "/", Name: "Home"}, {Path: "/reviews", Name: "Reviews"}, {Path: "/search", Name: "Commands"},
		{Path: "/upstreams", Name: "Upstreams"}, {Path: "/webhooks", Name: "Webhooks"}, {Path: "/reports", Name: "Reports"},
		{Path: "/audit", Name: "Audit"}, {Path: "/deployment", Name: "Deployment"},
	}
	if v.may(operators.RoleAdmin) {
		list = append(list, section{Path: "/keys", Name: "API keys"}, section{Path: "/operators", Name: "Operators"})
	}
	for i, entry := range list {
		list[i].Current = entry.Path == sectionOf(v.r.URL.Path)
	}
	return list
}

// sectionOf is the entry of the navigation that a path belongs to.
func sectionOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "commands":
		return "/search"
	case "deliveries":
		return "/webhooks"
	case "bulk":
		return "/reviews"
	default:
		return "/" + first
	}
}

const failurePage = "failure.html"

// render answers with a page.
func (v *visit) render(name, title string, data any) error {
	return v.renderStatus(http.StatusOK, name, title, data)
}

// renderStatus renders the whole page before anything of it is written: a page is
// whole or an error.
func (v *visit) renderStatus(status int, name, title string, data any) error {
	page, ok := v.server.pages[name]
	if !ok {
		return fmt.Errorf("there is no page %s", name)
	}
	f, err := v.frame(title, data)
	if err != nil && name != failurePage { // that one is shown without its banner rather than not at all
		return err
	}
	var b bytes.Buffer
	if err := page.ExecuteTemplate(&b, "layout.html", f); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(v.bound(inert(b.Bytes()))) // whoever went away needs no answer
	return nil
}

// formOfOurs is the opening tag of a form that acts. Text of others is escaped and
// has no tags.
var formOfOurs = regexp.MustCompile(`(<form\b[^<>]*\bmethod="post"[^<>]*\baction=")([^"?]*)(")`)

// bound binds the forms of a page to the tenant that it shows, for those who have
// several: a form of an earlier page must not act in the tenant they have turned to.
func (v *visit) bound(page []byte) []byte {
	if len(v.operator.Roles) < 2 {
		return page
	}
	return formOfOurs.ReplaceAll(page, []byte("${1}${2}?for="+url.QueryEscape(v.tenant)+"${3}"))
}

func (v *visit) frame(title string, data any) (frame, error) {
	f := frame{
		Title: title, Page: data, URI: v.r.URL.RequestURI(), SignedIn: v.signedIn(), Instance: v.server.instance,
		Sections: v.sections(),
	}
	if !v.signedIn() {
		return f, nil
	}
	ctx := v.r.Context()
	f.Operator, f.Role, f.Tenant = v.operator.Name, v.role, v.tenant
	for _, grant := range v.operator.Roles {
		f.Tenants = append(f.Tenants, grant.Tenant)
	}
	f.Notice = v.server.cookies.PopString(ctx, sessionNotice)
	f.Tone = v.server.cookies.PopString(ctx, sessionTone)
	state, err := v.server.deployment.Show(ctx)
	f.Deployment = state.SeenBy(v.tenant)
	return f, err
}
