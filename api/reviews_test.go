package api

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

func TestListReviews(t *testing.T) {
	g := newRig(t)
	conflict := doubtfulCommand()
	conflict.Kind, conflict.Assignee, conflict.HandedReason, conflict.Evidence = reconcile.ReviewConflict, "", "", ""
	conflict.Conflicts = []reconcile.Conflict{
		{ID: 3, At: someTime, Source: outcome.DecidedByNotice, Finding: outcome.FindingRefused, Reference: "pay_9", Code: "c", Message: "<m>"},
		{ID: 4, At: someTime, Source: outcome.DecidedByLateEvidence, Answer: outcome.AnswerApplied, Status: 201, Attempt: 2},
	}
	g.reviews.items, g.reviews.next = []reconcile.ReviewItem{doubtfulCommand(), conflict}, "next"
	var page ReviewList
	r := g.do("GET", "/v1/reviews", as("exk_read")).want(200)
	if r.decode(&page); len(page.Data) != 2 || *page.NextCursor != "next" {
		t.Fatalf("%s", r.body)
	}
	doubt, against := page.Data[0], page.Data[1]
	if *doubt.Assignee != "ann" || *doubt.HandedReason != "lookups_used_up" || *doubt.Evidence != "sent_no_response" || doubt.Command.State != "unresolved" || len(doubt.Actions) != 2 {
		t.Errorf("%s", r.body)
	}
	first, second := against.Conflicts[0], against.Conflicts[1]
	if against.Evidence != nil || *first.Finding != "refused" || first.Answer != nil || first.Attempt != nil || *second.Answer != "applied" || second.Finding != nil || *second.Attempt != 2 {
		t.Errorf("%s", r.body)
	}
	if diff := cmp.Diff(reconcile.ReviewFilter{Tenant: "default"}, g.reviews.filter); diff != "" {
		t.Error(diff)
	}
}

func TestReviewFilters(t *testing.T) {
	g := newRig(t)
	g.do("GET", "/v1/reviews"+query("kind", "unresolved", "kind", "conflict", "upstream", "ledger", "operation", "pay", "reason", "no_response,remote_pending",
		"evidence", "sent_no_response", "assignee", "ann", "older_than", "24h", "metadata.order", "42", "metadata_min.amount", "10", "metadata_max.amount", "99.5",
		"cursor", "abc", "limit", "7")).want(200)
	ann := "ann"
	want := reconcile.ReviewFilter{
		Tenant: "default", Kinds: []string{"unresolved", "conflict"}, Upstream: "ledger", Operation: "pay", Reasons: []string{"no_response", "remote_pending"},
		Evidence: []string{"sent_no_response"}, Assignee: &ann, OlderThan: 24 * time.Hour, Metadata: map[string]string{"order": "42"},
		MetadataMin: map[string]string{"amount": "10"}, MetadataMax: map[string]string{"amount": "99.5"}, Cursor: "abc", Limit: 7,
	}
	if diff := cmp.Diff(want, g.reviews.filter); diff != "" {
		t.Error(diff)
	}
	if g.do("GET", "/v1/reviews?assignee=").want(200); g.reviews.filter.Assignee == nil || *g.reviews.filter.Assignee != "" {
		t.Errorf("nobody's: %+v", g.reviews.filter)
	}
	for _, tt := range []struct{ query, parameter string }{
		{"kind=pending", "kind"}, {"kind=", "kind"}, {"evidence=none", "evidence"}, {"older_than=1", "older_than"}, {"older_than=-1h", "older_than"},
		{"reason=", "reason"}, {"upstream=", "upstream"}, {"metadata_min=1", "metadata_min"}, {"metadata_mean.a=1", "metadata_mean.a"}, {"columns.a=1", "columns.a"},
		{"assignee=a&assignee=b", "assignee"}, {"state=unresolved", "state"}, {"limit=0", "limit"}, {"kind.x=1", "kind.x"},
	} {
		if p := g.do("GET", "/v1/reviews?"+tt.query).want(400).problem(ProblemCodeInvalidParameter); p.Errors[0].Parameter != tt.parameter {
			t.Errorf("%s: %+v", tt.query, p.Errors)
		}
	}
	g.reviews.err = &commands.Invalid{Detail: "No.", Fields: []upstreams.FieldError{{Pointer: "/metadata_min/amount", Code: "not_a_number", Detail: "No."}}}
	if p := g.do("GET", "/v1/reviews?metadata_min.amount=x").want(400).problem(ProblemCodeInvalidParameter); p.Errors[0].Parameter != "metadata_min.amount" {
		t.Errorf("%+v", p)
	}
	g.reviews.err = commands.ErrBadCursor
	g.do("GET", "/v1/reviews?cursor=x").want(400).problem(ProblemCodeInvalidParameter)
}
