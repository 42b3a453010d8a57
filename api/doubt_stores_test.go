package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"executor/internal/testkit"
	"executor/reconcile"
)

// newDoubt is a rig with one command of the tenant default that is unresolved and
// waits for a person.
func newDoubt(t *testing.T) (l *live, me askOption, c Command) {
	t.Helper()
	l = newLive(t, testkit.Database(t), false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	me = l.key("default")
	return l, me, l.doubt(me, "k-1")
}

// doubt makes another one.
func (l *live) doubt(me askOption, key string) Command {
	l.t.Helper()
	c := l.submit(key, `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{},"metadata":{"amount":"100"}}`, me, with("Prefer", "wait=30")).want(200).command()
	if c.State != "unresolved" || c.Outcome.NextAction != "review" {
		l.t.Fatalf("the command is %+v", c)
	}
	return c
}

func TestReviewOnTheStore(t *testing.T) {
	l, me, c := newDoubt(t)
	path := "/v1/commands/" + c.ID
	var page ReviewList
	l.do("GET", "/v1/reviews?kind=unresolved&metadata_min.amount=99.5&evidence=response_received&older_than=0s&assignee=", me).want(200).decode(&page)
	if len(page.Data) != 1 || page.Data[0].Command.ID != c.ID || !slices.Contains(page.Data[0].Actions, "resolve") {
		t.Fatalf("the queue is %+v", page)
	}
	l.do("GET", "/v1/reviews?metadata_min.amount=many", me).want(400).problem(ProblemCodeInvalidParameter)
	l.do("GET", "/v1/reviews?cursor=x", me).want(400).problem(ProblemCodeInvalidParameter)

	r := l.do("POST", path+"/assign", me, with(versionHeader, tag(c)), sending(`{"assignee":"ann","reason":"knows the bank"}`)).want(200)
	if *r.command().Reconciliation.Assignee != "ann" || r.header.Get("ETag") == tag(c) {
		t.Errorf("assigned: %s with %s", r.body, r.header.Get("ETag"))
	}
	now := r.header.Get("ETag")
	if p := l.do("POST", path+"/resolve", me, with(versionHeader, tag(c)), sending(`{"state":"success","reason":"r","reference":"pay_9"}`)).want(412).problem(ProblemCodePreconditionFailed); p.CurrentVersion != r.command().Version {
		t.Errorf("%+v", p)
	}
	l.do("POST", path+"/lookup", me, with(versionHeader, now), sending(`{"reason":"r"}`)).want(409).problem(ProblemCodeNoLookup)
	l.do("POST", path+"/correct", me, with(versionHeader, now), sending(`{"state":"success","reason":"r","reference":"x"}`)).want(409).problem(ProblemCodeNotSettled)
	p := l.do("POST", path+"/resolve", me, with(versionHeader, now), sending(`{"state":"success","reason":"r"}`)).want(422).problem(ProblemCodeInvalidRequest)
	if p.Errors[0].Pointer != "/evidence_reference" {
		t.Errorf("a success without any reference: %+v", p)
	}
	now = l.do("POST", path+"/notes", me, with(versionHeader, now), sending(`{"text":"called them"}`)).want(200).header.Get("ETag")

	done := l.do("POST", path+"/resolve", me, with(versionHeader, now), sending(`{"state":"success","reason":"on the statement","reference":"pay_9"}`)).want(200).command()
	if done.State != "success" || done.Outcome.DecidedBy != "operator" || *done.Outcome.Result.Reference != "pay_9" {
		t.Errorf("resolved: %+v", done.Outcome)
	}
	l.do("POST", path+"/resolve", me, with(versionHeader, quoted(done.Version)), sending(`{"state":"rejected","reason":"r"}`)).want(409).problem(ProblemCodeNotUnresolved)
	undone := l.do("POST", path+"/correct", me, with(versionHeader, quoted(done.Version)), sending(`{"state":"rejected","reason":"it was undone","code":"chargeback"}`)).want(200).command()
	if undone.State != "rejected" || *undone.Outcome.Rejection.Code != "chargeback" {
		t.Errorf("corrected: %+v", undone.Outcome)
	}

	var log AuditList
	l.do("GET", path+"/audit?limit=3", me).want(200).decode(&log)
	if len(log.Data) != 3 || log.NextCursor == nil || log.Data[0].Action != "command.correct" || *log.Data[0].Reason != "it was undone" {
		t.Errorf("the audit is %+v", log)
	}
	var verified AuditVerification
	if l.do("GET", "/v1/audit/verify", me).want(200).decode(&verified); !verified.Sound || int(verified.Entries) != int(log.Data[0].Number) || verified.Head == nil {
		t.Errorf("%+v", verified)
	}
	l.do("GET", "/v1/audit/verify?pin="+*verified.Head, me).want(200)
}

// tag is the version of a command, as its ETag.
func tag(c Command) string { return quoted(c.Version) }

// TestTwoOperators: both saw the same, and one of them is first.
func TestTwoOperators(t *testing.T) {
	l, me, c := newDoubt(t)
	var (
		both     sync.WaitGroup
		mu       sync.Mutex
		statuses []int
	)
	for _, state := range []string{"success", "rejected"} {
		both.Go(func() {
			r := l.do("POST", "/v1/commands/"+c.ID+"/resolve", me, with(versionHeader, tag(c)), sending(`{"state":"`+state+`","reason":"r","reference":"pay_9"}`))
			mu.Lock()
			defer mu.Unlock()
			statuses = append(statuses, r.status)
		})
	}
	both.Wait()
	if slices.Sort(statuses); !slices.Equal(statuses, []int{200, 412}) {
		t.Errorf("the answers are %v", statuses)
	}
}

func TestBulkOnTheStore(t *testing.T) {
	l, me, c := newDoubt(t)
	l.doubt(me, "k-2")
	id := uuid.NewString()
	bulk := func(more string) askOption {
		return sending(`{"id":"` + id + `","action":"assign","filter":{"upstream":"echo","metadata_max":{"amount":100}},"assignee":"ann","reason":"shift"` + more + `}`)
	}
	var b Bulk
	if l.do("POST", "/v1/reviews/bulk", me, bulk(`,"dry_run":true`)).want(200).decode(&b); b.State != "preview" || b.Count != 2 || len(b.Sample) != 2 {
		t.Errorf("%+v", b)
	}
	if p := l.do("POST", "/v1/reviews/bulk", me, bulk(`,"expected_count":3`)).want(409).problem(ProblemCodeCountDiffers); p.Count != 2 {
		t.Errorf("%+v", p)
	}
	l.do("GET", "/v1/reviews/bulk/"+id, me).want(404)
	p := l.do("POST", "/v1/reviews/bulk", me, sending(`{"id":"`+id+`","action":"assign","filter":{"kind":[]},"reason":"shift"}`)).want(422).problem(ProblemCodeInvalidRequest)
	if pointers(p)[0] != "/filter" {
		t.Errorf("a filter of everything: %+v", p)
	}
	for range 2 {
		if l.do("POST", "/v1/reviews/bulk", me, bulk(`,"expected_count":2`)).want(202).decode(&b); b.State != "running" || len(b.Items) != 2 {
			t.Errorf("%+v", b)
		}
	}
	l.do("POST", "/v1/reviews/bulk", me, bulk(`,"evidence_reference":"another"`)).want(409).problem(ProblemCodeIDReused)
	if l.do("GET", "/v1/reviews/bulk/"+id, me).want(200).decode(&b); b.Items[0].CommandID != c.ID || b.Actor == "" {
		t.Errorf("%+v", b)
	}
}

func TestNoticesOnTheStore(t *testing.T) {
	l, me, c := newDoubt(t)
	body := `{"event":"e1","key":"k-1","paid":true,"id":"pay_7"}`
	mac := hmac.New(sha256.New, []byte(noticeKey))
	mac.Write([]byte(body))
	notice := func(upstream string, options ...askOption) *reply {
		t.Helper()
		options = append([]askOption{without("Authorization"), sending(body), with("X-Signature", hex.EncodeToString(mac.Sum(nil)))}, options...)
		return l.do("POST", "/v1/notices/"+upstream, options...)
	}
	notice("echo", without("X-Signature")).want(401).problem(ProblemCodeUnverifiedNotice)
	notice("echo", sending(strings.Replace(body, "pay_7", "pay_8", 1))).want(401)
	notice("nobody").want(401)
	notice("echo?tenant=other").want(401)
	notice("ech%00o").want(401)
	var a AcceptedNotice
	if notice("echo").want(202).decode(&a); a.Duplicate {
		t.Errorf("%+v", a)
	}
	if notice("echo").want(202).decode(&a); !a.Duplicate {
		t.Errorf("%+v", a)
	}
	if got := l.do("GET", "/v1/commands/"+c.ID, me).want(200).command(); got.State != "success" || got.Outcome.DecidedBy != "notice" || *got.Outcome.Result.Reference != "pay_7" {
		t.Errorf("%+v", got.Outcome)
	}
	var list NoticeList
	if l.do("GET", "/v1/commands/"+c.ID+"/notices", me).want(200).decode(&list); len(list.Data) != 1 || *list.Data[0].Effect != "settled" || list.Data[0].Name != "k-1" {
		t.Errorf("%+v", list)
	}
}

func TestReportsOnTheStore(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	var got Report
	r := l.do("POST", "/v1/reconciliations?upstream=echo&operation=pay&states.paid=success&settles_for=1h&from=2026-01-01T00:00:00Z", me, report("reference,state\npay_9,paid\n")).want(202)
	if r.decode(&got); got.State != "comparing" || got.Lines != 1 || got.States["paid"] != "applied" || got.From == nil || got.SettlesFor != "1h0m0s" {
		t.Errorf("%s", r.body)
	}
	path := r.header.Get("Location")
	l.do("GET", path, me).want(200)
	l.do("GET", path+"/items?kind=matched", me).want(200)
	l.do("GET", path+"/items?cursor=x", me).want(400).problem(ProblemCodeInvalidParameter)
	l.do("POST", path+"/apply", me, sending(`{"reason":"r"}`)).want(409).problem(ProblemCodeNotCompared)
	var list ReportList
	if l.do("GET", "/v1/reconciliations?upstream=echo", me).want(200).decode(&list); len(list.Data) != 1 {
		t.Errorf("%+v", list)
	}
	p := l.do("POST", "/v1/reconciliations?upstream=echo&columns.amount=sum", me, report("reference,state\npay_9,paid\n")).want(422).problem(ProblemCodeInvalidRequest)
	if p.Errors[0].Parameter != "columns.amount" {
		t.Errorf("%+v", p)
	}
	l.do("POST", "/v1/reconciliations?upstream=nobody", me, report("reference,state\n")).want(422).problem(ProblemCodeInvalidRequest)
	l.do("POST", "/v1/reconciliations?upstream=echo", me, report("reference,state\n\"pay_9,paid\n")).want(422).problem(ProblemCodeInvalidRequest)
	if reconcile.MaxReportBytes != 512<<20 {
		t.Error("openapi.yaml and the pages say 512 MiB")
	}
}

func TestWebhooksOnTheStore(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	create := sending(`{"url":"https://shop.example/hook","events":["command.success"],"reason":"r"}`)
	r := l.do("POST", "/v1/webhooks", me, create).want(201)
	var e WebhookWithSecret
	if r.decode(&e); !strings.HasPrefix(e.Secret, "whsec_") || len(e.Secrets) != 1 || e.Upstreams == nil {
		t.Errorf("%s", r.body)
	}
	path := r.header.Get("Location")
	if shown := l.do("GET", path, me).want(200); strings.Contains(string(shown.body), "whsec_") {
		t.Errorf("the secret is shown again: %s", shown.body)
	}
	l.do("POST", "/v1/webhooks", me, create).want(409).problem(ProblemCodeWebhookExists)
	if p := l.do("POST", "/v1/webhooks", me, sending(`{"url":"http://shop.example/"}`)).want(422).problem(ProblemCodeInvalidRequest); p.Errors[0].Pointer != "/url" {
		t.Errorf("%+v", p)
	}
	rotated := l.do("POST", path+"/secrets", me, sending(`{"overlap":"1h"}`)).want(200)
	l.do("POST", path+"/secrets", me, sending(`{"overlap":"9000h"}`)).want(422)
	l.do("PATCH", path, me, with(versionHeader, r.header.Get("ETag")), sending(`{"ordered":true}`)).want(412).problem(ProblemCodePreconditionFailed)
	l.do("PATCH", path, me, with(versionHeader, rotated.header.Get("ETag")), sending(`{"ordered":true,"events":[]}`)).want(200)

	delivery := l.do("POST", path+"/test", me).want(202).header.Get("Location")
	var d DeliveryWithTries
	if l.do("GET", delivery, me).want(200).decode(&d); d.Type != "webhook.test" || d.State != "pending" || len(d.Log) != 0 {
		t.Errorf("%+v", d)
	}
	l.do("POST", delivery+"/redeliver", me).want(202)
	var page DeliveryList
	if l.do("GET", "/v1/webhook-deliveries?webhook="+e.ID+"&state=pending&event="+d.EventID, me).want(200).decode(&page); len(page.Data) != 1 {
		t.Errorf("%+v", page)
	}
	var done Redelivered
	if l.do("POST", path+"/redeliver", me, sending(`{"since":"2020-01-01T00:00:00Z","states":["pending"]}`)).want(202).decode(&done); done.Count != 1 || done.More {
		t.Errorf("%+v", done)
	}
	l.do("PATCH", path, me, sending(`{"disabled":true}`)).want(200)
	l.do("POST", path+"/test", me).want(409).problem(ProblemCodeWebhookDisabled)
	l.do("DELETE", path, me).want(204)
	l.do("DELETE", path, me).want(404)
	l.do("POST", delivery+"/redeliver", me).want(409).problem(ProblemCodeWebhookGone)
}

// TestOtherTenantsThingsAreNotThere asks for everything that one tenant has with
// another tenant's key: every call that names a thing by its id.
func TestOtherTenantsThingsAreNotThere(t *testing.T) {
	l, me, c := newDoubt(t)
	bulk := uuid.NewString()
	l.do("POST", "/v1/reviews/bulk", me, sending(`{"id":"`+bulk+`","action":"note","filter":{"upstream":"echo"},"reason":"r"}`)).want(202)
	reported := l.do("POST", "/v1/reconciliations?upstream=echo", me, report("reference,state\npay_9,success\n")).want(202).header.Get("Location")
	hook := l.do("POST", "/v1/webhooks", me, sending(`{"url":"https://shop.example/hook"}`)).want(201).header.Get("Location")
	delivery := l.do("POST", hook+"/test", me).want(202).header.Get("Location")
	things := []struct{ prefix, id string }{
		{"/v1/commands/{id}", "/v1/commands/" + c.ID}, {"/v1/reviews/bulk/{id}", "/v1/reviews/bulk/" + bulk}, {"/v1/reconciliations/{id}", reported},
		{"/v1/webhooks/{id}", hook}, {"/v1/webhook-deliveries/{id}", delivery}, {"/v1/upstreams/{name}", "/v1/upstreams/echo"},
	}
	bodies := map[string]string{
		"CancelCommand": "", "AssignCommand": `{"assignee":"eve","reason":"r"}`, "NoteCommand": `{"text":"t"}`, "ResolveCommand": `{"state":"rejected","reason":"r"}`,
		"CorrectCommand": `{"state":"rejected","reason":"r"}`, "UpdateWebhook": `{"ordered":true}`, "DeleteWebhook": "", "TestWebhook": "", "ChallengeWebhook": "", "Redeliver": "",
		"RedeliverRange": `{"since":"2020-01-01T00:00:00Z"}`, "ResumeUpstream": "",
	}
	eve := l.key("other")
	asked := 0
	for _, op := range operations() {
		i := slices.IndexFunc(things, func(thing struct{ prefix, id string }) bool { return strings.HasPrefix(op.pattern, thing.prefix) })
		if i < 0 || op.id == "ApplyUpstream" { // which makes one of the same name for the other tenant
			continue
		}
		body, known := bodies[op.id]
		if !known {
			body = `{"reason":"r"}`
		}
		options := []askOption{eve, with(versionHeader, "1")}
		if op.method != http.MethodGet && body != "" {
			options = append(options, sending(body))
		}
		l.do(op.method, things[i].id+strings.TrimPrefix(op.pattern, things[i].prefix), options...).want(404).problem(ProblemCodeNotFound)
		asked++
	}
	if asked < 29 {
		t.Errorf("only %d calls were asked", asked)
	}
	for _, list := range []string{"/v1/commands", "/v1/reviews", "/v1/reconciliations", "/v1/webhooks", "/v1/webhook-deliveries", "/v1/audit?action=webhook.create", "/v1/audit?action=profile.apply", "/v1/audit?command=" + c.ID, "/v1/upstreams"} {
		if r := l.do("GET", list, eve).want(200); !strings.HasPrefix(string(r.body), `{"data":[],`) {
			t.Errorf("%s shows the other tenant %s", list, r.body)
		}
	}
	if l.do("GET", "/v1/commands/"+c.ID, me).want(200).command().Version != c.Version {
		t.Error("somebody changed it")
	}
}
