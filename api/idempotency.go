package api

import (
	"net/http"
	"strings"
)

// keyHeader carries the idempotency key of a submit.
const keyHeader = "Idempotency-Key"

// idempotencyKey reads the key of a submit: a structured-field string (RFC 9651)
// or the bare characters; both name the same key.
func idempotencyKey(h http.Header) (string, error) {
	values := h[keyHeader]
	if len(values) == 0 {
		return "", badHeader(ProblemCodeMissingIdempotencyKey, keyHeader, "A submit needs the header Idempotency-Key.")
	}
	key, ok := strings.Trim(values[0], " \t"), true
	if strings.HasPrefix(key, `"`) {
		key, ok = unquote(key)
	}
	if !ok || len(values) > 1 || len(key) > maxKey || !printable(key) {
		return "", badHeader(ProblemCodeInvalidIdempotencyKey, keyHeader,
			"The header Idempotency-Key is given once and has 1 to 255 printable ASCII characters, bare or in quotes.")
	}
	return key, nil
}

// unquote decodes a structured-field string. Parameters behind it are not taken.
func unquote(s string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}
