package upstreams

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"executor/internal/egress"
)

// UnverifiedNotice says why a notice is not believed. It holds neither the
// secret nor the signature that would have been right.
type UnverifiedNotice struct{ Reason string }

func (e *UnverifiedNotice) Error() string { return "the notice is not verified: " + e.Reason }

func unverified(format string, args ...any) error {
	return &UnverifiedNotice{printable(clip(fmt.Sprintf(format, args...), 200))}
}

// maxSignatures bounds how many signatures of one notice are compared.
const maxSignatures = 20

// Verify checks the signature of a notice and, where it carries a time, that it
// is within the tolerance of now, before and after. secrets are those that
// Signature.Secrets refers to; any of them may have signed, so that one can be
// replaced by another. The error is an *UnverifiedNotice.
func (n *Notices) Verify(secrets []egress.Secret, header http.Header, body []byte, now time.Time) error {
	s := &n.Signature
	if s.Scheme == SchemeStandardWebhooks {
		return s.standard(secrets, header, body, now)
	}
	given, err := single(header, s.Header)
	if err != nil {
		return err
	}
	if strings.Contains(given, ",") || strings.HasPrefix(given, "t=") {
		return s.timestamped(secrets, given, body, now)
	}
	return s.plain(secrets, given, header, body, now)
}

// single is a header that has to be there once: of two, sender and receiver may
// each take another one.
func single(header http.Header, name string) (string, error) {
	values := header.Values(name)
	switch {
	case len(values) == 0 || values[0] == "":
		return "", unverified("the header %s is missing", name)
	case len(values) > 1:
		return "", unverified("the header %s is there %d times", name, len(values))
	}
	return strings.TrimSpace(values[0]), nil
}

// standard checks a notice by Standard Webhooks (standardwebhooks.com):
// HMAC-SHA256 of "id.timestamp.body", in base64, several of them apart by spaces.
func (s *Signature) standard(secrets []egress.Secret, header http.Header, body []byte, now time.Time) error {
	id, err := single(header, "Webhook-Id")
	if err != nil {
		return err
	}
	at, err := single(header, "Webhook-Timestamp")
	if err != nil {
		return err
	}
	if err := s.timely(at, now); err != nil {
		return err
	}
	signatures := strings.Fields(strings.Join(header.Values("Webhook-Signature"), " "))
	var given [][]byte
	for _, signature := range signatures {
		if text, ok := strings.CutPrefix(signature, "v1,"); ok {
			if mac, err := base64.StdEncoding.DecodeString(text); err == nil {
				given = append(given, mac)
			}
		}
	}
	if len(given) == 0 {
		return unverified("the header Webhook-Signature holds no v1 signature")
	}
	keys, err := standardKeys(secrets)
	if err != nil {
		return err
	}
	return compareMACs(keys, given, []byte(id+"."+at+"."), body)
}

// standardKeys are the keys in the secrets: base64, usually behind whsec_.
func standardKeys(secrets []egress.Secret) ([][]byte, error) {
	var keys [][]byte
	for _, s := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Reveal(), "whsec_"))
		if err == nil && len(key) > 0 {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, unverified("none of our secrets is whsec_ followed by base64")
	}
	return keys, nil
}

// timestamped checks the form t=…,v1=…, which signs "t.body".
func (s *Signature) timestamped(secrets []egress.Secret, value string, body []byte, now time.Time) error {
	if s.TimestampHeader != "" {
		return unverified("the header %s carries a time of its own, and the profile names %s for it", s.Header, s.TimestampHeader)
	}
	at := ""
	var given [][]byte
	for _, pair := range strings.Split(value, ",") {
		name, v, _ := strings.Cut(strings.TrimSpace(pair), "=")
		switch {
		case name == "t" && at != "":
			return unverified("the header %s holds two times", s.Header)
		case name == "t":
			at = v
		case name == "v1":
			if mac, ok := decodeMAC(v); ok {
				given = append(given, mac)
			}
		}
	}
	if at == "" || len(given) == 0 {
		return unverified("the header %s holds no t= and v1=", s.Header)
	}
	if err := s.timely(at, now); err != nil {
		return err
	}
	return compareMACs(rawKeys(secrets), given, []byte(at+"."), body)
}

// plain checks a signature of the body, or of "timestamp.body" where the profile
// names a header for the time.
func (s *Signature) plain(secrets []egress.Secret, value string, header http.Header, body []byte, now time.Time) error {
	mac, ok := decodeMAC(value)
	if !ok {
		return unverified("the header %s holds no HMAC-SHA256 in hex or base64", s.Header)
	}
	if s.TimestampHeader == "" {
		if startsWithTime(body) {
			return unverified("the body begins like a signed time: it could be another notice, moved")
		}
		return compareMACs(rawKeys(secrets), [][]byte{mac}, nil, body)
	}
	at, err := single(header, s.TimestampHeader)
	if err != nil {
		return err
	}
	if err := s.timely(at, now); err != nil {
		return err
	}
	return compareMACs(rawKeys(secrets), [][]byte{mac}, []byte(at+"."), body)
}

// startsWithTime recognises "1700000000.…". A signature of the form t=…,v1=…
// would also fit a plain notice whose body is that, and escape the tolerance.
func startsWithTime(body []byte) bool {
	digits := 0
	for digits < len(body) && body[digits] >= '0' && body[digits] <= '9' {
		digits++
	}
	return digits > 0 && digits < len(body) && body[digits] == '.'
}

// timely checks a time in seconds since 1970.
func (s *Signature) timely(text string, now time.Time) error {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 || text != strconv.FormatInt(seconds, 10) {
		return unverified("its time is not a number of seconds since 1970")
	}
	at := time.Unix(seconds, 0)
	switch off := now.Sub(at); {
	case off > s.Tolerance:
		return unverified("it is from %s ago, and at most %s are tolerated; a repeat has to be signed anew", short(off.Round(time.Second)), short(s.Tolerance))
	case off < -s.Tolerance:
		return unverified("it is from %s ahead, and at most %s are tolerated: one of the clocks is wrong", short((-off).Round(time.Second)), short(s.Tolerance))
	}
	return nil
}

// decodeMAC reads a MAC in hex or base64, perhaps behind sha256=.
func decodeMAC(text string) ([]byte, bool) {
	text = strings.TrimPrefix(text, "sha256=")
	if mac, err := hex.DecodeString(text); err == nil && len(mac) == sha256.Size {
		return mac, true
	}
	text = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
	mac, err := base64.RawStdEncoding.Strict().DecodeString(text)
	return mac, err == nil && len(mac) == sha256.Size
}

func rawKeys(secrets []egress.Secret) [][]byte {
	var keys [][]byte
	for _, s := range secrets {
		keys = append(keys, []byte(s.Reveal()))
	}
	return keys
}

// compareMACs looks for one that a key makes of prefix and body, in constant
// time.
func compareMACs(keys, given [][]byte, prefix, body []byte) error {
	if len(given) > maxSignatures {
		return unverified("it carries more than %d signatures", maxSignatures)
	}
	right := false
	for _, key := range keys {
		if len(key) == 0 {
			continue
		}
		mac := hmac.New(sha256.New, key)
		mac.Write(prefix)
		mac.Write(body)
		want := mac.Sum(nil)
		for _, g := range given {
			right = hmac.Equal(want, g) || right
		}
	}
	if !right {
		return unverified("no signature is right: another secret, or it was changed on the way")
	}
	return nil
}
