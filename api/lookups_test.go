package api

import (
	"net/http"
	"testing"
	"time"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

func TestListLookups(t *testing.T) {
	g := newRig(t)
	path := "/v1/commands/" + someID.String() + "/lookups"
	if r := g.do("GET", path, as("exk_read")).want(200); string(r.body) != `{"data":[],"next_cursor":null}`+"\n" {
		t.Errorf("no lookups: %s", r.body)
	}
	request := commands.AttemptRequest{Method: "GET", URL: "https://x.example/payments?key=k1", Headers: []upstreams.Header{{Name: "Authorization", Value: "[redacted]"}}}
	g.lookups.list = []reconcile.Lookup{
		{
			ID: 1, Round: 1, Question: 2, Instance: "host-1", ProfileVersion: 3, StartedAt: someTime, EndedAt: someTime.Add(time.Second), Request: request,
			Category: outcome.CategoryNone, Status: 200, Finding: outcome.FindingApplied, Rule: "found", Reference: "pay_9", Code: "c", Message: "m",
			ResponseHeaders: http.Header{"X-A": {"1"}}, ResponseBody: []byte(`{"id": 1.0}`), Truncated: true, Notes: []string{"n"},
		},
		{ID: 2, Round: 2, Question: 1, StartedAt: someTime, EndedAt: someTime, Request: request, Category: "connect_refused", Detail: "refused", Finding: outcome.FindingUnknown},
	}
	r := g.do("GET", path).want(200)
	var page LookupList
	r.decode(&page)
	found, failed := page.Data[0], page.Data[1]
	if *found.Status != 200 || found.Category != nil || *found.Rule != "found" || string(found.Response.Body) != `{"id": 1.0}` || !found.Response.Truncated || found.Question != 2 {
		t.Errorf("%s", r.body)
	}
	if failed.Response != nil || failed.Status != nil || *failed.Category != "connect_refused" || failed.Finding != "unknown" || failed.Counts || failed.Reference != nil {
		t.Errorf("%s", r.body)
	}
	g.lookups.err = commands.ErrNotFound
	g.do("GET", path).want(404).problem(ProblemCodeNotFound)
	g.do("GET", "/v1/commands/x/lookups").want(400)
}
