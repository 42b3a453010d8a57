package simulator

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
)

// The ways in which notices are signed.
const (
	schemeStandard = "standard-webhooks" // Standard Webhooks 1.0: webhook-id, webhook-timestamp, webhook-signature: v1,base64
	schemeHMAC     = "hmac-sha256"       // one header: t=<unix seconds>,v1=<hex of HMAC-SHA256 over "t.body">, or its parts in two
	schemeNone     = "none"
)

// signature is what a notice is signed with. Several secrets give several
// signatures, as while one of them is being rotated.
type signature struct {
	scheme  string
	header  string // of schemeHMAC
	timeIn  string // a header of its own for the time; "" = none
	secrets []string
	at      time.Time
	wrong   bool // the signatures are of something else
}

// headers are the headers that carry the signature of a notice.
func (g signature) headers(id string, body []byte) http.Header {
	h, at := http.Header{}, strconv.FormatInt(g.at.Unix(), 10)
	var signed []string
	for _, secret := range g.secrets {
		key := []byte(secret)
		if g.wrong {
			key = append(key, "wrong"...)
		}
		switch g.scheme {
		case schemeStandard:
			signed = append(signed, "v1,"+base64.StdEncoding.EncodeToString(mac(standardKey(string(key)), id+"."+at+".", body)))
		case schemeHMAC:
			signed = append(signed, "v1="+hex.EncodeToString(mac(key, at+".", body)))
		}
	}
	switch g.scheme {
	case schemeStandard:
		h["Webhook-Id"], h["Webhook-Timestamp"] = []string{id}, []string{at}
		h["Webhook-Signature"] = []string{strings.Join(signed, " ")}
	case schemeHMAC:
		h.Set(g.header, "t="+at+","+strings.Join(signed, ","))
		if g.timeIn != "" {
			h.Set(g.header, strings.TrimPrefix(signed[0], "v1="))
			h.Set(g.timeIn, at)
		}
	}
	return h
}

// standardKey is the base64 of a secret behind whsec_, or the secret itself.
func standardKey(secret string) []byte {
	if key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err == nil {
		return key
	}
	return []byte(secret)
}

func mac(key []byte, prefix string, body []byte) []byte {
	m := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(m, "%s%s", prefix, body)
	return m.Sum(nil)
}

// verifyStandard says whether any signature of a webhook fits the secret and its
// timestamp is at most five minutes away.
func verifyStandard(secret string, h http.Header, body []byte, now time.Time) bool {
	at, err := strconv.ParseInt(h.Get("Webhook-Timestamp"), 10, 64)
	if err != nil || now.Sub(time.Unix(at, 0)).Abs() > 5*time.Minute {
		return false
	}
	want := mac(standardKey(secret), h.Get("Webhook-Id")+"."+h.Get("Webhook-Timestamp")+".", body)
	for _, one := range strings.Fields(h.Get("Webhook-Signature")) {
		version, text, _ := strings.Cut(one, ",")
		got, err := base64.StdEncoding.DecodeString(text)
		if err == nil && version == "v1" && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}
