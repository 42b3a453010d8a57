package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"executor/commands"
	"executor/internal/operators"
	"executor/outcome"
	"executor/reconcile"
)

func reviewRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/reviews", role: operators.RoleViewer, serve: (*Server).reviews},
		{method: http.MethodGet, pattern: "/reviews.csv", role: operators.RoleViewer, serve: (*Server).reviewsCSV},
		{method: http.MethodPost, pattern: "/reviews/bulk", role: operators.RoleOperator, serve: (*Server).startBulk},
		{method: http.MethodGet, pattern: "/bulk", role: operators.RoleViewer, serve: (*Server).bulkList},
		{method: http.MethodGet, pattern: "/bulk/{id}", role: operators.RoleViewer, serve: (*Server).bulkShow},
	}
}

// reviewsPage is the queue of what waits for a person.
type reviewsPage struct {
	Query     reviewQuery
	Looks     []look
	Rows      []reviewRow
	Count     string
	Path      string // of this page
	CSV       string
	Pages     pagesView
	May       bool // act on many
	Upstreams []string
	Deeds     []bulkDeed
}

// look is a filter that many want.
type look struct {
	Name, Path string
	Current    bool
}

func looksAt(q reviewQuery) []look {
	list := []look{
		{Name: "Everything", Path: "/reviews"}, {Name: "Mine", Path: "/reviews?assignee=me"}, {Name: "Unassigned", Path: "/reviews?assignee=nobody"},
		{Name: "Conflicts", Path: "/reviews?kind=conflict"}, {Name: "Older than 1 h", Path: "/reviews?older_than=1h"},
	}
	for i := range list {
		list[i].Current = address("/reviews", q.values()) == list[i].Path
	}
	return list
}

// Reasons and the like are the choices of the filter.
func (reviewsPage) Reasons() []outcome.OutcomeReason { return outcome.OutcomeReasons() }

func (reviewsPage) Evidences() []outcome.Evidence { return outcome.Evidences() }

func (reviewsPage) Kinds() []string { return reconcile.ReviewKinds() }

// reviewRow is a line of the queue.
type reviewRow struct {
	reconcile.ReviewItem
}

// Item stands for the command as it was seen, for selecting it.
func (r reviewRow) Item() string { return fmt.Sprintf("%s:%d", r.Command.ID, r.Command.Version) }

// Why is one sentence on what has to be decided.
func (r reviewRow) Why() string {
	if len(r.Conflicts) > 0 {
		return conflictSentence(r.Command.State, r.Conflicts)
	}
	text := "It may or may not have been done."
	if o := r.Command.Outcome; o != nil && unresolvedWords[o.Reason] != "" {
		text = unresolvedWords[o.Reason]
	}
	if words := handedWords[r.HandedReason]; words != "" {
		text += " A person decides, because " + words + "."
	}
	return text
}

// conflictSentence holds the newest evidence against the state.
func conflictSentence(state outcome.State, conflicts []reconcile.Conflict) string {
	x := conflicts[len(conflicts)-1]
	claim := findingClaims[x.Finding]
	if claim == "" {
		claim = answerClaims[x.Answer]
	}
	text := fmt.Sprintf("It is settled as %s, but %s says that it was %s", state, sourceWords[x.Source], claim)
	if said := strings.Join(slices.DeleteFunc([]string{x.Reference, x.Code, x.Message}, func(s string) bool { return s == "" }), ", "); said != "" {
		text += " (" + said + ")"
	}
	if more := len(conflicts) - 1; more > 0 {
		text += fmt.Sprintf(", and there is %d more such evidence", more)
	}
	return text + "."
}

// pageOfReviews is how many lines a page has.
const pageOfReviews = 50

func (s *Server) reviews(v *visit) error {
	q := readReviewQuery(v.r.URL.Query())
	p := reviewsPage{
		Query: q, Looks: looksAt(q), Path: v.r.URL.RequestURI(), CSV: address("/reviews.csv", q.values()),
		May: v.may(operators.RoleOperator), Deeds: bulkDeeds,
	}
	names, err := s.upstreamNames(v)
	if err != nil {
		return err
	}
	p.Upstreams = names
	f := p.Query.filter(v.tenant, v.actor())
	if len(p.Query.Wrong) == 0 {
		err = s.readReviews(v, &p, f)
	}
	if wrongFilter(p.Query.Wrong, err) || err == nil && len(p.Query.Wrong) > 0 {
		return v.renderStatus(http.StatusUnprocessableEntity, "reviews.html", "Reviews", p)
	}
	if err != nil {
		return err
	}
	return v.render("reviews.html", "Reviews", p)
}

// wrongFilter puts the complaints of the store beside the fields.
func wrongFilter(into map[string]string, err error) bool {
	found := map[string]string{}
	if !wrongFields(found, err) {
		return false
	}
	for name, detail := range found {
		switch {
		case strings.HasPrefix(name, "metadata_min"):
			name = "min"
		case strings.HasPrefix(name, "metadata_max"):
			name = "max"
		}
		into[name] = detail
	}
	return true
}

func (s *Server) readReviews(v *visit, p *reviewsPage, f reconcile.ReviewFilter) error {
	f.Limit = pageOfReviews
	items, next, err := s.doubts.Reviews(v.r.Context(), f)
	if err != nil {
		return err
	}
	for _, item := range items {
		p.Rows = append(p.Rows, reviewRow{item})
	}
	p.Pages = newPages(v, p.Query.values(), next)
	count, err := s.doubts.CountReviews(v.r.Context(), f)
	if err != nil {
		return err
	}
	p.Count = countText(count)
	return nil
}

// countText is a number, or the bound up to which was counted with a plus.
func countText(c commands.Count) string {
	if c.More {
		return number(c.N) + "+"
	}
	return number(c.N)
}

var reviewColumns = []string{
	"kind", "since", "deadline", "upstream", "operation", "key", "id", "state", "reason", "handed_reason", "evidence", "boundary", "assignee", "why", "metadata",
}

// reviewsCSV is the queue as a table, from its beginning.
func (s *Server) reviewsCSV(v *visit) error {
	q := readReviewQuery(v.r.URL.Query())
	f := q.filter(v.tenant, v.actor())
	if len(q.Wrong) > 0 {
		return badRequest("The filter of this address is not valid. Set it on the page of the queue.")
	}
	f.Limit = commands.MaxPage
	return s.export(v, table{
		name: "reviews", columns: reviewColumns,
		page: func(ctx context.Context, cursor string) ([][]string, string, error) {
			f.Cursor = cursor
			items, next, err := s.doubts.Reviews(ctx, f)
			return cellsOf(items, exportRow), next, err
		},
		ends: func(rows, _ int) string {
			if rows < exportRows {
				return ""
			}
			return "(ends here after " + strconv.Itoa(rows) + " rows, there are more: narrow the filter)"
		},
	})
}

func exportRow(item reconcile.ReviewItem) []string {
	c := item.Command
	reason := ""
	if c.Outcome != nil {
		reason = string(c.Outcome.Reason)
	}
	var labels []string
	for name, value := range c.Metadata {
		labels = append(labels, name+"="+value)
	}
	slices.Sort(labels)
	return []string{
		item.Kind, item.Since.UTC().Format(time.RFC3339), c.Deadline.UTC().Format(time.RFC3339), c.Upstream, c.Operation, c.Key, c.ID.String(), string(c.State),
		reason, item.HandedReason, string(item.Evidence), string(c.Record.Boundary), item.Assignee, reviewRow{item}.Why(), strings.Join(labels, "; "),
	}
}
