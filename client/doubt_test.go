package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// exchange is one call, what it puts on the wire, and what it makes of the answer.
type exchange struct {
	name string
	call func(context.Context, *Client) (any, error)
	// wire is method, path, sorted query and body.
	wire   string
	status int // 200 if 0
	answer string
	check  func(any) bool
}

func (e exchange) test(t *testing.T) {
	t.Helper()
	s, c := serve(t, replyWith(max(e.status, 200), "application/json", e.answer))
	got, err := e.call(background(t), c)
	if err != nil || (e.check != nil && !e.check(got)) {
		t.Errorf("%s: %+v, %v", e.name, got, err)
	}
	r := s.all()[0]
	if wire := strings.TrimSpace(r.method + " " + strings.TrimSuffix(r.path+"?"+r.query.Encode(), "?") + " " + r.body); wire != e.wire {
		t.Errorf("%s sent\n%s\nwant\n%s", e.name, wire, e.wire)
	}
}

const report = `{"id":"r1","upstream":"ledger","operation":null,"format":"csv","columns":{"reference":"Ref No"},"states":{"paid":"applied"},"compare":[{"column":"amount","field":"/body/amount"}],
	"from":"2026-10-01T00:00:00Z","until":null,"settles_for":"48h0m0s","created_at":"2026-11-01T00:00:00Z","created_by":"ann","state":"compared","problem":null,"bytes":9,"sha256":"s",
	"lines":3,"compared":3,"scanned":4,"compared_at":"2026-11-01T00:00:01Z","counts":{"matched":2,"missing_here":1,"young_there":0},"effects":{"settled":1,"kept":0,"conflicts":0,"none":1},
	"apply_asked_at":null,"apply_asked_by":null,"apply_reason":null,"applied_at":null}`

func isReport(v any) bool {
	r := v.(Report)
	return r.ID == "r1" && r.Format == ReportCSV && r.State == ReportCompared && r.Resting() && r.Lines == 3 && r.Counts["matched"] == 2 && r.Effects["settled"] == 1 &&
		r.From != nil && r.Until == nil && r.States["paid"] == FindingApplied && r.Compare[0] == Comparison{"amount", "/body/amount"} && string(r.JSON()) == report
}

func TestReports(t *testing.T) {
	upload := ReportUpload{
		Upstream: "ledger", Operation: "create_payment", Format: ReportCSV, Columns: map[string]string{"reference": "Ref No", "state": "status"},
		States: map[string]string{"paid": "success"}, Compare: map[string]string{"amount": "/body/amount"},
		From: time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC), SettlesFor: 48 * time.Hour,
	}
	for _, e := range []exchange{
		{"upload", func(ctx context.Context, c *Client) (any, error) {
			return c.UploadReport(ctx, upload, strings.NewReader("a,b\n1,2\n"))
		}, "POST /v1/reconciliations?columns.reference=Ref+No&columns.state=status&compare.amount=%2Fbody%2Famount&from=2026-10-01T00%3A00%3A00Z&operation=create_payment&settles_for=48h0m0s&states.paid=success&upstream=ledger a,b\n1,2", 202, report, isReport},
		{"one", func(ctx context.Context, c *Client) (any, error) { return c.Report(ctx, "r1") }, "GET /v1/reconciliations/r1", 0, report, isReport},
		{"wait", func(ctx context.Context, c *Client) (any, error) { return c.WaitReport(ctx, "r1", nil) }, "GET /v1/reconciliations/r1", 0, report, isReport},
		{"apply", func(ctx context.Context, c *Client) (any, error) { return c.ApplyReport(ctx, "r1", "month end") }, `POST /v1/reconciliations/r1/apply {"reason":"month end"}`, 202, report, isReport},
		{"list", func(ctx context.Context, c *Client) (any, error) {
			return c.ReportsPage(ctx, ReportFilter{Upstream: "ledger", Cursor: "c", Limit: 2})
		}, "GET /v1/reconciliations?cursor=c&limit=2&upstream=ledger", 0, `{"data":[` + report + `],"next_cursor":"n"}`, func(v any) bool {
			return v.(ReportPage).Data[0].ID == "r1" && v.(ReportPage).NextCursor == "n"
		}},
		{"another delimiter", func(ctx context.Context, c *Client) (any, error) {
			return c.UploadReport(ctx, ReportUpload{Upstream: "u", Format: ReportCSV, Delimiter: ";"}, strings.NewReader("a"))
		}, "POST /v1/reconciliations?delimiter=%3B&upstream=u a", 202, report, isReport},
		{"items", func(ctx context.Context, c *Client) (any, error) {
			return c.ReportItemsPage(ctx, "r1", ReportItemFilter{Kinds: []string{"different", "missing_here"}, Limit: 9})
		}, "GET /v1/reconciliations/r1/items?kind=different&kind=missing_here&limit=9", 0,
			`{"data":[{"number":1,"kind":"different","line":7,"reference":"p","key":null,"command_id":"c1","word":"paid","finding":"applied","state":"success",
				"differences":[{"field":"/body/amount","ours":"10","theirs":"11"}],"duplicate_of":null,"problem":null,"content":{"a": "b"},"effect":null,"applied_at":null}],"next_cursor":null}`, func(v any) bool {
				i := v.(ReportItemPage).Data[0]
				return i.Kind == "different" && i.Line == 7 && i.Finding == FindingApplied && i.State == StateSuccess &&
					i.Differences[0] == Difference{"/body/amount", "10", "11"} && string(i.Content) == `{"a": "b"}`
			}},
	} {
		e.test(t)
	}
}

// A report is sent as it is read, with its media type, and what is refused is not
// sent at all.
func TestUploadReport(t *testing.T) {
	s, c := serve(t, replyWith(202, "application/json", report))
	if _, err := c.UploadReport(background(t), ReportUpload{Upstream: "u", Format: ReportJSONL}, strings.NewReader("{}\n")); err != nil {
		t.Fatal(err)
	}
	if h := s.all()[0].header; h.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("headers %v", h)
	}
	if _, err := c.UploadReport(background(t), ReportUpload{Upstream: "u"}, strings.NewReader("")); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a format: %v", err)
	}

	refusing := http.HandlerFunc(problem(404, "not_found"))
	_, c = serveUnread(t, refusing)
	source := &counted{}
	if _, err := c.UploadReport(background(t), ReportUpload{Upstream: "u", Format: ReportCSV}, source); !errors.Is(err, ErrNotFound) || source.n != 0 {
		t.Errorf("refused: %v after %d bytes", err, source.n)
	}

	broken := errors.New("the disk is broken")
	_, c = serve(t, replyWith(202, "application/json", report))
	_, err := c.UploadReport(background(t), ReportUpload{Upstream: "u", Format: ReportCSV}, failing{broken})
	if !errors.As(err, new(*Unanswered)) || !errors.Is(err, broken) {
		t.Errorf("a source that breaks: %v", err)
	}
}

// An upload may take longer than one answer may, but not stand still.
func TestUploadThatStandsStill(t *testing.T) {
	stop := make(chan struct{})
	_, c := serveUnread(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(stop) })
	c.timeout = 50 * time.Millisecond
	_, err := c.UploadReport(background(t), ReportUpload{Upstream: "u", Format: ReportCSV}, &counted{most: 1 << 30})
	if err == nil || !strings.Contains(err.Error(), "took nothing for 50ms") {
		t.Errorf("got %v", err)
	}
}

const deliveryJSON = `{"id":"d1","webhook_id":"w1","event_id":"e1","type":"command.success","command_id":"c1","sequence":2,"at":"2026-11-01T00:00:00Z","state":"failed",
	"held_until":null,"next_at":null,"ended_at":"2026-11-01T00:00:00Z","tries":1,"status":500,"failure":"status","detail":"D","payload":{"a": 1},
	"log":[{"number":1,"at":"2026-11-01T00:00:00Z","duration_ms":7,"instance":"i","status":null,"failure":"header_timeout","detail":"d","excerpt":null,"next_at":null}]}`

func isDelivery(v any) bool {
	d := v.(Delivery)
	return d.ID == "d1" && d.State == DeliveryFailed && d.Status == 500 && d.Failure == "status" && d.EndedAt != nil && string(d.Payload) == `{"a": 1}` &&
		d.Log[0].DurationMS == 7 && d.Log[0].Failure == "header_timeout"
}

const webhookJSON = `{"id":"w1","url":"https://x.example/h","description":"d","events":["command.success"],"upstreams":[],"ordered":true,"version":4,
	"failing_since":"2026-11-01T00:00:00Z","verified":{"at":"2026-11-01T00:00:00Z","by":"person"},"disabled":{"at":"2026-11-01T00:00:00Z","by":"gone","reason":"410"},"secrets":[{"id":"s1","created_at":"2026-11-01T00:00:00Z","expires_at":null}],
	"created_at":"2026-11-01T00:00:00Z","updated_at":"2026-11-01T00:00:00Z","secret":"whsec_x"}`

func isWebhook(v any) bool {
	w := v.(Webhook)
	return w.ID == "w1" && w.Ordered && w.Version == 4 && w.FailingSince != nil && w.Verified.By == "person" && w.Disabled.By == "gone" && w.Disabled.Reason == "410" && w.Secrets[0].ID == "s1" && w.Secret == "whsec_x" && string(w.JSON()) == webhookJSON
}

func TestWebhooksAndDeliveries(t *testing.T) {
	off, at := false, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range []exchange{
		{"list", func(ctx context.Context, c *Client) (any, error) { return c.Webhooks(ctx) }, "GET /v1/webhooks", 0, `{"data":[` + webhookJSON + `]}`,
			func(v any) bool { return v.(WebhookPage).Data[0].ID == "w1" }},
		{"one", func(ctx context.Context, c *Client) (any, error) { return c.Webhook(ctx, "w1") }, "GET /v1/webhooks/w1", 0, webhookJSON, isWebhook},
		{"create", func(ctx context.Context, c *Client) (any, error) {
			return c.CreateWebhook(ctx, WebhookSettings{URL: "https://x.example/h", Events: []string{WebhookSuccess}, Ordered: true})
		}, `POST /v1/webhooks {"url":"https://x.example/h","events":["command.success"],"ordered":true}`, 201, webhookJSON, isWebhook},
		{"update", func(ctx context.Context, c *Client) (any, error) {
			return c.UpdateWebhook(ctx, "w1", WebhookChange{Events: []string{}, Disabled: &off, Reason: "r"})
		}, `PATCH /v1/webhooks/w1 {"events":[],"disabled":false,"reason":"r"}`, 0, webhookJSON, isWebhook},
		{"rotate", func(ctx context.Context, c *Client) (any, error) {
			return c.RotateWebhookSecret(ctx, "w1", time.Hour, "leaked")
		},
			`POST /v1/webhooks/w1/secrets {"overlap":"1h0m0s","reason":"leaked"}`, 0, webhookJSON, isWebhook},
		{"rotate at once", func(ctx context.Context, c *Client) (any, error) { return c.RotateWebhookSecret(ctx, "w1", 0, "") },
			`POST /v1/webhooks/w1/secrets {"overlap":"0s"}`, 0, webhookJSON, isWebhook},
		{"test", func(ctx context.Context, c *Client) (any, error) { return c.TestWebhook(ctx, "w1") }, "POST /v1/webhooks/w1/test", 202, deliveryJSON, isDelivery},
		{"challenge", func(ctx context.Context, c *Client) (any, error) { return c.ChallengeWebhook(ctx, "w1") }, "POST /v1/webhooks/w1/challenge", 202, deliveryJSON, isDelivery},
		{"redeliver a range", func(ctx context.Context, c *Client) (any, error) {
			return c.RedeliverWebhook(ctx, "w1", RedeliverRange{Since: at, States: []DeliveryState{DeliveryDelivered}, Reason: "r"})
		}, `POST /v1/webhooks/w1/redeliver {"since":"2026-11-01T00:00:00Z","states":["delivered"],"reason":"r"}`, 202, `{"count":3,"more":true}`,
			func(v any) bool { return v.(Redelivered) == Redelivered{3, true} }},
		{"deliveries", func(ctx context.Context, c *Client) (any, error) {
			return c.DeliveriesPage(ctx, DeliveryFilter{Webhook: "w1", Command: "c1", States: []DeliveryState{DeliveryFailed, DeliveryPending}, Event: "e1", Type: WebhookSuccess, Since: at, Until: at})
		}, "GET /v1/webhook-deliveries?command=c1&event=e1&since=2026-11-01T00%3A00%3A00Z&state=failed&state=pending&type=command.success&until=2026-11-01T00%3A00%3A00Z&webhook=w1", 0, `{"data":[` + deliveryJSON + `]}`,
			func(v any) bool { return isDelivery(v.(DeliveryPage).Data[0]) }},
		{"delivery", func(ctx context.Context, c *Client) (any, error) { return c.Delivery(ctx, "d1") }, "GET /v1/webhook-deliveries/d1", 0, deliveryJSON, isDelivery},
		{"redeliver", func(ctx context.Context, c *Client) (any, error) { return c.Redeliver(ctx, "d1") }, "POST /v1/webhook-deliveries/d1/redeliver", 202, deliveryJSON, isDelivery},
	} {
		e.test(t)
	}
	s, c := serve(t, reply200(webhookJSON), problem(412, "precondition_failed"))
	if _, err := c.UpdateWebhook(background(t), "w1", WebhookChange{Ordered: &off, Version: 4}); err != nil || s.all()[0].header.Get("If-Match") != `"4"` {
		t.Errorf("with a version: %v, %v", err, s.all()[0].header)
	}
	if _, err := c.UpdateWebhook(background(t), "w1", WebhookChange{Ordered: &off, Version: 4}); !errors.Is(err, ErrStale) {
		t.Errorf("stale: %v", err)
	}
	s, c = serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if err := c.DeleteWebhook(background(t), "w1"); err != nil || s.all()[0].method+s.all()[0].path != "DELETE/v1/webhooks/w1" {
		t.Errorf("delete: %v by %+v", err, s.all())
	}
}

func TestAudit(t *testing.T) {
	entry := `{"number":3,"at":"2026-11-01T00:00:00Z","actor":"ann","action":"resolve","command_id":null,"subject":"w1","reason":"r","evidence_reference":"T-1","details":{"x": 1},"previous_hash":"cd","hash":"ab"}`
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	isPage := func(v any) bool {
		e := v.(AuditPage).Data[0]
		return e.Number == 3 && e.Actor == "ann" && e.CommandID == "" && e.Subject == "w1" && e.EvidenceReference == "T-1" && e.Before == nil && string(e.Details) == `{"x": 1}` &&
			e.PreviousHash == "cd" && e.Hash == "ab"
	}
	for _, e := range []exchange{
		{"list", func(ctx context.Context, c *Client) (any, error) {
			return c.AuditPage(ctx, AuditFilter{Command: "c1", Actor: "ann", Action: "resolve", After: at, Limit: 5})
		}, "GET /v1/audit?action=resolve&actor=ann&after=2026-11-01T00%3A00%3A00Z&command=c1&limit=5", 0, `{"data":[` + entry + `],"next_cursor":null}`, isPage},
		{"of a command", func(ctx context.Context, c *Client) (any, error) { return c.CommandAuditPage(ctx, "c1", "3", 0) },
			"GET /v1/commands/c1/audit?cursor=3", 0, `{"data":[` + entry + `]}`, isPage},
		{"verify", func(ctx context.Context, c *Client) (any, error) { return c.VerifyAudit(ctx, "3:ab") }, "GET /v1/audit/verify?pin=3%3Aab", 0,
			`{"sound":false,"entries":2,"head":"2:ab","problem":{"number":3,"kind":"edited","detail":"D"}}`, func(v any) bool {
				a := v.(AuditVerification)
				return !a.Sound && a.Entries == 2 && a.Head == "2:ab" && *a.Problem == AuditProblem{3, "edited", "D"}
			}},
		{"verify what there is", func(ctx context.Context, c *Client) (any, error) { return c.VerifyAudit(ctx, "") }, "GET /v1/audit/verify", 0,
			`{"sound":true,"entries":0,"head":null,"problem":null}`, func(v any) bool { return v.(AuditVerification).Sound && v.(AuditVerification).Problem == nil }},
	} {
		e.test(t)
	}
}

func TestLookups(t *testing.T) {
	exchange{"lookups", func(ctx context.Context, c *Client) (any, error) { return c.Lookups(ctx, "x") }, "GET /v1/commands/x/lookups", 0,
		`{"data":[{"id":9,"round":2,"question":1,"started_at":"2026-11-01T00:00:00Z","ended_at":"2026-11-01T00:00:01Z","instance":"i","profile_version":3,
		"request":{"method":"GET","url":"u","headers":[]},"status":200,"category":null,"detail":null,"finding":"absent","counts":true,"rule":"size == 0","reference":null,
		"code":null,"message":null,"response":{"headers":{"date":["d"]},"body":{"items": []},"truncated":false},"notes":["n"]}],"next_cursor":null}`, func(v any) bool {
			l := v.(LookupPage).Data[0]
			return l.ID == 9 && l.Round == 2 && l.Finding == FindingAbsent && l.Counts && l.Response.Headers.Get("Date") == "d" && string(l.Response.Body) == `{"items": []}` && l.Notes[0] == "n"
		}}.test(t)
}

func TestNotices(t *testing.T) {
	exchange{"notices", func(ctx context.Context, c *Client) (any, error) { return c.Notices(ctx, "x") }, "GET /v1/commands/x/notices", 0,
		`{"data":[{"id":4,"event_id":"evt_1","received_at":"2026-11-01T00:00:00Z","matched_at":null,"profile_version":3,"named_by":"key","name":"k1","weight":"hint","finding":"applied",
		"reference":null,"code":null,"message":null,"rule":"r","state":"kept","effect":"lookup","headers":{"x-a":["1"]},"body":{"a": 1},"sha256":"s","notes":["n"]}]}`, func(v any) bool {
			n := v.(NoticePage).Data[0]
			return n.ID == 4 && n.EventID == "evt_1" && n.MatchedAt == nil && n.NamedBy == "key" && n.Weight == "hint" && n.Finding == FindingApplied && n.Effect == "lookup" &&
				n.Headers.Get("X-A") == "1" && string(n.Body) == `{"a": 1}` && n.Notes[0] == "n"
		}}.test(t)
}

func TestWaitDelivery(t *testing.T) {
	pending, failed := reply200(`{"id":"d1","state":"pending","tries":0}`), reply200(`{"id":"d1","state":"pending","tries":1,"status":500}`)
	s, c := serve(t, pending, failed)
	if d, err := c.WaitDelivery(background(t), "d1", 0); err != nil || d.Status != 500 || len(s.all()) != 2 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Lists that have many pages go through all of them.
func TestListsGoThroughAllPages(t *testing.T) {
	two := []http.HandlerFunc{reply200(`{"data":[{"number":2},{"number":1}],"next_cursor":"n"}`), reply200(`{"data":[{"number":0}],"next_cursor":null}`)}
	s, c := serve(t, two...)
	ctx := background(t)
	count := func(seq func(func(error) bool)) (n int) {
		for err := range seq {
			if n++; err != nil {
				t.Error(err)
			}
		}
		return n
	}
	for name, list := range map[string]func(func(error) bool){
		"reviews":    func(y func(error) bool) { each(c.Reviews(ctx, ReviewFilter{}), y) },
		"deliveries": func(y func(error) bool) { each(c.Deliveries(ctx, DeliveryFilter{}), y) },
		"reports":    func(y func(error) bool) { each(c.Reports(ctx, ReportFilter{}), y) },
		"items":      func(y func(error) bool) { each(c.ReportItems(ctx, "r", ReportItemFilter{}), y) },
		"audit":      func(y func(error) bool) { each(c.Audit(ctx, AuditFilter{}), y) },
	} {
		s.mu.Lock()
		s.requests = nil
		s.mu.Unlock()
		if n := count(list); n != 3 {
			t.Errorf("%s: %d", name, n)
		}
		if all := s.all(); len(all) != 2 || all[1].query.Get("cursor") != "n" {
			t.Errorf("%s: %+v", name, all)
		}
	}
}

// each hands on the errors of a list.
func each[T any](list func(func(T, error) bool), yield func(error) bool) {
	list(func(_ T, err error) bool { return yield(err) })
}

func TestReviews(t *testing.T) {
	review := `{"kind":"conflict","since":"2026-11-01T00:00:00Z","assignee":"ann","handed_reason":"schedule used up","evidence":"sent_no_response",
		"conflicts":[{"id":1,"at":"2026-11-01T00:00:00Z","source":"report","finding":"applied","answer":null,"status":null,"reference":"p","code":null,"message":null,"attempt":null}],
		"actions":["correct","note"],"command":` + succeeded() + `}`
	nobody := ""
	exchange{"reviews", func(ctx context.Context, c *Client) (any, error) {
		return c.ReviewsPage(ctx, ReviewFilter{
			Kinds: []ReviewKind{ReviewConflict, ReviewUnresolved}, Upstream: "ledger", Operation: "o", Reasons: []string{"no_response"}, Evidence: []string{"sent_no_response"},
			Assignee: &nobody, OlderThan: 24 * time.Hour, Metadata: map[string]string{"order": "42"}, MetadataMin: map[string]string{"amount": "100"},
			MetadataMax: map[string]string{"amount": "200.5"}, Cursor: "c", Limit: 10,
		})
	}, "GET /v1/reviews?assignee=&cursor=c&evidence=sent_no_response&kind=conflict&kind=unresolved&limit=10&metadata.order=42&metadata_max.amount=200.5&metadata_min.amount=100&older_than=24h0m0s&operation=o&reason=no_response&upstream=ledger",
		0, `{"data":[` + review + `],"next_cursor":null}`, func(v any) bool {
			r := v.(ReviewPage).Data[0]
			return r.Kind == ReviewConflict && r.Assignee == "ann" && r.Conflicts[0].Finding == FindingApplied && r.Conflicts[0].Answer == "" &&
				slices.Equal(r.Actions, []string{"correct", "note"}) && r.Command.Version == 7
		}}.test(t)
}

func TestActions(t *testing.T) {
	isCommand := func(v any) bool { return v.(Command).Version == 7 }
	for _, e := range []exchange{
		{"resolve", func(ctx context.Context, c *Client) (any, error) {
			return c.Resolve(ctx, "x", 7, Resolution{State: StateSuccess, Reason: "seen", EvidenceReference: "T-1", Reference: "pay_9"})
		}, `POST /v1/commands/x/resolve {"state":"success","reason":"seen","evidence_reference":"T-1","reference":"pay_9"}`, 0, succeeded(), isCommand},
		{"correct", func(ctx context.Context, c *Client) (any, error) {
			return c.Correct(ctx, "x", 7, Resolution{State: StateRejected, Reason: "seen", Code: "c", Message: "m"})
		}, `POST /v1/commands/x/correct {"state":"rejected","reason":"seen","code":"c","message":"m"}`, 0, succeeded(), isCommand},
		{"look up", func(ctx context.Context, c *Client) (any, error) { return c.LookUp(ctx, "x", 7, "now") },
			`POST /v1/commands/x/lookup {"reason":"now"}`, 0, succeeded(), isCommand},
		{"resend", func(ctx context.Context, c *Client) (any, error) {
			return c.Resend(ctx, "x", 7, Resending{Reason: "r", Absent: true, EvidenceReference: "T-1"})
		}, `POST /v1/commands/x/resend {"reason":"r","absent":true,"evidence_reference":"T-1"}`, 0, succeeded(), isCommand},
		{"assign", func(ctx context.Context, c *Client) (any, error) { return c.Assign(ctx, "x", 7, "ann", "r") },
			`POST /v1/commands/x/assign {"assignee":"ann","reason":"r"}`, 0, succeeded(), isCommand},
		{"assign to nobody", func(ctx context.Context, c *Client) (any, error) { return c.Assign(ctx, "x", 7, "", "r") },
			`POST /v1/commands/x/assign {"assignee":null,"reason":"r"}`, 0, succeeded(), isCommand},
		{"note", func(ctx context.Context, c *Client) (any, error) { return c.Note(ctx, "x", 7, "called them") },
			`POST /v1/commands/x/notes {"text":"called them"}`, 0, succeeded(), isCommand},
	} {
		e.test(t)
	}
}

func TestAnActionIsMadeOnAVersion(t *testing.T) {
	s, c := serve(t, reply200(succeeded()))
	ctx := background(t)
	if _, err := c.Note(ctx, "x", 12, "t"); err != nil || s.all()[0].header.Get("If-Match") != `"12"` {
		t.Errorf("%v, If-Match %q", err, s.all()[0].header.Get("If-Match"))
	}
	var invalid *Invalid
	if _, err := c.Note(ctx, "x", 0, "t"); !errors.As(err, &invalid) || invalid.Field != "Version" || len(s.all()) != 1 {
		t.Errorf("without a version: %v", err)
	}
	_, c = serve(t, replyWith(412, "application/problem+json", `{"title":"T","status":412,"detail":"D","code":"precondition_failed","current_version":9}`))
	var p *Problem
	if _, err := c.Note(ctx, "x", 7, "t"); !errors.Is(err, ErrStale) || !errors.As(err, &p) || p.CurrentVersion != 9 || errors.As(err, new(*Unanswered)) {
		t.Errorf("stale: %v", err)
	}
}

// After a lost answer a person looks first; nothing that a person decides, and
// nothing that makes something anew, is sent twice by itself.
func TestWhatPeopleDecideIsSentOnce(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"lost": lost, "away": problem(503, "unavailable", "Retry-After", "0"), "a proxy's page": replyWith(200, "text/html", "<p>"),
	} {
		s, c := serve(t, answer)
		ctx := background(t)
		calls := []func() error{
			func() error { _, err := c.Resolve(ctx, "x", 7, Resolution{}); return err },
			func() error { _, err := c.Correct(ctx, "x", 7, Resolution{}); return err },
			func() error { _, err := c.LookUp(ctx, "x", 7, "r"); return err },
			func() error { _, err := c.Resend(ctx, "x", 7, Resending{}); return err },
			func() error { _, err := c.Assign(ctx, "x", 7, "ann", "r"); return err },
			func() error { _, err := c.Note(ctx, "x", 7, "t"); return err },
			func() error { _, err := c.CreateWebhook(ctx, WebhookSettings{}); return err },
			func() error { _, err := c.UpdateWebhook(ctx, "w", WebhookChange{}); return err },
			func() error { return c.DeleteWebhook(ctx, "w") },
			func() error { _, err := c.RotateWebhookSecret(ctx, "w", time.Hour, ""); return err },
			func() error { _, err := c.TestWebhook(ctx, "w"); return err },
			func() error { _, err := c.RedeliverWebhook(ctx, "w", RedeliverRange{}); return err },
			func() error { _, err := c.Redeliver(ctx, "d"); return err },
			func() error {
				_, err := c.UploadReport(ctx, ReportUpload{Format: ReportCSV}, strings.NewReader("a"))
				return err
			},
		}
		for i, call := range calls {
			if err := call(); !errors.As(err, new(*Unanswered)) {
				t.Errorf("%s: call %d: %v", name, i, err)
			}
		}
		if n := len(s.all()); n != len(calls) {
			t.Errorf("%s: %d requests for %d calls", name, n, len(calls))
		}
	}
	_, c := serve(t, problem(409, "not_unresolved"))
	if _, err := c.Resolve(background(t), "x", 7, Resolution{}); !errors.Is(err, ErrConflict) || errors.As(err, new(*Unanswered)) {
		t.Errorf("refused: %v", err)
	}
}

func TestBulk(t *testing.T) {
	answer := `{"id":"b1","action":"resolve","actor":"ann","reason":"r","created_at":"2026-11-01T00:00:00Z","state":"done","count":2,"done":1,"refused":1,"problems":{"stale":1},
		"items":[{"command_id":"c1","result":"done","problem":null,"detail":null},{"command_id":"c2","result":"refused","problem":"stale","detail":"D"}],"sample":[]}`
	isBulk := func(v any) bool {
		b := v.(Bulk)
		return b.Over() && b.Count == 2 && b.Refused == 1 && b.Problems["stale"] == 1 && b.Items[0].Problem == "" && b.Items[1] == BulkItem{"c2", "refused", "stale", "D"} && string(b.JSON()) == answer
	}
	ann, count := "ann", 2
	for _, e := range []exchange{
		{"start", func(ctx context.Context, c *Client) (any, error) {
			return c.StartBulk(ctx, BulkRequest{
				ID: "b1", Action: "resolve", Reason: "r", State: StateRejected, Code: "c", EvidenceReference: "T-1", ExpectedCount: &count,
				Filter: ReviewFilter{Kinds: []ReviewKind{ReviewUnresolved}, Assignee: &ann, OlderThan: time.Hour, MetadataMin: map[string]string{"amount": "1"}, Cursor: "c", Limit: 3},
			})
		}, `POST /v1/reviews/bulk {"id":"b1","action":"resolve","filter":{"kind":["unresolved"],"assignee":"ann","older_than":"1h0m0s","metadata_min":{"amount":"1"}},"reason":"r","evidence_reference":"T-1","state":"rejected","code":"c","expected_count":2}`,
			202, answer, isBulk},
		{"count", func(ctx context.Context, c *Client) (any, error) {
			return c.StartBulk(ctx, BulkRequest{Action: "lookup", Filter: ReviewFilter{Upstream: "u"}, DryRun: true})
		}, `POST /v1/reviews/bulk {"action":"lookup","filter":{"upstream":"u"},"dry_run":true}`, 0, `{"id":null,"state":"preview","count":2,"sample":[{"command_id":"c1","result":"pending"}]}`,
			func(v any) bool {
				b := v.(Bulk)
				return b.State == BulkPreview && b.Over() && b.Sample[0].CommandID == "c1"
			}},
		{"read", func(ctx context.Context, c *Client) (any, error) { return c.Bulk(ctx, "b1") }, "GET /v1/reviews/bulk/b1", 0, answer, isBulk},
	} {
		e.test(t)
	}
	s, c := serve(t, lost, reply200(answer)) // the id makes a repeat harmless
	if _, err := c.StartBulk(background(t), BulkRequest{ID: "b1"}); err != nil || len(s.all()) != 2 {
		t.Errorf("%v after %d requests", err, len(s.all()))
	}
	if _, err := c.StartBulk(background(t), BulkRequest{}); !errors.Is(err, ErrInvalid) || len(s.all()) != 2 {
		t.Errorf("without an id: %v", err)
	}
}

func TestWaitBulk(t *testing.T) {
	running, done := reply200(`{"state":"running","count":2,"done":1}`), reply200(`{"state":"done","count":2,"done":2}`)
	s, c := serve(t, running, problem(503, "unavailable", "Retry-After", "0"), running, done)
	var seen []int
	b, err := c.WaitBulk(background(t), "b1", func(b Bulk) { seen = append(seen, b.Done) })
	if err != nil || !b.Over() || !slices.Equal(seen, []int{1, 1, 2}) || len(s.all()) != 4 {
		t.Errorf("%+v, %v, saw %v in %d requests", b, err, seen, len(s.all()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, c = serve(t, func(w http.ResponseWriter, r *http.Request) { running(w, r); time.AfterFunc(0, cancel) })
	if b, err := c.WaitBulk(ctx, "b1", nil); !errors.Is(err, context.Canceled) || b.Count > 2 {
		t.Errorf("%+v, %v", b, err)
	}
	_, c = serve(t, problem(404, "not_found"))
	if _, err := c.WaitBulk(background(t), "b1", nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestNewID(t *testing.T) {
	a, b := NewID(), NewID()
	if a == b || len(a) != 36 || a[14] != '4' || !strings.ContainsRune("89ab", rune(a[19])) || strings.Count(a, "-") != 4 {
		t.Errorf("%s, %s", a, b)
	}
}
