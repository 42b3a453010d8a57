package api

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"executor/webhooks"
)

func TestCreateWebhook(t *testing.T) {
	g := newRig(t)
	r := g.do("POST", "/v1/webhooks", sending(`{"url":"https://shop.example/hook","description":"shop","events":["command.success"],"upstreams":["ledger"],"ordered":true,"reason":"asked for"}`)).want(201)
	var e WebhookWithSecret
	r.decode(&e)
	if e.Secret != "whsec_new" || r.header.Get("Location") != "/v1/webhooks/"+someID.String() || r.header.Get("ETag") != `"4"` {
		t.Errorf("%s with %v", r.body, r.header)
	}
	if e.Disabled.By != "failing" || !e.Ordered || len(e.Secrets) != 2 || e.Secrets[0].ExpiresAt != nil || e.Secrets[1].ExpiresAt == nil {
		t.Errorf("%s", r.body)
	}
	want := webhooks.Settings{URL: "https://shop.example/hook", Description: "shop", Events: []string{"command.success"}, Upstreams: []string{"ledger"}, Ordered: true}
	if diff := cmp.Diff(want, g.webhooks.settings); diff != "" || g.webhooks.by != (webhooks.By{Tenant: "default", Actor: "boss", Reason: "asked for"}) {
		t.Errorf("%+v\n%s", g.webhooks.by, diff)
	}
	for body, places := range map[string][]string{
		`{}`: {"/url"}, `{"url":""}`: {"/url"}, `{"url":7,"events":"all","ordered":"no","secret":"x"}`: {"/events", "/ordered", "/secret", "/url"},
		`{"url":"u","events":["command.pending"],"upstreams":[7]}`: {"/events/0", "/upstreams/0"},
	} {
		p := g.do("POST", "/v1/webhooks", sending(body)).want(422).problem(ProblemCodeInvalidRequest)
		if got := slices.Sorted(slices.Values(pointers(p))); !slices.Equal(got, places) {
			t.Errorf("%s points at %q", body, got)
		}
	}
}

func TestReadWebhooks(t *testing.T) {
	g := newRig(t)
	g.webhooks.endpoint.DisabledAt = nil
	r := g.do("GET", "/v1/webhooks/"+someID.String()).want(200)
	var e Webhook
	if r.decode(&e); e.Disabled != nil || e.Verified != nil || r.header.Get("ETag") != `"4"` {
		t.Errorf("%s", r.body)
	}
	var list WebhookList
	if g.do("GET", "/v1/webhooks").want(200).decode(&list); len(list.Data) != 1 || list.NextCursor != nil {
		t.Errorf("%+v", list)
	}
	g.do("GET", "/v1/webhooks/x").want(400).problem(ProblemCodeInvalidParameter)
	for _, secret := range []string{"exk_read", "exk_write", "exk_judge"} {
		g.do("GET", "/v1/webhooks", as(secret)).want(403)
	}
	g.webhooks.err = webhooks.ErrNotFound
	g.do("GET", "/v1/webhooks/"+someID.String()).want(404).problem(ProblemCodeNotFound)
}

func TestUpdateWebhook(t *testing.T) {
	g := newRig(t)
	path := "/v1/webhooks/" + someID.String()
	patch := func(body string, options ...askOption) *reply {
		t.Helper()
		return g.do("PATCH", path, append([]askOption{sending(body)}, options...)...)
	}
	patch(`{"url":"https://b.example/","description":"","events":[],"upstreams":["ledger"],"ordered":false,"disabled":true,"reason":"moved"}`, with(versionHeader, "4")).want(200)
	url, none, events, names, no, yes := "https://b.example/", "", []string{}, []string{"ledger"}, false, true
	want := webhooks.Changes{URL: &url, Description: &none, Events: &events, Upstreams: &names, Ordered: &no, Disabled: &yes}
	if diff := cmp.Diff(want, g.webhooks.changes); diff != "" || g.webhooks.version != 4 || g.webhooks.by.Reason != "moved" {
		t.Errorf("version %d, %+v\n%s", g.webhooks.version, g.webhooks.by, diff)
	}
	patch(`{"url":null,"disabled":false}`).want(200)
	if diff := cmp.Diff(webhooks.Changes{Disabled: &no}, g.webhooks.changes); diff != "" || g.webhooks.version != 0 {
		t.Errorf("version %d\n%s", g.webhooks.version, diff)
	}
	for _, nothing := range []string{`{}`, `{"reason":"r"}`, `{"url":null}`} {
		patch(nothing).want(422).problem(ProblemCodeInvalidRequest)
	}
	patch(`{"ordered":1}`).want(422)
	patch(`{"ordered":true}`, with(versionHeader, "*")).want(400).problem(ProblemCodeInvalidParameter)
	g.webhooks.err = &webhooks.Stale{Version: 5}
	if p := patch(`{"ordered":true}`, with(versionHeader, `"4"`)).want(412).problem(ProblemCodePreconditionFailed); p.CurrentVersion != 5 {
		t.Errorf("%+v", p)
	}
	g.webhooks.err = &webhooks.Invalid{Field: "url", Code: "invalid_url", Detail: "No."}
	if p := patch(`{"url":"ftp://x"}`).want(422).problem(ProblemCodeInvalidRequest); p.Errors[0].Pointer != "/url" {
		t.Errorf("%+v", p)
	}
}

func TestDeleteWebhook(t *testing.T) {
	g := newRig(t)
	path := "/v1/webhooks/" + someID.String()
	if r := g.do("DELETE", path).want(204); len(r.body) != 0 || g.webhooks.version != 0 {
		t.Errorf("a 204 with %s", r.body)
	}
	if g.do("DELETE", path, with(versionHeader, `"4"`)).want(204); g.webhooks.version != 4 {
		t.Errorf("version %d", g.webhooks.version)
	}
	g.do("DELETE", path, sending(`{"reason":"r"}`)).want(422)
	g.webhooks.err = webhooks.ErrNotFound
	g.do("DELETE", path).want(404)
}

func TestRotateWebhookSecret(t *testing.T) {
	g := newRig(t)
	path := "/v1/webhooks/" + someID.String() + "/secrets"
	var e WebhookWithSecret
	if g.do("POST", path, sending(`{}`)).want(200).decode(&e); e.Secret != "whsec_newer" || g.webhooks.overlap != 24*time.Hour {
		t.Errorf("%+v after %s", e, g.webhooks.overlap)
	}
	if g.do("POST", path, sending(`{"overlap":"0s","reason":"leaked"}`)).want(200); g.webhooks.overlap != 0 || g.webhooks.by.Reason != "leaked" {
		t.Errorf("%s, %+v", g.webhooks.overlap, g.webhooks.by)
	}
	g.do("POST", path, sending(`{"overlap":"-1s"}`)).want(422)
	g.do("POST", path, sending(`{"overlap":3}`)).want(422)
}

func TestRefusalsOfWebhooks(t *testing.T) {
	g := newRig(t)
	for _, code := range []ProblemCode{
		ProblemCodeWebhookUnverified, ProblemCodeWebhookVerified, ProblemCodeWebhookChallenge, ProblemCodeNoSealingKey, ProblemCodeWebhookExists, ProblemCodeTooManyWebhooks, ProblemCodeTooManySecrets, ProblemCodeWebhookDisabled, ProblemCodeWebhookGone,
	} {
		g.webhooks.err = &webhooks.Refused{Code: string(code), Detail: "No."}
		g.do("POST", "/v1/webhooks", sending(`{"url":"https://a.example/"}`)).want(409).problem(code)
	}
}

func TestChallengeWebhook(t *testing.T) {
	g := newRig(t)
	path := "/v1/webhooks/" + someID.String() + "/challenge"
	if r := g.do("POST", path).want(202); r.header.Get("Location") != "/v1/webhook-deliveries/"+g.webhooks.account.ID.String() || g.webhooks.by.Actor != "boss" {
		t.Errorf("%s with %v by %+v", r.body, r.header, g.webhooks.by)
	}
	g.do("POST", path, sending(`{"reason":"r"}`)).want(422)
	g.do("POST", path, as("exk_write")).want(403)
	g.webhooks.err = &webhooks.Busy{What: "challenges", Again: 1500 * time.Millisecond}
	if r := g.do("POST", path).want(429); r.header.Get("Retry-After") != "2" || r.problem(ProblemCodeWebhookBusy).Detail == "" {
		t.Errorf("%s with %v", r.body, r.header)
	}
	g.webhooks.err, g.webhooks.endpoint.VerifiedAt, g.webhooks.endpoint.VerifiedBy = nil, &someTime, webhooks.VerifiedByPerson
	var e Webhook
	if g.do("GET", "/v1/webhooks/"+someID.String()).want(200).decode(&e); e.Verified == nil || e.Verified.By != "person" || !e.Verified.At.Equal(someTime) {
		t.Errorf("%+v", e.Verified)
	}
}
