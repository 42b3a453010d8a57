package egress

import (
	"fmt"
	"net/http"
	"testing"

	"executor/internal/testkit/hostile"
)

func hostileTokens(t *testing.T) *Tokens {
	t.Helper()
	return NewTokens(TokensConfig{Guard: NewGuard(GuardConfig{}), Resolver: hostile.Resolver(t), FailureHold: -1})
}

func hostileRequest(url string) TokenRequest {
	return TokenRequest{Key: url, URL: url, ClientID: NewSecret("client"), ClientSecret: NewSecret("the-secret-of-the-client"), Allow: hostile.Allow()}
}

func TestNoTokenIsAskedForAtAHostileTarget(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		tokens := hostileTokens(t)
		for _, target := range hostile.Targets(t) {
			traps.Watch(target.String(), func() {
				for range 4 { // rebinding needs several
					if _, err := tokens.Token(t.Context(), hostileRequest(target.Through("http", "token"))); err == nil {
						t.Errorf("%s gave a token", target)
					}
				}
			})
		}
	})
}

func TestATokenRequestFollowsNoRedirect(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		tokens, home := hostileTokens(t), "http://"+hostile.Home.String()+":"+hostile.HomePort
		statuses := []int{301, 302, 303, 307, 308}
		for i, location := range append(hostile.Targets(t), hostile.Target{URL: home + "/other", Why: "same host"}) {
			status := statuses[i%len(statuses)]
			traps.Answer(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Location"] = []string{location.Through("http", "redirect")}
				w.WriteHeader(status)
			})
			before := traps.Home()
			traps.Watch(fmt.Sprintf("%d to %s", status, location), func() {
				if _, err := tokens.Token(t.Context(), hostileRequest(home)); err == nil {
					t.Errorf("%d to %s gave a token", status, location)
				}
			})
			if n := traps.Home() - before; n != 1 {
				t.Fatalf("%d to %s: %d connections", status, location, n)
			}
		}
	})
}
