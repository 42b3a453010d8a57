package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// specification is openapi.yaml as a judge of answers.
type specification struct {
	doc    *openapi3.T
	router routers.Router
}

var loadOnce = sync.OnceValues(func() (*specification, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, err
	}
	for _, mediaType := range []string{eventStream, yamlType, "text/plain"} {
		openapi3filter.RegisterBodyDecoder(mediaType, openapi3filter.PlainBodyDecoder)
	}
	router, err := legacy.NewRouter(doc)
	return &specification{doc, router}, err
})

func loadSpecification(t *testing.T) *specification {
	t.Helper()
	spec, err := loadOnce()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// check fails the test where an answer is not what openapi.yaml says: status,
// headers, media type, schema, and no member that it does not know.
func (s *specification) check(t *testing.T, req *http.Request, r *reply) {
	t.Helper()
	if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: headers are missing: %v", r.what, r.header)
	}
	relative := req.Clone(t.Context())
	relative.URL.Scheme, relative.URL.Host = "", ""
	route, params, err := s.router.FindRoute(relative)
	if err != nil || strings.HasSuffix(req.URL.Path, "/") { // which that router takes for the path without
		s.checkOutside(t, req, r)
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 r.status, Header: r.header, Body: io.NopCloser(bytes.NewReader(r.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s: the answer is not what openapi.yaml says: %v", r.what, err)
		return
	}
	if r.status < 400 {
		coverOperation(strings.ToUpper(route.Operation.OperationID[:1]) + route.Operation.OperationID[1:])
		s.checkRequest(t, input.RequestValidationInput, r)
	}
	if content := route.Operation.Responses.Status(r.status).Value.Content.Get(r.header.Get("Content-Type")); content != nil && len(r.body) > 0 {
		checkDeclared(t, r, content.Schema.Value)
	}
}

// checkRequest fails where a request was taken that the document does not allow.
func (s *specification) checkRequest(t *testing.T, input *openapi3filter.RequestValidationInput, r *reply) {
	t.Helper()
	if bytes.Contains(r.body, []byte(`"problem":`)) {
		return // a batch with an item that was not taken
	}
	input.Request = input.Request.Clone(t.Context())
	if input.Request.GetBody != nil {
		input.Request.Body, _ = input.Request.GetBody()
	}
	input.Options = &openapi3filter.Options{MultiError: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	if err := openapi3filter.ValidateRequest(t.Context(), input); err != nil {
		t.Errorf("%s: a request was taken that openapi.yaml does not allow: %v", r.what, err)
	}
}

// checkOutside judges answers on paths and methods that the document has not.
func (s *specification) checkOutside(t *testing.T, req *http.Request, r *reply) {
	t.Helper()
	if req.Method == http.MethodHead {
		return
	}
	if r.status != http.StatusNotFound && r.status != http.StatusMethodNotAllowed || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: outside of openapi.yaml the answer is %d %.200s", r.what, r.status, r.body)
	}
	checkDeclared(t, r, s.doc.Components.Schemas["Problem"].Value)
}

// checkDeclared fails where an answer has a member that its schema does not
// declare.
func checkDeclared(t *testing.T, r *reply, schema *openapi3.Schema) {
	t.Helper()
	var value any
	if json.Unmarshal(r.body, &value) != nil {
		return // text
	}
	for _, path := range undeclared(schema, value, "") {
		t.Errorf("%s: openapi.yaml does not declare %s", r.what, path)
	}
}

// undeclared lists the members of a value that no part of the schema declares.
func undeclared(schema *openapi3.Schema, value any, path string) []string {
	parts := partsOf(schema)
	var list []string
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			sub, open := memberOf(parts, name)
			switch {
			case sub != nil:
				list = append(list, undeclared(sub, v[name], path+"/"+name)...)
			case !open:
				list = append(list, path+"/"+name)
			}
		}
	case []any:
		for _, part := range parts {
			if part.Items != nil {
				for i, item := range v {
					list = append(list, undeclared(part.Items.Value, item, fmt.Sprintf("%s/%d", path, i))...)
				}
			}
		}
	}
	return list
}

// partsOf is a schema with all that it is put together from.
func partsOf(schema *openapi3.Schema) []*openapi3.Schema {
	parts := []*openapi3.Schema{schema}
	for _, refs := range []openapi3.SchemaRefs{schema.AllOf, schema.AnyOf, schema.OneOf} {
		for _, ref := range refs {
			parts = append(parts, partsOf(ref.Value)...)
		}
	}
	return parts
}

// memberOf finds the schema of a member; open means that any member may be
// there.
func memberOf(parts []*openapi3.Schema, name string) (member *openapi3.Schema, open bool) {
	properties := 0
	for _, part := range parts {
		properties += len(part.Properties)
		if ref := part.Properties[name]; ref != nil {
			return ref.Value, false
		}
		if part.AdditionalProperties.Schema != nil {
			return part.AdditionalProperties.Schema.Value, false
		}
	}
	return nil, properties == 0
}

func TestDocumentIsValid(t *testing.T) {
	spec := loadSpecification(t)
	if err := spec.doc.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRouterAgreesWithDocument holds routes and document against each other, both
// ways, with what each route asks for.
func TestRouterAgreesWithDocument(t *testing.T) {
	g := newRig(t)
	documented := map[string]*openapi3.Operation{}
	for path, item := range g.spec.doc.Paths.Map() {
		for method, op := range item.Operations() {
			documented[method+" "+path] = op
		}
	}
	routed := map[string]bool{}
	err := chi.Walk(g.server.Routes().(chi.Routes), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if method != http.MethodHead {
			routed[method+" "+route] = true
		} else if documented["GET "+route] == nil {
			t.Errorf("HEAD %s is routed without a GET", route)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(routed))); diff != "" {
		t.Errorf("document and router differ: (-document +router)\n%s", diff)
	}
	for _, op := range operations() {
		checkOperation(t, op, documented[op.method+" "+op.pattern])
	}
}

func checkOperation(t *testing.T, op operation, want *openapi3.Operation) {
	t.Helper()
	if want == nil {
		t.Errorf("%s is not in the document", op.id)
		return
	}
	if public := want.Security != nil && len(*want.Security) == 0; public != op.public {
		t.Errorf("%s: public is %v, the document says %v", op.id, op.public, public)
	}
	if !op.public {
		if scopes := (*want.Security)[0]["apiKey"]; len(scopes) != 1 || scopes[0] != string(op.scope) {
			t.Errorf("%s: asks for %s, the document for %v", op.id, op.scope, scopes)
		}
		for _, status := range []int{400, 401, 403, 429, 500, 503} {
			if want.Responses.Status(status) == nil {
				t.Errorf("%s: the document has no answer %d", op.id, status)
			}
		}
	}
	var query []string
	for _, p := range want.Parameters {
		if p.Value.In == "query" {
			query = append(query, p.Value.Name)
		}
	}
	if !slices.Equal(query, op.query) {
		t.Errorf("%s: takes %v, the document has %v", op.id, op.query, query)
	}
}

// TestRefusalsAreExplained: what a store refuses with is a code of ours.
func TestRefusalsAreExplained(t *testing.T) {
	for _, code := range append(reconcile.RefusalCodes(), reconcile.RefusedReportOnly, reconcile.RefusedNotCompared) {
		if f := refused(code, ""); string(f.code) != code {
			t.Errorf("the refusal %s becomes the problem %s", code, f.code)
		}
	}
}

// TestDocumentAgreesWithWords holds the document's closed lists against the Go
// lists.
func TestDocumentAgreesWithWords(t *testing.T) {
	var finals []outcome.State
	for _, s := range outcome.States() {
		if s.Final() {
			finals = append(finals, s)
		}
	}
	var codes []ProblemCode
	for _, m := range meanings() {
		codes = append(codes, m.code)
	}
	schemas := loadSpecification(t).doc.Components.Schemas
	property := func(schema, name string) *openapi3.Schema { return schemas[schema].Value.Properties[name].Value }
	tests := []struct {
		name   string
		schema *openapi3.Schema
		words  any
	}{
		{"State", schemas["State"].Value, outcome.States()},
		{"Evidence", schemas["Evidence"].Value, outcome.Evidences()},
		{"Boundary", schemas["Boundary"].Value, outcome.Boundaries()},
		{"Priority", schemas["Priority"].Value, commands.Priorities()},
		{"Scope", schemas["Scope"].Value, apikeys.Scopes()},
		{"ProblemCode", schemas["ProblemCode"].Value, codes},
		{"Outcome.state", property("Outcome", "state"), finals},
		{"Outcome.decided_by", property("Outcome", "decided_by"), outcome.Deciders()},
		{"Outcome.next_action", property("Outcome", "next_action"), outcome.NextActions()},
		{"CancelResult", schemas["CancelResult"].Value, []commands.CancelResult{
			commands.CancelCancelled, commands.CancelRequested, commands.CancelTooLate, commands.CancelInDoubt}},
		{"Waiting.for", property("Waiting", "for"), []commands.WaitFor{
			commands.WaitBackoff, commands.WaitPermit, commands.WaitRate, commands.WaitRetryToken, commands.WaitThrottle,
			commands.WaitPaused, commands.WaitFrozen, commands.WaitCredential, commands.WaitFile, commands.WaitNotBefore}},
		{"Finding", schemas["Finding"].Value, outcome.Findings()},
		{"ReviewKind", schemas["ReviewKind"].Value, reconcile.ReviewKinds()},
		{"ReviewAction", schemas["ReviewAction"].Value, []string{
			reconcile.ActionResolve, reconcile.ActionLookup, reconcile.ActionResend, reconcile.ActionResendAbsent, reconcile.ActionAssign,
			reconcile.ActionNote, reconcile.ActionCorrect, reconcile.ActionDismiss}},
		{"Conflict.source", property("Conflict", "source"), outcome.Deciders()},
		{"ResolveRequest.state", property("ResolveRequest", "state"), settledStates()},
		{"BulkRequest.action", property("BulkRequest", "action"), reconcile.BulkActions()},
		{"Bulk.state", property("Bulk", "state"), []string{reconcile.BulkStateRunning, reconcile.BulkStateDone, reconcile.BulkStatePreview}},
		{"BulkItemResult.result", property("BulkItemResult", "result"), reconcile.BulkResults()},
		{"Report.format", property("Report", "format"), reconcile.ReportFormats()},
		{"ReportState", schemas["ReportState"].Value, reconcile.ReportStates()},
		{"ReportKind", schemas["ReportKind"].Value, reconcile.ReportKinds()},
		{"Notice.named_by", property("Notice", "named_by"), []reconcile.NamedBy{reconcile.NamedByKey, reconcile.NamedByID, reconcile.NamedByReference}},
		{"Notice.weight", property("Notice", "weight"), []string{upstreams.WeightConclusive, upstreams.WeightHint}},
		{"Notice.state", property("Notice", "state"), []reconcile.NoticeState{
			reconcile.NoticeUnmatched, reconcile.NoticeKept, reconcile.NoticeDone, reconcile.NoticeIgnored, reconcile.NoticeExpired}},
		{"WebhookEvent", schemas["WebhookEvent"].Value, webhooks.EventTypes()},
		{"Disabled.by", property("Disabled", "by"), []webhooks.DisabledBy{webhooks.DisabledByPerson, webhooks.DisabledByGone, webhooks.DisabledByFailing, webhooks.DisabledByUnproven}},
		{"Verified.by", property("Verified", "by"), []webhooks.VerifiedBy{webhooks.VerifiedByChallenge, webhooks.VerifiedByPerson, webhooks.VerifiedBySetting, webhooks.VerifiedByBefore}},
		{"DeliveryState", schemas["DeliveryState"].Value, webhooks.DeliveryStates()},
		{"AuditProblem.kind", property("AuditProblem", "kind"), []audit.ProblemKind{
			audit.ProblemEdited, audit.ProblemMissing, audit.ProblemEndMissing, audit.ProblemReplaced, audit.ProblemHeadLost, audit.ProblemFormat}},
		{"Answer", schemas["Answer"].Value, slices.DeleteFunc(outcome.Answers(), func(a outcome.Answer) bool { return a == "" })},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(sortedWords(tt.words), sortedWords(tt.schema.Enum)); diff != "" {
			t.Errorf("%s: (-Go +document)\n%s", tt.name, diff)
		}
	}
}

// sortedWords turns any list into sorted strings.
func sortedWords(list any) []string {
	var words []string
	for v, i := reflect.ValueOf(list), 0; i < v.Len(); i++ {
		words = append(words, fmt.Sprint(v.Index(i).Interface()))
	}
	slices.Sort(words)
	return words
}

func TestServesItsDocument(t *testing.T) {
	g := newRig(t)
	if got := g.do("GET", "/openapi.yaml", without("Authorization")).want(200).body; !bytes.Equal(got, document) {
		t.Error("/openapi.yaml is not the document")
	}
	doc, err := openapi3.NewLoader().LoadFromData(g.do("GET", "/openapi.json", without("Authorization")).want(200).body)
	if err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Paths.Len() != g.spec.doc.Paths.Len() {
		t.Errorf("/openapi.json has version %s and %d paths", doc.OpenAPI, doc.Paths.Len())
	}
}
