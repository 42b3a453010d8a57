package api

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

func TestStartBulk(t *testing.T) {
	g := newRig(t)
	body := `{"id":"` + someID.String() + `","action":"resolve","filter":{"kind":["unresolved"],"upstream":"ledger","operation":"pay","reason":["no_response"],
		"evidence":["sent_no_response"],"assignee":"","older_than":"24h","metadata":{"order":"42"},"metadata_min":{"amount":10.50},"metadata_max":{"amount":"99"}},
		"reason":"the statement","evidence_reference":"ticket 7","state":"rejected","code":"c","message":"m","assignee":null,"absent":false,"dry_run":false,"expected_count":2}`
	r := g.do("POST", "/v1/reviews/bulk", as("exk_judge"), sending(body)).want(202)
	if r.header.Get("Location") != "/v1/reviews/bulk/"+someID.String() || r.header.Get("Retry-After") == "" {
		t.Errorf("%v", r.header)
	}
	nobody, two := "", 2
	want := reconcile.BulkRequest{
		ID: someID, Tenant: "default", Actor: "ann", Action: "resolve", Reason: "the statement", EvidenceReference: "ticket 7", ExpectedCount: &two,
		Resolution: reconcile.Resolution{State: outcome.StateRejected, Code: "c", Message: "m"},
		Filter: reconcile.ReviewFilter{
			Kinds: []string{"unresolved"}, Upstream: "ledger", Operation: "pay", Reasons: []string{"no_response"}, Evidence: []string{"sent_no_response"},
			Assignee: &nobody, OlderThan: 24 * time.Hour, Metadata: map[string]string{"order": "42"},
			MetadataMin: map[string]string{"amount": "10.50"}, MetadataMax: map[string]string{"amount": "99"},
		},
	}
	if diff := cmp.Diff(want, g.reviews.request); diff != "" {
		t.Error(diff)
	}
	var b Bulk
	r.decode(&b)
	if *b.ID != someID.String() || b.Count != 2 || b.Refused != 1 || b.Problems["stale"] != 1 || *b.Items[1].Problem != "stale" || b.Items[0].Problem != nil {
		t.Errorf("%s", r.body)
	}
}

func TestBulkThatIsOverOrOnlyLookedAt(t *testing.T) {
	g := newRig(t)
	g.reviews.bulk.State = reconcile.BulkStateDone
	start := `{"id":"` + someID.String() + `","action":"note","filter":{"kind":["conflict"]},"reason":"r"}`
	g.do("POST", "/v1/reviews/bulk", sending(start)).want(200)
	g.do("GET", "/v1/reviews/bulk/"+someID.String(), as("exk_judge")).want(200)
	g.reviews.bulk = reconcile.Bulk{Action: "note", Actor: "boss", Reason: "r", State: reconcile.BulkStatePreview, Count: 1, Sample: []reconcile.BulkItem{{Command: someID, Result: reconcile.BulkPending}}}
	var b Bulk
	if g.do("POST", "/v1/reviews/bulk", sending(`{"action":"note","filter":{"kind":["conflict"]},"reason":"r","dry_run":true}`)).want(200).decode(&b); b.ID != nil || b.CreatedAt != nil || len(b.Sample) != 1 {
		t.Errorf("%+v", b)
	}
	g.do("POST", "/v1/reviews/bulk", sending(`{"action":"note","filter":{"kind":["conflict"]},"dry_run":true}`)).want(200)
	if !g.reviews.request.DryRun || g.reviews.request.ID != uuid.Nil {
		t.Errorf("%+v", g.reviews.request)
	}
	g.reviews.err = reconcile.ErrBulkNotFound
	g.do("GET", "/v1/reviews/bulk/"+someID.String()).want(404).problem(ProblemCodeNotFound)
	g.do("GET", "/v1/reviews/bulk/x").want(400).problem(ProblemCodeInvalidParameter)
	g.do("GET", "/v1/reviews/bulk/"+someID.String(), as("exk_read")).want(403)
}

func TestBulkNamesPlaces(t *testing.T) {
	g := newRig(t)
	whole := func(member string) string {
		return `{"id":"` + someID.String() + `","action":"note","filter":{"kind":["conflict"]},"reason":"r",` + member + `}`
	}
	for body, places := range map[string][]string{
		`{}`: {"/action", "/filter"},
		`{"id":"` + someID.String() + `","action":"note","filter":{"kind":["conflict"]}}`: {"/reason"},
		`{"action":"note","filter":{"kind":["conflict"]},"reason":"r"}`:                   {"/id"},
		`{"id":"7","action":"correct","filter":[],"reason":""}`:                           {"/id", "/action", "/filter", "/reason"},
		whole(`"state":"success"`):                    {"/state"},
		whole(`"code":"c","message":"m"`):             {"/code", "/message"},
		whole(`"assignee":"bob","absent":true`):       {"/assignee", "/absent"},
		whole(`"expected_count":-1,"dry_run":1`):      {"/expected_count", "/dry_run"},
		whole(`"expected_count":"2"`):                 {"/expected_count"},
		whole(`"expected_count":2.5,"reference":"x"`): {"/expected_count", "/reference"},
		strings.Replace(whole(`"absent":null`), `{"kind":["conflict"]}`, `{"kind":["a"],"evidence":"b","x":1}`, 1):             {"/filter/kind/0", "/filter/evidence", "/filter/x"},
		strings.Replace(whole(`"absent":null`), `{"kind":["conflict"]}`, `{"older_than":"1","metadata":{"a":1}}`, 1):           {"/filter/older_than", "/filter/metadata/a"},
		strings.Replace(whole(`"absent":null`), `{"kind":["conflict"]}`, `{"assignee":7,"reason":[""]}`, 1):                    {"/filter/assignee", "/filter/reason/0"},
		strings.Replace(whole(`"absent":null`), `["conflict"]`, `[`+strings.Repeat(`"conflict",`, maxList+1)+`"conflict"]`, 1): {"/filter/kind/100"},
	} {
		p := g.do("POST", "/v1/reviews/bulk", sending(body)).want(422).problem(ProblemCodeInvalidRequest)
		if got := pointers(p); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(places))) {
			t.Errorf("%.100s points at %q, want %q", body, got, places)
		}
	}
	if g.reviews.request.Action != "" {
		t.Errorf("it was started: %+v", g.reviews.request)
	}
	g.reviews.err = &commands.Invalid{Detail: "No.", Fields: []upstreams.FieldError{
		{Pointer: "/metadata_max/amount", Code: "not_a_number", Detail: "No."}, {Pointer: "/state", Code: "missing", Detail: "No."},
	}}
	if p := g.do("POST", "/v1/reviews/bulk", sending(whole(`"absent":null`))).want(422).problem(ProblemCodeInvalidRequest); !slices.Equal(pointers(p), []string{"/filter/metadata_max/amount", "/state"}) {
		t.Errorf("%+v", p)
	}
}
