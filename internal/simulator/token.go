package simulator

import (
	"fmt"
	"net/http"
	"strings"
)

// issueToken is the client credentials grant of OAuth 2.0 (RFC 6749, 4.4). Any
// client is welcome.
func issueToken(x *exchange, _ claim) answer {
	s := x.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	token := fmt.Sprintf("sim-token-%d", s.ids)
	s.tokens.set(token, true)
	return jsonAnswer(http.StatusOK, map[string]any{
		"access_token": token, "token_type": "Bearer", "expires_in": int(s.cfg.TokenLife.Seconds()),
	}).with("Cache-Control", "no-store")
}

// freshToken says whether the request's token is good. The one that comes with
// the first attempt counts as expired from then on.
func (x *exchange) freshToken() bool {
	token := strings.TrimPrefix(x.head.Header.Get("Authorization"), "Bearer ")
	s := x.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.attempt == 1 {
		s.tokens.set(token, false)
	}
	good, _ := s.tokens.get(token)
	return good
}

func unauthorized() answer {
	return problem(http.StatusUnauthorized, "invalid_token", "The access token has expired.").with("WWW-Authenticate", `Bearer error="invalid_token"`)
}
