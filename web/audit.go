package web

import (
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"executor/internal/audit"
	"executor/internal/operators"
)

func auditRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/audit", role: operators.RoleViewer, serve: (*Server).auditPage},
		{method: http.MethodGet, pattern: "/audit.csv", role: operators.RoleViewer, serve: (*Server).auditExport},
	}
}

// auditView is a page of what people did.
type auditView struct {
	Entries []audit.Recorded
	Actions []string
	Query   auditQuery
	Wrong   string
	Pages   pagesView
	Export  string // address of the same as CSV
}

// auditQuery is the filter as it stands in the address.
type auditQuery struct{ Actor, Action, Command, After, Before string }

// pagesView is what the part "pages" shows: the addresses of the next page and of
// the first, "" on the last page and on the first.
type pagesView struct{ Next, Start string }

// newPages links the first and the next page of the list that is shown, with its
// filter.
func newPages(v *visit, query url.Values, next string) pagesView {
	query.Del("cursor")
	var p pagesView
	if v.query("cursor") != "" {
		p.Start = address(v.r.URL.Path, query)
	}
	if next != "" {
		query.Set("cursor", next)
		p.Next = address(v.r.URL.Path, query)
	}
	return p
}

func address(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

func (s *Server) auditPage(v *visit) error {
	view := auditView{Actions: audit.Actions(), Query: auditQuery{v.query("actor"), v.query("action"), v.query("command"), v.query("after"), v.query("before")}}
	f, wrong := view.Query.filter(v)
	if view.Wrong = wrong; wrong != "" {
		return v.renderStatus(http.StatusBadRequest, "audit.html", "Audit", view)
	}
	var (
		next string
		err  error
	)
	if view.Entries, next, err = audit.List(v.r.Context(), s.pool, f); err != nil {
		return err
	}
	view.Pages = newPages(v, v.r.URL.Query(), next)
	view.Export = address("/audit.csv", v.r.URL.Query())
	return v.render("audit.html", "Audit", view)
}

// filter reads it. What cannot be read is told in a sentence.
func (q auditQuery) filter(v *visit) (audit.Filter, string) {
	f := audit.Filter{Tenant: v.tenant, Actor: q.Actor, Action: q.Action, Cursor: v.query("cursor")}
	if q.Command != "" {
		id, err := uuid.Parse(q.Command)
		if err != nil {
			return f, "The command is named by its id."
		}
		f.Command = &id
	}
	after, err := typedMoment(q.After)
	before, alsoErr := typedMoment(q.Before)
	if err != nil || alsoErr != nil {
		return f, "A time is written like 2026-12-01T15:04 and is in UTC."
	}
	if !after.IsZero() {
		f.After = &after
	}
	if !before.IsZero() {
		f.Before = &before
	}
	return f, ""
}
