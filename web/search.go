package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/operators"
	"executor/outcome"
)

func searchRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/search", role: operators.RoleViewer, serve: (*Server).search},
		{method: http.MethodGet, pattern: "/search.csv", role: operators.RoleViewer, serve: (*Server).searchExport},
	}
}

// searchPage is a page of commands and what was asked for.
type searchPage struct {
	Query      searchQuery
	States     []choice
	Only       []link // shortcuts to one state
	Upstreams  []string
	Operations []string // of the upstream that is chosen
	Evidences  []outcome.Evidence
	Reasons    []reasonGroup
	Rows       []commandRow
	Scanned    *commands.Scanned // nil: the page is full, or everything was looked at
	Wrong      string
	Pages      pagesView
	Again      string // the address of this page, for its live region
	Export     string
	Empty      bool // the tenant has no command at all, as far as this page can tell
}

// choice is a box that may be ticked.
type choice struct {
	Value   string
	Checked bool
}

// link is a place to go, current or not.
type link struct {
	Name, Path string
	Current    bool
}

// search lists commands, newest first. A text that is the id of a command leads
// straight to it.
func (s *Server) search(v *visit) error {
	q := v.searchQuery()
	if id, err := uuid.Parse(q.Text); err == nil && q.alone() {
		if _, err := s.commands.Get(v.r.Context(), v.tenant, id); err == nil {
			return v.redirect("/commands/" + id.String())
		}
	}
	p, err := s.searchForm(v, q)
	if err != nil {
		return err
	}
	f, wrong := q.filter(v.tenant)
	if wrong != "" {
		p.Wrong = wrong
		return v.renderStatus(http.StatusBadRequest, "search.html", "Commands", p)
	}
	f.Cursor, f.Scan = v.query("cursor"), commands.ScanPage
	page, err := s.commands.Page(v.r.Context(), f)
	if err != nil {
		return err
	}
	p.Rows, p.Scanned, p.Pages = commandRows(page.Commands), page.Scanned, newPages(v, v.r.URL.Query(), page.Next)
	p.Empty = len(p.Rows) == 0 && !q.asks() && p.Pages.Start == ""
	return v.render("search.html", "Commands", p)
}

// searchForm is the page without what was found.
func (s *Server) searchForm(v *visit, q searchQuery) (*searchPage, error) {
	p := &searchPage{Query: q, Evidences: outcome.Evidences(), Reasons: reasonGroups(q.Reason), Again: v.r.URL.RequestURI()}
	var err error
	if p.Upstreams, err = s.upstreamNames(v); err != nil {
		return nil, err
	}
	p.Upstreams = withChosen(p.Upstreams, q.Upstream)
	if u, err := s.upstreams.Latest(v.r.Context(), v.tenant, q.Upstream); q.Upstream != "" && err == nil {
		p.Operations = operationNames(u.Profile)
	}
	values := q.values()
	p.Export = address("/search.csv", values)
	p.Only = []link{onlyState(values, "", "All")}
	for _, state := range outcome.States() {
		p.States = append(p.States, choice{string(state), q.has(state)})
		p.Only = append(p.Only, onlyState(values, string(state), "Only "+string(state)))
	}
	return p, nil
}

// onlyState links the same search for one state, or for all.
func onlyState(values url.Values, state, name string) link {
	current := strings.Join(values["state"], ",") == state
	changed := url.Values{}
	for key, list := range values {
		if key != "state" {
			changed[key] = list
		}
	}
	if state != "" {
		changed.Set("state", state)
	}
	return link{Name: name, Path: address("/search", changed), Current: current}
}
