package egress

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/url"
)

const redacted = "[redacted]"

// Secret is a credential that does not print: not through fmt, json, text
// encodings or slog, and not from within another type. Only Reveal gives it out.
// The zero Secret is empty.
type Secret struct {
	value *string // behind a pointer, because fmt prints unexported fields without asking
}

// NewSecret wraps a value.
func NewSecret(value string) Secret { return Secret{&value} }

// Reveal returns the credential itself. It belongs on the wire and nowhere else.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Empty reports whether there is nothing in it.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// Equal compares the credentials, not the wrappers.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

func (s Secret) String() string               { return redacted }
func (s Secret) GoString() string             { return redacted }
func (s Secret) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, redacted) }
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }

// maskable is the shortest secret that Mask looks for: a shorter one would also
// be found where it is not.
const maskable = 8

// Mask returns body with every trace of the secrets taken out, as they are, URL
// encoded and in base64, for what an upstream echoes. It returns body itself if
// there is none.
func Mask(body []byte, secrets ...Secret) []byte {
	for _, s := range secrets {
		value := s.Reveal()
		if len(value) < maskable {
			continue
		}
		for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value),
			base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)),
			base64.RawStdEncoding.EncodeToString([]byte(value)), base64.RawURLEncoding.EncodeToString([]byte(value))} {
			if bytes.Contains(body, []byte(form)) {
				body = bytes.ReplaceAll(body, []byte(form), []byte(redacted))
			}
		}
	}
	return body
}
