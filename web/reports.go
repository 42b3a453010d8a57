package web

import (
	"net/http"
	"net/url"
	"slices"

	"executor/internal/operators"
	"executor/reconcile"
)

func reportRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/reports", role: operators.RoleViewer, serve: (*Server).reportList},
		{method: http.MethodGet, pattern: "/reports/new", role: operators.RoleOperator, serve: (*Server).reportNew},
		{method: http.MethodPost, pattern: "/reports", role: operators.RoleOperator, upload: true, serve: (*Server).reportUpload},
		{method: http.MethodGet, pattern: "/reports/{id}", role: operators.RoleViewer, serve: (*Server).reportShow},
		{method: http.MethodGet, pattern: "/reports/{id}/items.csv", role: operators.RoleViewer, serve: (*Server).reportExport},
		{method: http.MethodGet, pattern: "/reports/{id}/apply", role: operators.RoleOperator, serve: (*Server).reportForecast},
		{method: http.MethodPost, pattern: "/reports/{id}/apply", role: operators.RoleOperator, serve: (*Server).reportApply},
	}
}

// reportsPage lists settlement reports, newest first.
type reportsPage struct {
	Reports   []reconcile.Report
	Upstream  string
	Upstreams []string
	Operator  bool
	Pages     pagesView
}

func (s *Server) reportList(v *visit) (err error) {
	p := &reportsPage{Upstream: v.query("upstream"), Operator: v.may(operators.RoleOperator)}
	if p.Upstreams, err = s.upstreamNames(v); err != nil {
		return err
	}
	if p.Upstream != "" && !slices.Contains(p.Upstreams, p.Upstream) {
		p.Upstreams = append(p.Upstreams, p.Upstream)
	}
	var next string
	p.Reports, next, err = s.doubts.Reports(v.r.Context(), reconcile.ReportFilter{Tenant: v.tenant, Upstream: p.Upstream, Cursor: v.query("cursor")})
	if err != nil {
		return err
	}
	query := url.Values{}
	if p.Upstream != "" {
		query.Set("upstream", p.Upstream)
	}
	p.Pages = newPages(v, query, next)
	return v.render("reports.html", "Settlement reports", p)
}

// reportPage is one report with a page of its items.
type reportPage struct {
	reconcile.Report
	Kinds    []kindCount
	Kind     reconcile.ReportKind // that is shown; "" for all
	Items    []reconcile.ReportItem
	Operator bool
	Pages    pagesView
}

// kindCount is how many items say one thing.
type kindCount struct {
	Kind    reconcile.ReportKind
	Words   string
	Count   int
	Current bool
}

var kindWords = map[reconcile.ReportKind]string{
	reconcile.ReportMatched:      "both sides say the same",
	reconcile.ReportDifferent:    "the state or a compared field differs",
	reconcile.ReportMissingHere:  "the line names no command of ours",
	reconcile.ReportMissingThere: "a command of the period that no line is about",
	reconcile.ReportDuplicate:    "a second line about the same command",
	reconcile.ReportAmbiguous:    "the line fits several commands",
	reconcile.ReportUnreadable:   "it names nothing, or its state has no meaning",
	reconcile.ReportTooYoung:     "it differs or is missing, and may still settle",
}

// Busy reports whether somebody is at work on it.
func (p *reportPage) Busy() bool {
	return slices.Contains([]reconcile.ReportState{reconcile.ReportUploading, reconcile.ReportComparing, reconcile.ReportApplying}, p.State)
}

// Summary says where the report stands and what has changed by it.
func (p *reportPage) Summary() string {
	switch p.State {
	case reconcile.ReportUploading:
		return "The file is arriving. Nothing has changed by it."
	case reconcile.ReportComparing:
		if p.Compared >= p.Lines && p.From != nil {
			return "The lines are compared; now it is looked for commands of the period that the file leaves out. Nothing has changed by it."
		}
		return "Its lines are compared with our commands. Nothing has changed by it."
	case reconcile.ReportCompared:
		return "It is compared, and nothing of it was passed on: no command has changed by it. Look at what differs, and then apply it if you believe the file."
	case reconcile.ReportApplying:
		return "What it proves is passed on to our commands, line by line."
	case reconcile.ReportApplied:
		return "All that it proves was passed on to our commands."
	default:
		return "It failed, and nothing has changed by it. Mend what is wrong and upload it again."
	}
}

func (s *Server) reportShow(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	p := &reportPage{Kind: reconcile.ReportKind(v.query("kind")), Operator: v.may(operators.RoleOperator)}
	if p.Report, err = s.doubts.Report(v.r.Context(), v.tenant, id); err != nil {
		return err
	}
	p.Kinds = kindCounts(p.Counts, p.Kind)
	filter := reconcile.ReportItemFilter{Tenant: v.tenant, Report: id, Cursor: v.query("cursor")}
	query := url.Values{}
	if p.Kind != "" {
		filter.Kinds = []reconcile.ReportKind{p.Kind}
		query.Set("kind", string(p.Kind))
	}
	var next string
	if p.Items, next, err = s.doubts.ReportItems(v.r.Context(), filter); err != nil {
		return err
	}
	p.Pages = newPages(v, query, next)
	return v.render("report.html", "Settlement report of "+p.Upstream, p)
}

func kindCounts(n reconcile.ReportCounts, chosen reconcile.ReportKind) (list []kindCount) {
	counts := map[reconcile.ReportKind]int{
		reconcile.ReportMatched: n.Matched, reconcile.ReportDifferent: n.Different, reconcile.ReportMissingHere: n.MissingHere,
		reconcile.ReportMissingThere: n.MissingThere, reconcile.ReportDuplicate: n.Duplicate, reconcile.ReportAmbiguous: n.Ambiguous,
		reconcile.ReportUnreadable: n.Unreadable, reconcile.ReportTooYoung: n.TooYoung + n.YoungThere,
	}
	for _, kind := range reconcile.ReportKinds() {
		list = append(list, kindCount{kind, kindWords[kind], counts[kind], kind == chosen})
	}
	return list
}
