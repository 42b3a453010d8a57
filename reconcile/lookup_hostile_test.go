package reconcile

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"executor/internal/egress"
	"executor/internal/testkit/hostile"
	"executor/outcome"
	"executor/upstreams"
)

// hostileProfile allows Home alone, and has a credential.
func hostileProfile(t *testing.T) *upstreams.Profile {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", fmt.Appendf(nil, `version: 1
upstream: up
base_url: http://%s:%s
egress: {allow: [%s]}
auth: {type: bearer, token: env:EXECUTOR_SECRET_LOOKUP}
timeouts: {connect: 1s, tls: 1s, response_header: 1s, total: 2s}
operations: {pay: {method: POST, path: /payments}}
`, hostile.Home, hostile.HomePort, hostile.Allow()[0]))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hostileInquiry is a question by the profile to what is at u instead.
func hostileInquiry(p *upstreams.Profile, u *url.URL, proxy string) inquiry {
	moved := *p
	moved.Base, moved.Egress.Proxy = u, proxy
	o, _ := moved.Operation("pay")
	return inquiry{upstreamID: 1, profile: &moved, operation: o, limits: moved.Limits, request: upstreams.Request{Method: "GET", Path: "/payments?x=1"}, hold: hold{until: time.Now().Add(time.Hour)}}
}

func hostileLooker(t *testing.T) looker {
	t.Helper()
	guard := egress.NewGuard(egress.GuardConfig{})
	return looker{
		dialer: egress.NewDialer(guard, hostile.Resolver(t)),
		access: upstreams.NewAccess(egress.NewSecrets(func(string) string { return "the-secret-of-lookups" }, ""), nil),
	}
}

// TestNoLookupReachesAHostileTarget goes below the profile: the dial is the
// control that counts. A proxy is dialled under the same rules.
func TestNoLookupReachesAHostileTarget(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		l, profile := hostileLooker(t), hostileProfile(t)
		home := &url.URL{Scheme: "http", Host: hostile.Home.String() + ":" + hostile.HomePort}
		times := map[bool]int{true: 4, false: 1} // only a name can be bound anew
		for _, target := range hostile.Targets(t) {
			traps.Watch(target.String(), func() {
				if u, err := url.Parse(target.Through("http", "lookup")); err == nil {
					for range times[target.IsName()] {
						if r := l.ask(t.Context(), hostileInquiry(profile, u, "")); r.category == outcome.CategoryNone {
							t.Errorf("%s answered %d", target, r.status)
						}
					}
				}
				if r := l.ask(t.Context(), hostileInquiry(profile, home, target.Through("http", "proxy"))); r.category == outcome.CategoryNone {
					t.Errorf("the proxy %s answered %d", target, r.status)
				}
			})
		}
	})
}

// TestALookupFollowsNoRedirect wherever it leads, and takes no credential there.
func TestALookupFollowsNoRedirect(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		l, profile := hostileLooker(t), hostileProfile(t)
		traps.Redirects(func(home *url.URL, status int, what string) {
			if r := l.ask(t.Context(), hostileInquiry(profile, home, "")); r.status != status || r.category != outcome.CategoryNone {
				t.Errorf("%s: %d %s %s", what, r.status, r.category, r.detail)
			}
		})
	})
}
