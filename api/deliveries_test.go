package api

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"executor/webhooks"
)

func TestListDeliveries(t *testing.T) {
	g := newRig(t)
	id := someID.String()
	r := g.do("GET", "/v1/webhook-deliveries"+query("webhook", id, "command", id, "event", id, "type", "command.success", "state", "failed", "state", "pending,dropped",
		"since", "2026-12-01T00:00:00Z", "until", "2026-12-02T00:00:00Z", "cursor", "c", "limit", "7")).want(200)
	var page DeliveryList
	if r.decode(&page); len(page.Data) != 1 || *page.NextCursor != "next" || page.Data[0].NextAt == nil || *page.Data[0].Status != 503 {
		t.Errorf("%s", r.body)
	}
	since := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	until := since.AddDate(0, 0, 1)
	want := webhooks.DeliveryFilter{
		Tenant: "default", Endpoint: &someID, Command: &someID, Event: &someID, Type: "command.success", States: []string{"failed", "pending", "dropped"},
		Since: &since, Until: &until, Cursor: "c", Limit: 7,
	}
	if diff := cmp.Diff(want, g.webhooks.filter); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"state=sent", "state=", "webhook=7", "command=", "since=1", "type=", "limit=101", "tenant=x"} {
		g.do("GET", "/v1/webhook-deliveries?"+bad).want(400).problem(ProblemCodeInvalidParameter)
	}
	g.webhooks.err = webhooks.ErrBadCursor
	g.do("GET", "/v1/webhook-deliveries?cursor=x").want(400).problem(ProblemCodeInvalidParameter)
}

func TestGetDelivery(t *testing.T) {
	g := newRig(t)
	r := g.do("GET", "/v1/webhook-deliveries/"+someID.String()).want(200)
	var d DeliveryWithTries
	r.decode(&d)
	if !bytes.Contains(r.body, g.webhooks.account.Payload) {
		t.Errorf("the payload is not shown as it is sent: %s", r.body)
	}
	if len(d.Log) != 1 || d.Log[0].DurationMs != 1500 || *d.Log[0].Excerpt != "<busy>" || d.Log[0].Detail != nil {
		t.Errorf("%s", r.body)
	}
	g.webhooks.account.State, g.webhooks.account.CommandID, g.webhooks.account.EndedAt = webhooks.DeliveryDelivered, nil, &someTime
	if g.do("GET", "/v1/webhook-deliveries/"+someID.String()).want(200).decode(&d); d.NextAt != nil || d.CommandID != nil || d.EndedAt == nil {
		t.Errorf("%+v", d)
	}
	g.webhooks.err = webhooks.ErrNotFound
	g.do("GET", "/v1/webhook-deliveries/"+someID.String()).want(404).problem(ProblemCodeNotFound)
}

func TestRedeliver(t *testing.T) {
	g := newRig(t)
	id := someID.String()
	if g.do("POST", "/v1/webhook-deliveries/"+id+"/redeliver").want(202); g.webhooks.by.Actor != "boss" {
		t.Errorf("%+v", g.webhooks.by)
	}
	if r := g.do("POST", "/v1/webhooks/"+id+"/test").want(202); r.header.Get("Location") != "/v1/webhook-deliveries/"+id {
		t.Errorf("%v", r.header)
	}
	var done Redelivered
	if g.do("POST", "/v1/webhooks/"+id+"/redeliver", sending(`{"since":"2026-12-01T00:00:00Z","until":null,"states":["failed","delivered"],"reason":"lost"}`)).want(202).decode(&done); done.Count != 3 || !done.More {
		t.Errorf("%+v", done)
	}
	want := webhooks.Range{Endpoint: someID, Since: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), States: []webhooks.DeliveryState{"failed", "delivered"}}
	if diff := cmp.Diff(want, g.webhooks.part); diff != "" || g.webhooks.by.Reason != "lost" {
		t.Errorf("%+v\n%s", g.webhooks.by, diff)
	}
	if g.do("POST", "/v1/webhooks/"+id+"/redeliver", sending(`{"since":"2026-12-01T00:00:00Z","until":"2026-12-02T00:00:00Z"}`)).want(202); g.webhooks.part.Until.IsZero() || g.webhooks.part.States != nil {
		t.Errorf("%+v", g.webhooks.part)
	}
	for _, bad := range []string{`{}`, `{"since":"yesterday"}`, `{"since":"2026-12-01T00:00:00Z","states":["lost"]}`, `{"since":"2026-12-01T00:00:00Z","from":1}`} {
		g.do("POST", "/v1/webhooks/"+id+"/redeliver", sending(bad)).want(422).problem(ProblemCodeInvalidRequest)
	}
	g.do("POST", "/v1/webhook-deliveries/x/redeliver").want(400)
	g.do("POST", "/v1/webhook-deliveries/"+id+"/redeliver", sending(`{"a":1}`)).want(422)
}
