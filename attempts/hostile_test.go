//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package attempts

import (
	"net/netip"
	"net/url"
	"testing"
	"time"

	"executor/internal/egress"
	"executor/internal/testkit/hostile"
	"executor/outcome"
	"executor/upstreams"
)

// hostileSender dials as the program does, by the names of the hostile name server.
func hostileSender(t *testing.T) *Sender {
	t.Helper()
	s := NewSender(SenderConfig{Guard: egress.NewGuard(egress.GuardConfig{}), Resolver: hostile.Resolver(t)})
	t.Cleanup(s.Close)
	return s
}

// towards is a target that may reach Home alone.
func towards(u *url.URL) Target {
	return Target{
		UpstreamID: 1, Version: 1, Base: u, Allow: hostile.Allow(), Fresh: true,
		Timeouts: upstreams.Timeouts{Connect: time.Second, TLS: time.Second, ResponseHeader: time.Second, Total: 2 * time.Second},
	}
}

// TestNoAttemptReachesAHostileTarget goes below the profile, which refuses most of
// these URLs: the dial is the control that counts.
func TestNoAttemptReachesAHostileTarget(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		s := hostileSender(t)
		for _, target := range hostile.Targets(t) {
			u, err := url.Parse(target.Through("http", "attempt"))
			if err != nil {
				continue
			}
			traps.Watch(target.String(), func() {
				for range 4 { // rebinding needs several
					conn, o, ok := s.Dial(t.Context(), towards(u))
					if ok {
						s.Send(t.Context(), conn, payment(), open, soon())
					} else if o.Evidence != outcome.EvidenceNotSent || o.Category == outcome.CategoryNone {
						t.Errorf("%s: %s", target, describe(o))
					}
				}
			})
		}
	})
}

// TestARedirectIsAnAnswer wherever it leads.
func TestARedirectIsAnAnswer(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		s := hostileSender(t)
		traps.Redirects(func(home *url.URL, status int, _ string) {
			want{outcome.EvidenceResponseReceived, outcome.StageDone, outcome.CategoryNone, status}.check(t, attempt(t, s, towards(home), payment()))
		})
	})
}

var (
	ownAddresses = []netip.AddrPort{netip.MustParseAddrPort("[::]:80"), netip.MustParseAddrPort("127.0.0.1:1999")}
	everything   = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	// aliases of this machine; the name server says that unknown names are loopback.
	aliases = []string{
		"127.0.0.1", "127.0.0.2", "127.99.99.1", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::ffff:0.0.0.0]", "localhost",
		"name.of.this.machine", "2130706433", "127.1", "0x7f000001",
	}
)

// TestNothingOfOursIsDialledUnderAnyName: whatever a profile allows, and under
// every address of this machine.
func TestNothingOfOursIsDialledUnderAnyName(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		guard := egress.NewGuard(egress.GuardConfig{})
		guard.RefuseOwn(ownAddresses...)
		s := NewSender(SenderConfig{Guard: guard, Resolver: hostile.Resolver(t)})
		t.Cleanup(s.Close)
		for _, port := range []string{"80", "1999"} {
			for _, host := range aliases {
				target := towards(&url.URL{Scheme: "http", Host: host + ":" + port})
				target.Allow = everything
				traps.Watch(host, func() {
					if _, o, ok := s.Dial(t.Context(), target); ok || o.Category == outcome.CategoryNone {
						t.Errorf("%s: dialled, %s", host, describe(o))
					}
				})
			}
		}
	})
}
