package web

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"

	"executor/internal/operators"
	"executor/reconcile"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func keepResult(items []reconcile.BulkItem, result reconcile.BulkResult) []reconcile.BulkItem {
	var list []reconcile.BulkItem
	for _, item := range items {
		if result == "" || item.Result == result {
			list = append(list, item)
		}
	}
	return list
}

// bulkListPage is the list of bulk actions.
type bulkListPage struct {
	Rows  []bulkRow
	Pages pagesView
}

// bulkRow is a bulk action with its name.
type bulkRow struct {
	reconcile.Bulk
	Deed bulkDeed
}

const pageOfBulks = 20

func (s *Server) bulkList(v *visit) error {
	list, next, err := s.doubts.Bulks(v.r.Context(), v.tenant, v.query("cursor"), pageOfBulks)
	if err != nil {
		return err
	}
	p := bulkListPage{Pages: newPages(v, url.Values{}, next)}
	for _, b := range list {
		p.Rows = append(p.Rows, bulkRow{b, deedOf(b.Order)})
	}
	return v.render("bulk_list.html", "Bulk actions", p)
}

// bulkShowPage is a bulk action and what became of each command.
type bulkShowPage struct {
	Bulk  reconcile.Bulk
	Deed  bulkDeed
	Left  []string
	Show  string // the results that are listed; "" is all
	Lines []bulkLine
	Path  string // of this page
	Pages pagesView
	May   bool
	Tabs  []look
}

// Ended is how many have their result.
func (p bulkShowPage) Ended() int { return p.Bulk.Done + p.Bulk.Refused }

// Percent is how much of it has ended.
func (p bulkShowPage) Percent() int { return p.Ended() * 100 / max(p.Bulk.Count, 1) }

// Running reports whether something is still to be done.
func (p bulkShowPage) Running() bool { return p.Bulk.State == reconcile.BulkStateRunning }

const pageOfItems = 100

func (s *Server) bulkShow(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	b, err := s.doubts.Bulk(v.r.Context(), v.tenant, id)
	if err != nil {
		return err
	}
	path := "/bulk/" + id.String()
	p := bulkShowPage{Bulk: b, Deed: deedOf(b.Order), Left: problemLines(b.Problems), Path: v.r.URL.RequestURI(), May: v.may(operators.RoleOperator)}
	start := path
	if slices.Contains(reconcile.BulkResults(), reconcile.BulkResult(v.query("show"))) {
		p.Show = v.query("show")
		start += "?show=" + p.Show
	}
	p.Tabs = []look{{Name: "All", Path: path, Current: p.Show == ""}}
	for _, result := range reconcile.BulkResults() {
		p.Tabs = append(p.Tabs, look{Name: capital(result), Path: path + "?show=" + string(result), Current: p.Show == string(result)})
	}
	items := keepResult(b.Items, reconcile.BulkResult(p.Show))
	from, _ := strconv.Atoi(v.query("from"))
	from = min(max(from, 0), len(items))
	to := min(from+pageOfItems, len(items))
	if from > 0 {
		p.Pages.Start = start
	}
	if to < len(items) {
		p.Pages.Next = path + "?show=" + p.Show + "&from=" + strconv.Itoa(to)
	}
	if p.Lines, err = s.bulkLines(v, items[from:to]); err != nil {
		return err
	}
	return v.render("bulk.html", "Bulk action", p)
}
