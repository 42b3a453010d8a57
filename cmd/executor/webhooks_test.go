package main

import (
	"slices"
	"strings"
	"testing"
)

const (
	hookJSON = `{"id": "w1", "url": "https://shop.example/h", "description": "the shop", "events": ["command.success"], "upstreams": [], "ordered": true, "version": 3, "disabled": null, "failing_since": "2026-12-01T10:00:00Z", "verified": {"at": "2026-11-01T10:00:00Z", "by": "challenge"},
		"secrets": [{"id": "s2", "created_at": "2026-12-01T10:00:00Z", "expires_at": null}, {"id": "s1", "created_at": "2026-11-01T10:00:00Z", "expires_at": "2026-12-02T10:00:00Z"}],
		"created_at": "2026-11-01T10:00:00Z", "updated_at": "2026-12-01T10:00:00Z"%SECRET}`
	deliveredJSON = `{"id": "d1", "webhook_id": "w1", "event_id": "e1", "type": "webhook.test", "command_id": null, "sequence": 0, "at": "2026-12-01T10:00:00Z", "state": "%STATE",
		"held_until": null, "next_at": null, "ended_at": null, "tries": %TRIES, "status": %STATUS, "failure": %FAILURE, "detail": "refused", "payload": {"type": "webhook.test"},
		"log": [{"number": 1, "at": "2026-12-01T10:00:00Z", "duration_ms": 12, "instance": "i", "status": %STATUS, "failure": %FAILURE, "detail": "refused", "excerpt": "no\u001b", "next_at": null}]}`
)

func hook(secret string) string {
	if secret != "" {
		secret = `, "secret": "` + secret + `"`
	}
	return strings.Replace(hookJSON, "%SECRET", secret, 1)
}

func delivery(state, tries, status, failure string) string {
	return strings.NewReplacer("%STATE", state, "%TRIES", tries, "%STATUS", status, "%FAILURE", failure).Replace(deliveredJSON)
}

func TestWebhooksOnTheWire(t *testing.T) {
	f := newFakeService(t)
	f.on("POST /v1/webhooks", 201, hook("whsec_x")).on("POST /v1/webhooks/w1/secrets", 200, hook("whsec_y"))
	f.on("GET /v1/webhooks/w1", 200, hook("")).on("PATCH /v1/webhooks/w1", 200, hook("")).on("DELETE /v1/webhooks/w1", 204)
	mute := strings.Replace(hook(""), `"secrets": [`, `"secrets": [], "was": [`, 1)
	f.on("GET /v1/webhooks/w2", 200, mute).on("GET /v1/webhooks", 200, `{"data": [`+hook("")+`], "next_cursor": null}`).on("POST /v1/webhooks/w1/redeliver", 202, `{"count": 3, "more": true}`)
	for _, tt := range []struct {
		args []string
		sent string
		says []string // on stdout and stderr
	}{
		{[]string{"create", "https://shop.example/h", "--events", "command.success,command.rejected", "--upstreams", "ledger", "--ordered", "--description", "the shop"},
			`POST /v1/webhooks {"url":"https://shop.example/h","description":"the shop","events":["command.success","command.rejected"],"upstreams":["ledger"],"ordered":true}`,
			[]string{"secret       whsec_x\n", "Keep the secret now"}},
		{[]string{"create", "https://shop.example/h", "--events", "all"}, `POST /v1/webhooks {"url":"https://shop.example/h"}`, nil},
		{[]string{"rotate", "w1"}, `POST /v1/webhooks/w1/secrets {"overlap":"24h0m0s"}`, []string{"secret       whsec_y\n", "Keep the secret now", "signs until 2026-12-02T10:00:00Z"}},
		{[]string{"rotate", "w1", "--overlap", "0", "--reason", "leaked"}, `POST /v1/webhooks/w1/secrets {"overlap":"0s","reason":"leaked"}`, nil},
		{[]string{"show", "w1"}, `GET /v1/webhooks/w1`, []string{"events       command.success\n", "upstreams    all\n", "sending      on\n", "verified     challenge, 2026-11-01T10:00:00Z\n", "failing      since 2026-12-01T10:00:00Z\n"}},
		{[]string{"show", "w2"}, `GET /v1/webhooks/w2`, []string{"sending      no secret to sign with: rotate it\n"}},
		{[]string{"update", "w1", "--to", "https://b.example", "--events", "all", "--ordered=false", "--description", ""},
			`PATCH /v1/webhooks/w1 {"url":"https://b.example","description":"","events":[],"ordered":false}`, nil},
		{[]string{"update", "w1", "--upstreams", "ledger"}, `PATCH /v1/webhooks/w1 {"upstreams":["ledger"]}`, nil},
		{[]string{"enable", "w1", "--reason", "r"}, `PATCH /v1/webhooks/w1 {"disabled":false,"reason":"r"}`, nil},
		{[]string{"disable", "w1"}, `PATCH /v1/webhooks/w1 {"disabled":true}`, nil},
		{[]string{"delete", "w1"}, `DELETE /v1/webhooks/w1`, []string{"Deleted"}},
		{[]string{"list"}, `GET /v1/webhooks`, []string{"w1  https://shop.example/h  command.success  all        yes      on       the shop\n"}},
		{[]string{"redeliver", "w1", "--since", "2026-12-01T00:00:00Z", "--until", "2026-12-02T00:00:00Z", "--state", "failed,delivered", "--reason", "r"},
			`POST /v1/webhooks/w1/redeliver {"since":"2026-12-01T00:00:00Z","until":"2026-12-02T00:00:00Z","states":["failed","delivered"],"reason":"r"}`, []string{"due again  3\n", "There are more"}},
	} {
		r := execute(t, f.env, append([]string{"webhooks"}, tt.args...)...).must(t, exitSuccess)
		f.wantAsked(t, tt.sent)
		for _, want := range tt.says {
			if !strings.Contains(r.stdout+r.stderr, want) {
				t.Errorf("%v: %q is not in\n%s%s", tt.args, want, r.stdout, r.stderr)
			}
		}
	}
}

// A test event is waited for until its first try is over, and the exit code tells.
func TestWebhooksTest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		later []string // the delivery, each time that it is read
		code  int
		want  string
	}{
		{"taken", []string{delivery("delivered", "1", "204", "null")}, exitSuccess, "state     delivered"},
		{"refused", []string{delivery("pending", "0", "null", "null"), delivery("pending", "1", "500", `"status"`)}, exitFailure, "did not take it: 500 status: refused"},
	} {
		f := newFakeService(t).on("POST /v1/webhooks/w1/test", 202, delivery("pending", "0", "null", "null"))
		f.on("POST /v1/webhooks/w1/challenge", 202, delivery("pending", "0", "null", "null"))
		f.on("POST /v1/webhook-deliveries/d1/redeliver", 202, delivery("pending", "0", "null", "null")).on("GET /v1/webhook-deliveries/d1", 200, tt.later...)
		for _, args := range [][]string{{"webhooks", "test", "w1"}, {"webhooks", "verify", "w1"}, {"deliveries", "redeliver", "d1"}} {
			r := execute(t, f.env, args...).must(t, tt.code)
			if !strings.Contains(r.stdout+r.stderr, tt.want) || strings.Contains(r.stdout, "\x1b") {
				t.Errorf("%s: %v:\n%s%s", tt.name, args, r.stdout, r.stderr)
			}
		}
	}
	f := newFakeService(t).on("POST /v1/webhooks/w1/test", 202, delivery("pending", "0", "null", "null"))
	execute(t, f.env, "webhooks", "test", "w1", "--wait", "0").must(t, exitSuccess)
	f.on("GET /v1/webhook-deliveries/d1", 200, delivery("pending", "0", "null", "null"))
	if r := execute(t, f.env, "webhooks", "test", "w1", "--wait", "50ms").must(t, exitStillRunning); !strings.Contains(r.stderr, "Not tried yet after 50ms") {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestDeliveriesOnTheWire(t *testing.T) {
	f := newFakeService(t).on("GET /v1/webhook-deliveries/d1", 200, delivery("failed", "1", "500", `"status"`))
	f.on("GET /v1/webhook-deliveries", 200, `{"data": [`+delivery("failed", "1", "500", `"status"`)+`], "next_cursor": null}`)
	r := execute(t, f.env, "deliveries", "list", "--webhook", "w1", "--command", "c1", "--type", "webhook.test", "--event", "e1", "--since", "2026-12-01T00:00:00Z", "--until", "2026-12-02T00:00:00Z", "--state", "failed,pending", "--limit", "7", "--cursor", "x").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "d1  2026-12-01T10:00:00Z  webhook.test  -        0         failed  1      500 status: refused  -\n") {
		t.Errorf("got\n%s", r.stdout)
	}
	f.wantAsked(t, "GET /v1/webhook-deliveries?command=c1&cursor=x&event=e1&limit=7&since=2026-12-01T00%3A00%3A00Z&state=failed&state=pending&type=webhook.test&until=2026-12-02T00%3A00%3A00Z&webhook=w1")
	r = execute(t, f.env, "deliveries", "show", "d1").must(t, exitSuccess)
	lines := strings.Split(r.stdout, "\n")
	for _, want := range []string{
		`payload   {"type":"webhook.test"}`,
		"TRY  STARTED               TOOK  ANSWER               RECEIVER SAID  NEXT  INSTANCE",
		"1    2026-12-01T10:00:00Z  12ms  500 status: refused  no             -     i",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not in\n%s", want, r.stdout)
		}
	}
}
