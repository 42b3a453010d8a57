package egress_test

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"

	"executor/internal/egress"
	"executor/internal/testkit/hostile/answers"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// TestHostileAnswersAreBounded in time and memory, for the client that lookups and
// webhooks use.
func TestHostileAnswersAreBounded(t *testing.T) {
	client := egress.NewClient(egress.ClientConfig{
		Dialer: egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), nil), Allow: loopback, HeaderBytes: 64 << 10,
	})
	answers.Bounded(t, 1<<20, func(t *testing.T, answer, address string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
		if err != nil {
			t.Error(err)
			return
		}
		res, err := client.Do(req)
		if err != nil {
			return
		}
		defer res.Body.Close()
		if body, _ := egress.ReadBody(res.Body, 64<<10); len(body) > 64<<10 {
			t.Errorf("%s: %d bytes were read", answer, len(body))
		}
	})
}

// TestHostileTokenAnswersAreBounded, and what is said of them prints.
func TestHostileTokenAnswersAreBounded(t *testing.T) {
	tokens := egress.NewTokens(egress.TokensConfig{Guard: egress.NewGuard(egress.GuardConfig{}), Timeout: 100 * time.Millisecond})
	secret := egress.NewSecret("a secret of some length")
	answers.Bounded(t, 1<<20, func(t *testing.T, answer, address string) {
		_, err := tokens.Token(t.Context(), egress.TokenRequest{Key: answer, URL: "http://" + address, ClientID: secret, ClientSecret: secret, Allow: loopback})
		switch {
		case err == nil:
			t.Errorf("%s: taken for a token", answer)
		case len(err.Error()) > 1000, strings.ContainsFunc(err.Error(), func(c rune) bool { return !unicode.IsPrint(c) }):
			t.Errorf("%s: %q", answer, err)
		}
	})
}
