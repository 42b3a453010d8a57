//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/client"
	"executor/internal/testkit"
)

// oauth is a profile whose tokens come from the simulator.
var oauth = settings{"auth": "{type: oauth2_client_credentials, token_url: '{sim}/oauth/token', client_id: me, client_secret: file:client-secret}"}

// bearer is a profile with a fixed token.
var bearer = settings{"auth": "{type: bearer, token: file:token}"}

const (
	unauthorized = "response_received refused 401"
	noToken      = "not_sent auth_failure"
)

// credentialStories are about tokens that expire, and about what must not be seen.
func credentialStories() []story {
	return []story{
		{name: "401 and a fresh token, keyed", kind: "keyed", meets: "expired_token", profile: oauth,
			attempts: []string{unauthorized, created}, ends: "success applied applied", effects: 1, check: refreshedOnce},
		{name: "401 and a fresh token, natural", kind: "natural", meets: "expired_token", profile: oauth,
			attempts: []string{unauthorized, done}, ends: "success applied applied", effects: 1, check: refreshedOnce},
		{name: "401 and a fresh token, safe", kind: "safe", meets: "expired_token", profile: oauth,
			attempts: []string{unauthorized, done}, ends: "success applied applied", check: refreshedOnce},
		{name: "401 and what must not be repeated", kind: "none", meets: "expired_token", profile: oauth,
			attempts: []string{unauthorized}, ends: "rejected refused refused"},
		{name: "401 and a fresh token that is refused as well", kind: "keyed", meets: "status=401", profile: oauth,
			attempts: []string{unauthorized, unauthorized}, ends: "rejected refused refused"},
		{name: "401 after a doubt, and a fresh token", kind: "keyed", profile: oauth,
			script:   answers("", testkit.Reply(401, `{}`), testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{lost, unauthorized, created}, ends: "success applied applied"},
		{name: "401 without a token to refresh", kind: "keyed", meets: "status=401",
			attempts: []string{unauthorized}, ends: "rejected refused refused"},
		{name: "401 that the profile calls unclear", kind: "none", meets: "status=401", operation: ruled("{when: status == 401, answer: unclear}"),
			attempts: []string{"response_received unclear 401"}, ends: "unresolved unclear_response status_denied"},
		{name: "no token to be had", kind: "none", meets: "commit",
			profile:  settings{"auth": "{type: oauth2_client_credentials, token_url: '{sim}/oauth/none', client_id: me, client_secret: file:client-secret}"},
			attempts: []string{noToken, noToken, noToken}, ends: "cancelled never_sent max_attempts"},

		{name: "a token that the answer repeats where it is expected", kind: "none", profile: bearer, script: echo,
			operation: settings{"redact": "{headers: [X-Echo], response: [/headers]}"},
			attempts:  []string{created}, ends: "success applied applied", check: authorised("Authorization", "Bearer hush-token-1")},
		{name: "a token that the answer repeats unexpectedly", kind: "none", profile: bearer, script: echo,
			attempts: []string{created}, ends: "success applied applied", check: authorised("Authorization", "Bearer hush-token-1")},
		{name: "a token that a refusal repeats", kind: "none", profile: settings{"auth": "{type: header, name: X-Api-Key, value: file:token}"},
			script: func(p *peer) {
				q, _ := p.ReadRequest()
				p.Send(testkit.Reply(403, `{"error":{"code":"no","message":"unknown key `+q.Header.Get("X-Api-Key")+`"}}`))
			},
			attempts: []string{"response_received refused 403"}, ends: "rejected refused refused", check: authorised("X-Api-Key", "hush-token-1")},
		{name: "secrets of the upstream's own", kind: "none", operation: settings{"result": "{reference: json.id, headers: [Set-Cookie]}", "redact": "{response: [/secret]}"},
			script:   answers(response("201 Created", "Set-Cookie: session=hush-cookie-4\r\n", `{"id":"p1","secret":"hush-answer-5"}`)),
			attempts: []string{created}, ends: "success applied applied", check: func(t *testing.T, o told) { o.reference(t, "p1") }},
		{name: "a missing secret that does not come", kind: "none", meets: "commit", profile: settings{"auth": "{type: bearer, token: file:not-there}"},
			change: shortly, ends: "cancelled never_sent deadline", check: func(t *testing.T, o told) {
				if waited := o.command.Outcome.Common().WaitedFor; waited != "credential" {
					t.Errorf("it is told that it waited for %q", waited)
				}
			}},
	}
}

// echo answers with the headers of the request, as error pages do.
func echo(p *peer) {
	q, _ := p.ReadRequest()
	token := q.Header.Get("Authorization")
	p.Send(response("201 Created", "X-Echo: "+token+"\r\nContent-Type: application/json\r\n", `{"id":"p1","headers":"Authorization: `+token+`"}`))
}

// refreshedOnce: the second request had another token than the first, and said so.
func refreshedOnce(t *testing.T, o told) {
	t.Helper()
	if got := o.record[0]; got.Decision != "retry" || got.Reason != "auth_refresh" {
		t.Errorf("after the 401 it was decided %s %s", got.Decision, got.Reason)
	}
}

// authorised: the upstream got the credential, and the record says only that there
// was one.
func authorised(name, value string) func(*testing.T, told) {
	return func(t *testing.T, o told) {
		t.Helper()
		if got := o.wire[0].header.Get(name); got != value {
			t.Errorf("the upstream got %s %q, want %q", name, got, value)
		}
		if !slices.Contains(o.record[0].Request.Headers, client.Header{Name: name, Value: "[redacted]"}) {
			t.Errorf("on record are %v", o.record[0].Request.Headers)
		}
	}
}

// secretComesLater begins the story of a command whose secret is not there yet; the
// rest of it takes a while, since a missing secret is looked for now and then.
func (s *stage) secretComesLater(t *testing.T) func(*testing.T) {
	t.Helper()
	pl := s.one(t, story{
		name: "a missing secret that comes", kind: "none", profile: settings{"auth": "{type: bearer, token: file:later}"},
		script: answers(testkit.Reply(201, `{"id":"p1"}`)), attempts: []string{created}, ends: "success applied applied",
		check: authorised("Authorization", "Bearer hush-later-3"),
	})
	r := pl.submit(t)
	if c := r.waitsFor(t, "credential"); c.Record.Attempts != 0 || c.State != client.StatePending {
		t.Errorf("without its secret it is %s", c.JSON())
	}
	s.hidden = append(s.hidden, s.secret("later", "hush-later-3"))
	return func(t *testing.T) { r.end(t) }
}

// rotated: each attempt looks its credential up anew.
func (s *stage) rotated(t *testing.T) {
	h := newHolding()
	s.hidden = append(s.hidden, s.secret("rotated", "hush-old-6"))
	r := s.one(t, story{
		name: "rotated between attempts", kind: "keyed", profile: settings{"auth": "{type: bearer, token: file:rotated}"}, script: h.script,
		attempts: []string{lost, created}, ends: "success applied applied",
	}).submit(t)
	r.onTheWire(t)
	s.hidden = append(s.hidden, s.secret("rotated", "hush-new-7"))
	h.answer <- ""
	h.answer <- testkit.Reply(201, `{"id":"p1"}`)
	o := r.end(t)
	for i, want := range []string{"Bearer hush-old-6", "Bearer hush-new-7"} {
		if got := o.wire[i].header.Get("Authorization"); got != want {
			t.Errorf("request %d carried %q, want %q", i+1, got, want)
		}
	}
}

// nothingLeaked looks for secrets where they could have got to unseen by the API.
func (s *stage) nothingLeaked(t *testing.T) {
	_, metrics := get(t, s.process.MetricsURL()+"/metrics")
	for _, secret := range s.hidden {
		if strings.Contains(s.process.stderr.String()+metrics, secret) {
			t.Errorf("the log or the metrics hold %q", secret)
		}
	}
	pool := testkit.Open(t, s.env["EXECUTOR_DATABASE_URL"])
	for _, table := range []string{"commands", "command_requests", "attempts", "events", "findings", "upstreams", "upstream_versions", "river_job"} {
		for _, secret := range among(t, pool, table, s.hidden) {
			t.Errorf("rows of %s hold %q", table, secret)
		}
	}
}

// among finds those texts that stand in the rows of a table, in the clear or within
// bytes.
func among(t *testing.T, pool *pgxpool.Pool, table string, texts []string) []string {
	t.Helper()
	rows, _ := pool.Query(bounded(t), `
		WITH written AS MATERIALIZED (SELECT r::text AS row FROM `+table+` AS r)
		SELECT DISTINCT secret FROM written, unnest($1::text[]) AS secret
		WHERE position(secret IN row) > 0 OR position(encode(secret::bytea, 'hex') IN row) > 0`, texts)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// proxyUnused: only a profile can name a proxy.
func (s *stage) proxyUnused(t *testing.T) {
	if n := s.proxy.Connections(); n > 0 {
		t.Errorf("it was connected to %d times", n)
	}
}
