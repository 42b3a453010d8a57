package web_test

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// manyDoubts are so many commands that wait for a person.
func (s *site) manyDoubts(t testing.TB, n int) (list []commands.Command) {
	t.Helper()
	var ids []uuid.UUID
	for i := range n {
		ids = append(ids, s.submit(t, fmt.Sprintf("pay-%02d", i), "charge_card", "commit,drop"))
	}
	for _, id := range ids {
		list = append(list, s.await(t, id, outcome.StateUnresolved))
	}
	return list
}

var itemValue = regexp.MustCompile(`name="item" value="([^"]+)"`)

// ticked are the fields of a selection of all lines of the page.
func (p page) ticked(typed ...string) []string {
	for _, found := range itemValue.FindAllStringSubmatch(p.body, -1) {
		typed = append(typed, "item", found[1])
	}
	return typed
}

// bulkEnded waits for the end of a bulk action.
func (s *site) bulkEnded(t testing.TB, id uuid.UUID) (b reconcile.Bulk) {
	t.Helper()
	until(t, "the bulk action ends", func() bool {
		var err error
		if b, err = s.doubts.Bulk(t.Context(), tenant, id); err != nil {
			t.Fatal(err)
		}
		return b.State == reconcile.BulkStateDone
	})
	return b
}

// TestFiftyAtOnce: selected, previewed, confirmed and done once; what moved on since
// is left alone and named.
func TestFiftyAtOnce(t *testing.T) {
	s := newSite(t)
	list := append(s.manyDoubts(t, 50), s.doubtful(t, "pay-50")) // the page shows the oldest 50
	otto := s.as(t, "otto")
	queue := otto.get("/reviews")
	queue.has(t, "pay-00", "51 wait for a person", "Preview for all 51 that match", "Next page", "/search?state=unresolved")
	preview := otto.post("/reviews/bulk", queue.ticked("do", "resolve_success", "scope", "chosen", "filter", "")...)
	preview.has(t, "You are about to resolve 50 commands as success", "The first 20 of them", "The caller of each is told success")

	fields := preview.hidden("evidence_reference", "report 7")
	missing := otto.post("/reviews/bulk", fields...)
	missing.has(t, `id="wrong-reason"`, `value="report 7"`)
	if missing.status != http.StatusUnprocessableEntity {
		t.Errorf("without a reason: %d", missing.status)
	}
	otto.act(list[3], "note", "reason", "wait with this one").has(t, "on record")
	again := otto.post("/reviews/bulk", queue.ticked("do", "resolve_success", "scope", "chosen")...)
	again.has(t, "resolve 49 commands as success", "1: has moved on since it was selected")

	fields = missing.hidden("evidence_reference", "report 7", "reason", "the report lists them")
	started := otto.post("/reviews/bulk", fields...)
	if !strings.HasPrefix(started.path, "/bulk/") {
		t.Fatalf("leads to %s (%d)\n%s", started.path, started.status, started.body)
	}
	id := uuid.MustParse(strings.TrimPrefix(started.path, "/bulk/"))
	if b := s.bulkEnded(t, id); b.Done != 49 || b.Refused != 1 || b.Count != 50 {
		t.Fatalf("bulk: %d done, %d refused of %d: %v", b.Done, b.Refused, b.Count, b.Problems)
	}
	if repeated := otto.post("/reviews/bulk", fields...); repeated.path != started.path {
		t.Errorf("a repeat leads to %s", repeated.path)
	}
	other := otto.post("/reviews/bulk", missing.hidden("evidence_reference", "report 8", "reason", "another reason")...)
	other.has(t, "Another bulk action was started under this id", "another reason")
	if all, _, err := s.doubts.Bulks(t.Context(), tenant, "", 10); err != nil || len(all) != 1 {
		t.Errorf("%d bulk actions, %v", len(all), err)
	}
	shown := otto.get(started.path + "?show=refused")
	shown.has(t, "49 done, 1 left alone", "has moved on since", "pay-03", "Preview it again for the 1 left alone")
	otto.get("/bulk").has(t, "Resolve as success", "the report lists them")
	retry := otto.post("/reviews/bulk", "do", "resolve_success", "refused_of", id.String())
	retry.has(t, "resolve 1 command as success")
	if got := s.await(t, list[0].ID, outcome.StateSuccess); s.deeds(t, got.ID) != "otto command.resolve" {
		t.Errorf("deeds: %s", s.deeds(t, got.ID))
	}
}

// TestAllThatMatch: the filter selects at the preview, and nothing that comes after
// it is touched.
func TestAllThatMatch(t *testing.T) {
	s := newSite(t)
	first := s.doubtful(t, "first")
	otto := s.as(t, "otto")
	preview := otto.post("/reviews/bulk", "do", "assign", "scope", "all", "filter", "operation=charge_card")
	preview.has(t, "assign 1 command")
	late := s.doubtful(t, "late")
	started := otto.post("/reviews/bulk", preview.hidden("to", "me", "reason", "mine")...)
	s.bulkEnded(t, uuid.MustParse(strings.TrimPrefix(started.path, "/bulk/")))
	otto.get("/reviews?assignee=me").has(t, "first")
	otto.get("/reviews?assignee=me").lacks(t, ">late<")
	otto.get("/reviews?assignee=nobody").has(t, late.Key)
	otto.post("/reviews/bulk", "do", "note", "scope", "chosen").has(t, "Nothing was selected")
	if p := otto.post("/reviews/bulk", "do", "note", "item", "nonsense"); p.status != http.StatusBadRequest {
		t.Errorf("nonsense: %d", p.status)
	}

	vera := s.as(t, "vera")
	vera.get("/reviews").has(t, "first")
	vera.get("/reviews").lacks(t, `name="item"`, "/reviews/bulk")
	if p := vera.post("/reviews/bulk", "do", "note", "scope", "all"); p.status != http.StatusForbidden {
		t.Errorf("a viewer: %d", p.status)
	}
	s.addOperator(t, "oscar", "other", "operator")
	oscar := s.as(t, "oscar")
	oscar.get("/reviews").has(t, "Nothing waits for a person")
	if p := oscar.post("/reviews/bulk", "do", "note", "item", first.ID.String()+":1"); p.status != http.StatusUnprocessableEntity {
		t.Errorf("another tenant's selection: %d", p.status)
	}
	if p := oscar.get(started.path); p.status != http.StatusNotFound {
		t.Errorf("another tenant's bulk action: %d", p.status)
	}
}

// TestTheQueueIsFiltered: every filter stands in the address, and what cannot be
// read is named beside its field.
func TestTheQueueIsFiltered(t *testing.T) {
	s := newSite(t)
	for _, amount := range []string{"5", "500"} {
		s.doubtful(t, "amount-"+amount, func(sub *commands.Submission) { sub.Metadata = map[string]string{"amount": amount} })
	}
	vera := s.as(t, "vera")
	for query, found := range map[string][2]bool{
		"": {true, true}, "kind=conflict": {}, "upstream=ledger": {true, true}, "operation=other": {}, "reason=no_response": {true, true},
		"evidence=sent_no_response": {true, true}, "evidence=partial_response": {}, "assignee=nobody": {true, true}, "assignee=me": {},
		"older_than=1h": {}, "metadata=amount%3D5": {true, false}, "label=amount&min=100": {false, true}, "label=amount&max=100": {true, false}, "sort=deadline": {true, true},
	} {
		p := vera.get("/reviews?" + query)
		for i, key := range []string{"amount-5<", "amount-500<"} {
			if strings.Contains(p.body, key) != found[i] {
				t.Errorf("%s: %s is shown: %v", query, key, !found[i])
			}
		}
	}
	for query, field := range map[string]string{"older_than=long": "older_than", "metadata=x": "metadata", "min=3": "label", "label=a&min=x": "min", "kind=x": "kind", "evidence=x": "evidence"} {
		p := vera.get("/reviews?" + query)
		p.has(t, `id="wrong-`+field+`"`)
		if p.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", query, p.status)
		}
	}
	if p := vera.get("/reviews?cursor=x"); p.status != http.StatusBadRequest {
		t.Errorf("a wrong cursor: %d", p.status)
	}
}

// TestHostileTextStaysInert: what callers and people write is text on every page,
// and no formula in the export.
func TestHostileTextStaysInert(t *testing.T) {
	s := newSite(t)
	const script = `<script>alert(1)</script>`
	c := s.doubtful(t, `=cmd|'/C calc'!A1"><img/src=x>`, func(sub *commands.Submission) {
		sub.Body = []byte(`{"amount": 1}`)
		sub.Metadata = map[string]string{"=1+1": "@SUM(1)" + script, "bidi": "a\u202eb"}
	})
	otto := s.as(t, "otto")
	path := pageOf(c.ID) + "/resolve"
	form := otto.get(path)
	confirm := otto.post(path, form.hidden("state", "success", "reference", script, "reason", script+"\u202e")...)
	refused := otto.post(path, form.hidden("state", "success", "reference", script, "reason", script)...)
	preview := otto.post("/reviews/bulk", otto.get("/reviews").ticked("do", "note", "scope", "chosen")...)
	for _, p := range []page{otto.get("/reviews"), form, confirm, refused, preview, otto.act(c, "note", "reason", script), otto.get("/reviews?operation=" + "%3Cscript%3Ealert(1)%3C/script%3E")} {
		p.lacks(t, script, "<img", "\u202e")
	}
	confirm.has(t, `id="wrong-reason"`)
	table := otto.get("/reviews.csv?assignee=nobody")
	rows, err := csv.NewReader(strings.NewReader(table.body)).ReadAll()
	if err != nil || len(rows) != 2 || table.header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Fatalf("%d lines, %v, %s", len(rows), err, table.header.Get("Content-Type"))
	}
	for i, cell := range rows[1] {
		if cell != "" && strings.ContainsAny(cell[:1], "=+-@") || strings.Contains(cell, "\u202e") {
			t.Errorf("column %s is %q", rows[0][i], cell)
		}
	}
	if key := rows[1][5]; !strings.HasPrefix(key, "'=cmd") {
		t.Errorf("key %q", key)
	}
}
