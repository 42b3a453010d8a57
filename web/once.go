package web

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"executor/internal/seal"
)

// keepOnce keeps a new secret for the next page about something, which shows it
// once. The session's row holds it sealed under the session's token, and the token
// is only in the browser: what is in the database opens nothing. What it is about has
// a name without blanks.
func (v *visit) keepOnce(about, secret string) error {
	box, err := v.onceBox()
	if err != nil {
		return err
	}
	sealed := base64.StdEncoding.EncodeToString(box.Seal([]byte(secret), about))
	v.server.cookies.Put(v.r.Context(), sessionSecret, about+" "+sealed)
	return nil
}

// takeOnce takes the secret that was kept for the page about something; "" for
// none. Asking for the headers alone shows nothing and takes nothing.
func (v *visit) takeOnce(about string) string {
	ctx := v.r.Context()
	place, sealed, _ := strings.Cut(v.server.cookies.GetString(ctx, sessionSecret), " ")
	if place != about || v.r.Method == http.MethodHead {
		return ""
	}
	v.server.cookies.Remove(ctx, sessionSecret)
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return ""
	}
	box, err := v.onceBox()
	if err != nil {
		return ""
	}
	secret, err := box.Open(raw, about)
	if err != nil { // of another session
		return ""
	}
	return string(secret)
}

func (v *visit) onceBox() (*seal.Box, error) {
	key := sha256.Sum256([]byte("shown once: " + v.server.cookies.Token(v.r.Context())))
	return seal.New(key[:])
}
