package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/clientaddr"
	"executor/reconcile"
)

// countedKeys counts how often a key was looked up.
type countedKeys struct {
	fakeKeys
	asked atomic.Int64
}

func (k *countedKeys) Authenticate(ctx context.Context, secret string) (apikeys.Key, error) {
	k.asked.Add(1)
	return k.fakeKeys.Authenticate(ctx, secret)
}

// until asks again until the answer has the status, and returns how many others
// came before it.
func (g *rig) until(status int, ask func() *reply) (r *reply, before int) {
	g.t.Helper()
	for began := time.Now(); time.Since(began) < patience; before++ {
		if r = ask(); r.status == status {
			return r, before
		}
	}
	g.t.Fatalf("no answer %d came", status)
	return nil, 0
}

// TestKeyRate: a key that asks too often is told so, and when to come again; others
// are not.
func TestKeyRate(t *testing.T) {
	g := newRig(t, func(c *Config) { c.KeyRate = 20 })
	ask := func(secret string) func() *reply {
		return func() *reply { return g.do("GET", "/v1/commands", as(secret)) }
	}
	first := ask("exk_admin")().want(200)
	if first.header.Get("RateLimit-Policy") != `"key";q=20;w=1` || first.header.Get("RateLimit") != `"key";r=19;t=1` {
		t.Errorf("%v", first.header)
	}
	refused, before := g.until(429, ask("exk_admin"))
	if refused.problem(ProblemCodeRateLimited); before < 19 || refused.header.Get("Retry-After") != "1" || refused.header.Get("RateLimit") != `"key";r=0;t=1` {
		t.Errorf("after %d more: %v", before, refused.header)
	}
	if p := refused.problem(ProblemCodeRateLimited); !strings.Contains(p.Detail, "boss") || !strings.Contains(p.Detail, "20") {
		t.Errorf("the detail names neither the key nor the limit: %s", p.Detail)
	}
	ask("exk_read")().want(200)
	g.do("GET", "/livez").want(200)
	g.until(200, ask("exk_admin"))
}

// TestStrangersAreSlow: who guesses keys costs no look-up any more after a while.
// Who shares their address goes on with a key that was good before.
func TestStrangersAreSlow(t *testing.T) {
	keys := &countedKeys{}
	g := newRig(t, func(c *Config) {
		keys.fakeKeys = c.Keys.(fakeKeys)
		c.Keys, c.AddressRate = keys, 10
	})
	list := func(options ...askOption) *reply { return g.do("GET", "/v1/commands", options...) }
	list(as("exk_read")).want(200)
	for range 10 {
		list(as("exk_guess")).want(401)
	}
	asked := keys.asked.Load()
	for range 5 {
		r := list(as("exk_guess")).want(429)
		if r.problem(ProblemCodeRateLimited); r.header.Get("Retry-After") != "60" {
			t.Errorf("Retry-After is %q", r.header.Get("Retry-After"))
		}
	}
	list(without("Authorization")).want(429)
	list(as("exk_admin")).want(429) // good, but never seen here before
	if n := keys.asked.Load(); n != asked {
		t.Errorf("%d keys were looked up for somebody who guesses", n-asked)
	}
	list(as("exk_read")).want(200)
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/openapi.yaml"} {
		g.do("GET", path, without("Authorization")).want(200)
	}
	g.do("POST", "/v1/notices/ledger", without("Authorization"), sending(`{}`)).want(429).problem(ProblemCodeRateLimited)
	delete(keys.fakeKeys, "exk_read") // revoked
	list(as("exk_read")).want(401)
	list(as("exk_read")).want(429)
}

// TestStrangersAreToldApart by the address that a trusted proxy names.
func TestStrangersAreToldApart(t *testing.T) {
	g := newRig(t, func(c *Config) { c.AddressRate = 3 })
	trusted := clientaddr.Proxies{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	g.http = httptest.NewServer(trusted.Handler(g.server.Routes()))
	t.Cleanup(g.http.Close)
	from := func(address string) *reply {
		return g.do("GET", "/v1/commands", as("exk_guess"), with("X-Forwarded-For", address))
	}
	for range 3 {
		from("2001:db8::1").want(401)
	}
	from("2001:db8::2").want(429) // of the same network
	from("2001:db8:0:1::1").want(401)
	from("2001:db8:0:1::1, 2001:db8::3").want(429)
}

// TestBadNoticesCount against the address that they come from; good ones do not.
func TestBadNoticesCount(t *testing.T) {
	g := newRig(t, func(c *Config) { c.AddressRate = 3 })
	notice := func() *reply {
		return g.do("POST", "/v1/notices/ledger", without("Authorization"), sending(`{}`))
	}
	for range 5 {
		notice().want(202)
	}
	for _, err := range []error{unverifiedNotice, reconcile.ErrNoNotices, unverifiedNotice} {
		g.notices.err = err
		notice().want(401)
	}
	notice().want(429)
}

// TestMeterForgets: what is counted is bounded by who came in the last two windows.
func TestMeterForgets(t *testing.T) {
	if m := newMeter("x", 0, time.Second); m != nil || m.full("a") {
		t.Error("no limit limits")
	}
	s := newStrangers(1)
	for i := range maxFamiliar + 5 {
		s.welcome(string(rune('a' + i)))
	}
	if len(s.familiar) > maxFamiliar {
		t.Errorf("%d keys are remembered", len(s.familiar))
	}
	off := newStrangers(0)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for range 3 {
		off.failed(r, "k")
	}
	if err := off.pass(httptest.NewRecorder(), r, "k"); err != nil || len(off.familiar) > 0 {
		t.Errorf("%v", err)
	}
}

// TestBacklogFull: a submit is told when to come again, and the log is not filled.
func TestBacklogFull(t *testing.T) {
	g := newRig(t)
	full := &commands.BacklogFull{Limit: 7}
	g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) {
		return commands.Accepted{}, full
	}
	r := g.submit("k", leastSubmit).want(503)
	if p := r.problem(ProblemCodeBacklogFull); r.header.Get("Retry-After") != "5" || !strings.Contains(p.Detail, "7") {
		t.Errorf("%v %s", r.header, r.body)
	}
	r = g.do("POST", "/v1/commands/batch", sending(`{"commands":[{"idempotency_key":"k","upstream":"u","operation":"o"}]}`)).want(200)
	if !strings.Contains(string(r.body), `"code":"backlog_full"`) || strings.Contains(g.log.String(), "backlog") {
		t.Errorf("%s, and the log has %s", r.body, g.log)
	}
}

// TestFilesUnavailable: a submit whose file cannot be read now may be repeated, is told
// which one, and nothing of this machine's folders.
func TestFilesUnavailable(t *testing.T) {
	g := newRig(t)
	g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) {
		return commands.Accepted{}, &commands.FilesUnavailable{Pointer: "/body_ref", Detail: "the tenant's folder is empty", Cause: errors.New("open /srv/bodies")}
	}
	r := g.submit("k", leastSubmit).want(503)
	p := r.problem(ProblemCodeNotAccepted)
	if r.header.Get("Retry-After") == "" || len(p.Errors) != 1 || p.Errors[0].Pointer != "/body_ref" || strings.Contains(string(r.body), "srv") {
		t.Errorf("%v %s", r.header, r.body)
	}
	if !strings.Contains(g.log.String(), "/srv/bodies") {
		t.Errorf("the log says only %s", g.log)
	}
}
