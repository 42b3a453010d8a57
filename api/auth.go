package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"executor/internal/apikeys"
)

// Authenticator finds the key of a secret; an apikeys.Store is one.
// apikeys.ErrUnknown means that there is none.
type Authenticator interface {
	Authenticate(ctx context.Context, secret string) (apikeys.Key, error)
}

// authorize finds who asks, and whether they may, and not too often.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, scope Scope) (apikeys.Key, error) {
	secret, given := bearer(r.Header)
	if err := s.strangers.pass(w, r, secret); err != nil {
		return apikeys.Key{}, err
	}
	if !given {
		s.strangers.failed(r, secret)
		return apikeys.Key{}, unauthorized(`Bearer realm="executor"`, "The request carries no API key. Send Authorization: Bearer exk_…")
	}
	key, err := s.keys.Authenticate(r.Context(), secret)
	if errors.Is(err, apikeys.ErrUnknown) {
		s.strangers.failed(r, secret)
		return apikeys.Key{}, unauthorized(`Bearer realm="executor", error="invalid_token"`, "The API key is unknown or was revoked.")
	}
	if err != nil {
		return apikeys.Key{}, err
	}
	s.strangers.welcome(secret)
	if err := s.keyRate.ofKey(w, key); err != nil {
		return apikeys.Key{}, err
	}
	if !key.Allows(apikeys.Scope(scope)) {
		return apikeys.Key{}, &failure{
			code: ProblemCodeMissingScope, detail: fmt.Sprintf("The API key %q lacks the scope %s.", key.Name, scope),
			headers: map[string]string{"WWW-Authenticate": fmt.Sprintf(`Bearer realm="executor", error="insufficient_scope", scope="%s"`, scope)},
		}
	}
	return key, nil
}

// bearer reads the credentials of RFC 6750. The scheme's case does not matter.
func bearer(h http.Header) (secret string, given bool) {
	values := h["Authorization"]
	if len(values) != 1 {
		return "", false
	}
	scheme, secret, found := strings.Cut(values[0], " ")
	return strings.TrimLeft(secret, " "), found && strings.EqualFold(scheme, "Bearer")
}

func unauthorized(challenge, detail string) error {
	return &failure{code: ProblemCodeUnauthorized, detail: detail, headers: map[string]string{"WWW-Authenticate": challenge}}
}
