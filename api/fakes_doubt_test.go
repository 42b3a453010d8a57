package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"executor/internal/audit"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// fakeReviews notes what it is asked for and answers what it was told to.
type fakeReviews struct {
	did        string // the last method of an action
	action     reconcile.Action
	resolution reconcile.Resolution
	assignee   string
	absent     bool
	filter     reconcile.ReviewFilter
	request    reconcile.BulkRequest
	tenant     string

	items []reconcile.ReviewItem
	next  string
	bulk  reconcile.Bulk
	err   error
}

func (f *fakeReviews) note(method string, a reconcile.Action) error {
	f.did, f.action, f.tenant = method, a, a.Tenant
	return f.err
}

func (f *fakeReviews) Reviews(_ context.Context, filter reconcile.ReviewFilter) ([]reconcile.ReviewItem, string, error) {
	f.filter, f.tenant = filter, filter.Tenant
	return f.items, f.next, f.err
}

func (f *fakeReviews) Resolve(_ context.Context, a reconcile.Action, to reconcile.Resolution) error {
	f.resolution = to
	return f.note("resolve", a)
}

func (f *fakeReviews) LookUpNow(_ context.Context, a reconcile.Action) error {
	return f.note("lookup", a)
}

func (f *fakeReviews) Resend(_ context.Context, a reconcile.Action, absent bool) error {
	f.absent = absent
	return f.note("resend", a)
}

func (f *fakeReviews) Assign(_ context.Context, a reconcile.Action, assignee string) error {
	f.assignee = assignee
	return f.note("assign", a)
}

func (f *fakeReviews) Note(_ context.Context, a reconcile.Action) error { return f.note("notes", a) }

func (f *fakeReviews) Correct(_ context.Context, a reconcile.Action, to reconcile.Resolution) error {
	f.resolution = to
	return f.note("correct", a)
}

func (f *fakeReviews) StartBulk(_ context.Context, b reconcile.BulkRequest) (reconcile.Bulk, error) {
	f.request, f.tenant = b, b.Tenant
	return f.bulk, f.err
}

func (f *fakeReviews) Bulk(_ context.Context, tenant string, _ uuid.UUID) (reconcile.Bulk, error) {
	f.tenant = tenant
	return f.bulk, f.err
}

type fakeLookups struct {
	tenant string
	list   []reconcile.Lookup
	err    error
}

func (f *fakeLookups) Lookups(_ context.Context, tenant string, _ uuid.UUID) ([]reconcile.Lookup, error) {
	f.tenant = tenant
	return f.list, f.err
}

type fakeNotices struct {
	tenant, upstream string
	header           http.Header
	body             []byte
	received         reconcile.Received
	list             []reconcile.Notice
	err              error
}

func (f *fakeNotices) Notices(_ context.Context, tenant string, _ uuid.UUID) ([]reconcile.Notice, error) {
	f.tenant = tenant
	return f.list, f.err
}

func (f *fakeNotices) Receive(_ context.Context, tenant, upstream string, header http.Header, body []byte) (reconcile.Received, error) {
	f.tenant, f.upstream, f.header, f.body = tenant, upstream, header, body
	return f.received, f.err
}

// fakeReports reads what it is given to its end.
type fakeReports struct {
	tenant  string
	request reconcile.ReportRequest
	filter  reconcile.ReportFilter
	items   reconcile.ReportItemFilter
	actor   string
	reason  string
	file    []byte

	report reconcile.Report
	list   []reconcile.ReportItem
	err    error
	refuse error // of an upload of which nothing was read
}

func (f *fakeReports) Upload(_ context.Context, request reconcile.ReportRequest, file io.Reader) (reconcile.Report, error) {
	f.request, f.tenant = request, request.Tenant
	if f.refuse != nil {
		return reconcile.Report{}, f.refuse
	}
	var err error
	if f.file, err = io.ReadAll(file); err != nil {
		return reconcile.Report{}, err
	}
	return f.report, f.err
}

func (f *fakeReports) Reports(_ context.Context, filter reconcile.ReportFilter) ([]reconcile.Report, string, error) {
	f.filter, f.tenant = filter, filter.Tenant
	return []reconcile.Report{f.report}, "", f.err
}

func (f *fakeReports) Report(_ context.Context, tenant string, _ uuid.UUID) (reconcile.Report, error) {
	f.tenant = tenant
	return f.report, f.err
}

func (f *fakeReports) ReportItems(_ context.Context, filter reconcile.ReportItemFilter) ([]reconcile.ReportItem, string, error) {
	f.items, f.tenant = filter, filter.Tenant
	return f.list, "7", f.err
}

func (f *fakeReports) Apply(_ context.Context, tenant string, _ uuid.UUID, actor, reason string) (reconcile.Report, error) {
	f.tenant, f.actor, f.reason = tenant, actor, reason
	return f.report, f.err
}

// fakeWebhooks holds one receiver and one delivery.
type fakeWebhooks struct {
	tenant   string
	by       webhooks.By
	settings webhooks.Settings
	changes  webhooks.Changes
	version  int
	overlap  time.Duration
	part     webhooks.Range
	filter   webhooks.DeliveryFilter

	endpoint webhooks.Endpoint
	account  webhooks.Account
	err      error
}

func (f *fakeWebhooks) note(by webhooks.By) error {
	f.by, f.tenant = by, by.Tenant
	return f.err
}

func (f *fakeWebhooks) Create(_ context.Context, by webhooks.By, set webhooks.Settings) (webhooks.Endpoint, string, error) {
	f.settings = set
	return f.endpoint, "whsec_new", f.note(by)
}

func (f *fakeWebhooks) Get(_ context.Context, tenant string, _ uuid.UUID) (webhooks.Endpoint, error) {
	f.tenant = tenant
	return f.endpoint, f.err
}

func (f *fakeWebhooks) List(_ context.Context, tenant string) ([]webhooks.Endpoint, error) {
	f.tenant = tenant
	return []webhooks.Endpoint{f.endpoint}, f.err
}

func (f *fakeWebhooks) Update(_ context.Context, by webhooks.By, _ uuid.UUID, version int, c webhooks.Changes) (webhooks.Endpoint, error) {
	f.version, f.changes = version, c
	return f.endpoint, f.note(by)
}

func (f *fakeWebhooks) Delete(_ context.Context, by webhooks.By, _ uuid.UUID, version int) error {
	f.version = version
	return f.note(by)
}

func (f *fakeWebhooks) RotateSecret(_ context.Context, by webhooks.By, _ uuid.UUID, _ int, overlap time.Duration) (webhooks.Endpoint, string, error) {
	f.overlap = overlap
	return f.endpoint, "whsec_newer", f.note(by)
}

func (f *fakeWebhooks) Test(_ context.Context, by webhooks.By, _ uuid.UUID) (webhooks.Delivery, error) {
	return f.account.Delivery, f.note(by)
}

func (f *fakeWebhooks) Challenge(_ context.Context, by webhooks.By, _ uuid.UUID) (webhooks.Delivery, error) {
	return f.account.Delivery, f.note(by)
}

func (f *fakeWebhooks) Deliveries(_ context.Context, filter webhooks.DeliveryFilter) ([]webhooks.Delivery, string, error) {
	f.filter, f.tenant = filter, filter.Tenant
	return []webhooks.Delivery{f.account.Delivery}, "next", f.err
}

func (f *fakeWebhooks) Delivery(_ context.Context, tenant string, _ uuid.UUID) (webhooks.Account, error) {
	f.tenant = tenant
	return f.account, f.err
}

func (f *fakeWebhooks) Redeliver(_ context.Context, by webhooks.By, _ uuid.UUID) (webhooks.Delivery, error) {
	return f.account.Delivery, f.note(by)
}

func (f *fakeWebhooks) RedeliverRange(_ context.Context, by webhooks.By, part webhooks.Range) (webhooks.Redelivered, error) {
	f.part = part
	return webhooks.Redelivered{Count: 3, More: true}, f.note(by)
}

type fakeAudit struct {
	filter audit.Filter
	tenant string
	pins   []audit.Pin
	list   []audit.Recorded
	report audit.Report
	err    error
}

func (f *fakeAudit) List(_ context.Context, filter audit.Filter) ([]audit.Recorded, string, error) {
	f.filter, f.tenant = filter, filter.Tenant
	return f.list, "", f.err
}

func (f *fakeAudit) Verify(_ context.Context, tenant string, pins ...audit.Pin) (audit.Report, error) {
	f.tenant, f.pins = tenant, pins
	return f.report, f.err
}

// someEndpoint is a receiver that was disabled for its failures.
func someEndpoint() webhooks.Endpoint {
	end := someTime.Add(time.Hour)
	return webhooks.Endpoint{
		ID: someID, Tenant: "default", Version: 4, CreatedAt: someTime, UpdatedAt: someTime,
		Settings:   webhooks.Settings{URL: "https://shop.example/hook", Events: []string{"command.success"}, Upstreams: []string{}, Ordered: true},
		DisabledAt: &someTime, DisabledBy: webhooks.DisabledByFailing, DisabledReason: "it failed for 5 days", FailingSince: &someTime,
		Secrets: []webhooks.Secret{{ID: someID, CreatedAt: someTime}, {ID: someID, CreatedAt: someTime, ExpiresAt: &end}},
	}
}

// someAccount is a delivery that waits for its second try.
func someAccount() webhooks.Account {
	next := someTime.Add(time.Minute)
	return webhooks.Account{
		Delivery: webhooks.Delivery{
			ID: someID, EventID: someID, EndpointID: someID, Tenant: "default", CommandID: &someID, Sequence: 2, Type: "command.success", At: someTime,
			State: webhooks.DeliveryPending, NextAt: next, Tries: 1, Status: 503, Failure: "refused", Detail: "503 Service Unavailable",
		},
		Payload: []byte(`{"type":"command.success",  "data":{}}`),
		Log:     []webhooks.Try{{Number: 1, Instance: "host-1", At: someTime, Duration: 1500 * time.Millisecond, Status: 503, Failure: "refused", Excerpt: "<busy>", NextAt: &next}},
	}
}

// someReport is a report that was compared.
func someReport() reconcile.Report {
	return reconcile.Report{
		ID: someID, Tenant: "default", Upstream: "ledger", Operation: "pay", Format: reconcile.ReportCSV, Columns: map[string]string{"reference": "ref"},
		States: map[string]outcome.Finding{"paid": outcome.FindingApplied}, Compare: []reconcile.Comparison{{Column: "sum", Field: "/body/amount"}},
		From: &someTime, SettlesFor: 48 * time.Hour, CreatedAt: someTime, CreatedBy: "boss", State: reconcile.ReportCompared, Bytes: 99, SHA256: []byte{1},
		Lines: 3, Compared: 3, Scanned: 4, ComparedAt: &someTime, Counts: reconcile.ReportCounts{Matched: 1, Different: 2, MissingThere: 1},
		Effects: reconcile.ReportEffects{Settled: 1},
	}
}

// someBulk is under way: one of its commands has moved on.
func someBulk() reconcile.Bulk {
	return reconcile.Bulk{
		ID: someID, Action: reconcile.ActionResolve, Actor: "ann", Reason: "statement of March", CreatedAt: someTime, State: reconcile.BulkStateRunning,
		Count: 2, Refused: 1, Problems: map[string]int{"stale": 1}, Items: []reconcile.BulkItem{
			{Command: someID, Result: reconcile.BulkPending},
			{Command: someID, Result: reconcile.BulkRefused, Problem: "stale", Detail: "It has changed since."},
		},
	}
}

// doubtfulCommand waits for a person.
func doubtfulCommand() reconcile.ReviewItem {
	c := doneCommand(`{}`)
	c.State, c.Outcome.State, c.Outcome.Result = outcome.StateUnresolved, outcome.StateUnresolved, nil
	return reconcile.ReviewItem{
		Kind: reconcile.ReviewUnresolved, Command: c, Since: someTime, Assignee: "ann", HandedReason: "lookups_used_up",
		Evidence: outcome.EvidenceSentNoResponse, Actions: []string{reconcile.ActionResolve, reconcile.ActionNote},
	}
}

var unverifiedNotice = &upstreams.UnverifiedNotice{Reason: "the signature does not match"}
