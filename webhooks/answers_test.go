package webhooks

import (
	"net/netip"
	"testing"
	"time"
	"unicode"

	"executor/internal/egress"
	"executor/internal/testkit/hostile/answers"
)

// TestHostileReceiversAreBounded in time and memory, and what is kept of what they
// say prints.
func TestHostileReceiversAreBounded(t *testing.T) {
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	sender := newSender(egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), nil), allow, 100*time.Millisecond, nil)
	answers.Bounded(t, 1<<20, func(t *testing.T, answer, address string) {
		saw := sender.send(t.Context(), jobFor("http://"+address))
		for _, kept := range []seen{saw, saw.told(true), saw.told(false)} {
			for _, text := range []string{kept.detail, kept.excerpt} {
				for _, c := range text {
					if !unicode.IsPrint(c) && c != '\n' || c == unicode.ReplacementChar {
						t.Errorf("%s: %q is kept", answer, text)
						break
					}
				}
				if len(text) > maxExcerpt {
					t.Errorf("%s: %d bytes are kept", answer, len(text))
				}
			}
		}
		if (saw.status >= 200 && saw.status <= 299) != (saw.failure == FailureNone) {
			t.Errorf("%s: status %d, %q", answer, saw.status, saw.failure)
		}
	})
}
