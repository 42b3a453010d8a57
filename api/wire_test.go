package api

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"executor/client"
	"executor/internal/audit"
)

// TestTheClientReadsWhatIsThere holds the Go client, which shares no types with the
// server, against the document: it must not look for members that no answer has.
func TestTheClientReadsWhatIsThere(t *testing.T) {
	schemas := loadSpecification(t).doc.Components.Schemas
	for _, tt := range []struct {
		value  any
		schema string
	}{
		{client.Review{}, "Review"}, {client.Conflict{}, "Conflict"}, {client.Bulk{}, "Bulk"}, {client.BulkItem{}, "BulkItemResult"},
		{client.Lookup{}, "Lookup"}, {client.Notice{}, "Notice"}, {client.Report{}, "Report"}, {client.ReportItem{}, "ReportItem"},
		{client.Webhook{}, "WebhookWithSecret"}, {client.Disabled{}, "Disabled"}, {client.SecretInUse{}, "SecretInUse"},
		{client.WebhookSettings{}, "CreateWebhook"}, {client.WebhookChange{}, "UpdateWebhook"},
		{client.Delivery{}, "DeliveryWithTries"}, {client.DeliveryTry{}, "DeliveryTry"}, {client.Redelivered{}, "Redelivered"},
		{client.AuditEntry{}, "AuditEntry"}, {client.AuditVerification{}, "AuditVerification"}, {client.AuditProblem{}, "AuditProblem"},
		{client.Reconciliation{}, "Reconciliation"}, {client.Problem{}, "Problem"},
	} {
		parts := partsOf(schemas[tt.schema].Value)
		for _, name := range jsonNames(reflect.TypeOf(tt.value)) {
			if member, open := memberOf(parts, name); member == nil && !open {
				t.Errorf("client.%T reads %s, which %s does not have", tt.value, name, tt.schema)
			}
		}
	}
}

// jsonNames are the members that a struct is read from.
func jsonNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			names = append(names, jsonNames(field.Type)...)
		case name != "":
			names = append(names, name)
		}
	}
	return names
}

// TestTheClientIsUnderstood has the client make each call that follows up doubts: what
// it sends is taken, and what it reads says something.
func TestTheClientIsUnderstood(t *testing.T) {
	l, me, doubt := newDoubt(t)
	ctx := t.Context()
	_, secret, err := l.keys.Create(ctx, "default", "client", []string{"admin"}, audit.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Config{URL: l.http.URL, APIKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	is := func(what string, err error, told bool) {
		t.Helper()
		if err != nil || !told {
			t.Errorf("%s: %v, told: %v", what, err, told)
		}
	}
	filter := client.ReviewFilter{
		Kinds: []client.ReviewKind{client.ReviewUnresolved}, Upstream: "echo", Operation: "pay", Reasons: []string{"unclear_response"}, Evidence: []string{"response_received"},
		Assignee: new(string), Metadata: map[string]string{"amount": "100"}, MetadataMin: map[string]string{"amount": "99"}, MetadataMax: map[string]string{"amount": "101"}, Limit: 9,
	}
	reviews, err := c.ReviewsPage(ctx, filter)
	is("reviews", err, len(reviews.Data) == 1 && reviews.Data[0].Command.ID == doubt.ID)
	dry, err := c.StartBulk(ctx, client.BulkRequest{Action: "assign", Filter: filter, DryRun: true})
	is("dry run", err, dry.Count == 1 && len(dry.Sample) == 1)
	bulk, err := c.StartBulk(ctx, client.BulkRequest{ID: client.NewID(), Action: "note", Filter: filter, Reason: "r", ExpectedCount: &dry.Count})
	is("bulk", err, bulk.Count == 1 && bulk.Items[0].CommandID == doubt.ID)
	_, err = c.Bulk(ctx, bulk.ID)
	is("read bulk", err, true)

	cmd, err := c.Assign(ctx, doubt.ID, doubt.Version, "ann", "r")
	is("assign", err, cmd.Reconciliation.Assignee == "ann")
	cmd, err = c.Note(ctx, doubt.ID, cmd.Version, "t")
	is("note", err, cmd.ID == doubt.ID)
	_, err = c.Resolve(ctx, doubt.ID, doubt.Version, client.Resolution{State: client.StateSuccess, Reason: "r", Reference: "pay_9"})
	is("resolve an older version", nil, errors.Is(err, client.ErrStale))
	cmd, err = c.Resolve(ctx, doubt.ID, cmd.Version, client.Resolution{State: client.StateSuccess, Reason: "r", Reference: "pay_9"})
	is("resolve", err, cmd.State == client.StateSuccess)
	_, err = c.Lookups(ctx, doubt.ID)
	is("lookups", err, true)
	_, err = c.Notices(ctx, doubt.ID)
	is("notices", err, true)

	hook, err := c.CreateWebhook(ctx, client.WebhookSettings{URL: "https://shop.example/h", Events: []string{"command.success"}})
	is("create webhook", err, hook.Secret != "")
	hook, err = c.RotateWebhookSecret(ctx, hook.ID, 0, "")
	is("rotate", err, hook.Secret != "" && len(hook.Secrets) == 1)
	hook, err = c.UpdateWebhook(ctx, hook.ID, client.WebhookChange{Events: []string{}, Ordered: new(bool), Version: hook.Version})
	is("update", err, len(hook.Events) == 0)
	_, err = c.ChallengeWebhook(ctx, hook.ID)
	is("challenge where nobody has to answer", nil, errors.Is(err, client.ErrConflict) && hook.Verified.By == "setting")
	tested, err := c.TestWebhook(ctx, hook.ID)
	is("test", err, tested.Type == "webhook.test")
	delivery, err := c.Delivery(ctx, tested.ID)
	is("delivery", err, delivery.EventID == tested.EventID && len(delivery.Payload) > 0)
	again, err := c.RedeliverWebhook(ctx, hook.ID, client.RedeliverRange{Since: time.Now().Add(-time.Hour), States: []client.DeliveryState{client.DeliveryPending}, Reason: "r"})
	is("redeliver a range", err, again.Count == 1)
	_, err = c.Redeliver(ctx, tested.ID)
	is("redeliver", err, true)
	is("delete", c.DeleteWebhook(ctx, hook.ID), true)

	uploaded, err := c.UploadReport(ctx, client.ReportUpload{
		Upstream: "echo", Operation: "pay", Format: client.ReportCSV, Columns: map[string]string{"reference": "ref"}, States: map[string]string{"paid": "success"},
		Compare: map[string]string{"sum": "/body/amount"}, From: time.Unix(0, 0), SettlesFor: time.Hour,
	}, strings.NewReader("ref,state,sum\npay_9,paid,1\n"))
	is("upload", err, uploaded.Lines == 1)
	_, err = c.ReportItemsPage(ctx, uploaded.ID, client.ReportItemFilter{Kinds: []string{"matched"}})
	is("items", err, true)
	_, err = c.ApplyReport(ctx, uploaded.ID, "r")
	is("apply too early", nil, errors.Is(err, client.ErrConflict))

	audited, err := c.AuditPage(ctx, client.AuditFilter{Actor: "client", Limit: 1})
	is("audit", err, len(audited.Data) == 1)
	verified, err := c.VerifyAudit(ctx, "")
	is("verify", err, verified.Sound && verified.Head != "")
	verified, err = c.VerifyAudit(ctx, verified.Head)
	is("verify what was noted", err, verified.Sound)
	l.do("GET", "/v1/commands/"+doubt.ID, me).want(200)
}
