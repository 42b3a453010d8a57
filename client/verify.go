package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook, as Standard Webhooks 1.0.0 names them.
const (
	HeaderWebhookID        = "webhook-id"        // the event's id: the same on every try and redelivery
	HeaderWebhookTimestamp = "webhook-timestamp" // of the try, in seconds since 1970
	HeaderWebhookSignature = "webhook-signature" // one or more, with spaces between
)

// WebhookTolerance is how far a webhook's timestamp may be from now, either way,
// where nothing else is said.
const WebhookTolerance = 5 * time.Minute

// WebhookOptions changes how webhooks are verified; its zero value is the usual.
type WebhookOptions struct {
	Tolerance time.Duration    // WebhookTolerance if zero
	Now       func() time.Time // time.Now if nil
}

// UnverifiedReason is why a request is not taken for a webhook.
type UnverifiedReason string

const (
	UnverifiedHeaders   UnverifiedReason = "headers"   // missing or malformed
	UnverifiedSignature UnverifiedReason = "signature" // none of them is by a known secret over these bytes
	UnverifiedTooOld    UnverifiedReason = "too_old"   // rightly signed, but long ago
	UnverifiedTooNew    UnverifiedReason = "too_new"   // rightly signed, but by a clock that is ahead
	UnverifiedPayload   UnverifiedReason = "payload"   // rightly signed, but not an event
)

// Unverified says that a request is not a webhook of the executor's, or not a fresh
// one. Answer it with 401, and do nothing else.
type Unverified struct {
	Reason UnverifiedReason
	Detail string
}

func (u *Unverified) Error() string { return u.Detail }

// VerifyWebhook checks that a request was signed with one of the secrets
// ("whsec_…"), and lately, and returns the event. body is the request's, byte for
// byte: parsed and written again it does not verify. While a secret is rotated,
// give both. What is wrong with the request is an *Unverified; any other error is
// about the secrets.
//
// A webhook is delivered at least once. The event's ID tells a repeat, and for one
// command a larger Sequence tells the newer outcome.
func VerifyWebhook(secrets []string, header http.Header, body []byte, o WebhookOptions) (WebhookEvent, error) {
	keys, err := webhookKeys(secrets)
	if err != nil {
		return WebhookEvent{}, err
	}
	return verifyWebhook(keys, header, body, o)
}

func verifyWebhook(keys [][]byte, header http.Header, body []byte, o WebhookOptions) (WebhookEvent, error) {
	id, stamp, signatures := header.Get(HeaderWebhookID), header.Get(HeaderWebhookTimestamp), header.Values(HeaderWebhookSignature)
	if id == "" || stamp == "" || len(signatures) == 0 {
		return WebhookEvent{}, &Unverified{UnverifiedHeaders, fmt.Sprintf("a webhook has the headers %s, %s and %s", HeaderWebhookID, HeaderWebhookTimestamp, HeaderWebhookSignature)}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return WebhookEvent{}, &Unverified{UnverifiedHeaders, fmt.Sprintf("the header %s is %q, not seconds since 1970", HeaderWebhookTimestamp, stamp)}
	}
	if err := checkSignatures(keys, id, stamp, body, strings.Fields(strings.Join(signatures, " "))); err != nil {
		return WebhookEvent{}, err
	}
	sent := time.Unix(seconds, 0).UTC()
	if err := checkAge(sent, o); err != nil {
		return WebhookEvent{}, err
	}
	var e WebhookEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return WebhookEvent{}, &Unverified{UnverifiedPayload, fmt.Sprintf("the signature holds, but the body is not an event: %v", err)}
	}
	e.ID, e.SentAt = id, sent
	e.keep(body)
	return e, nil
}

// checkSignatures compares every signature with every key, in a time that does not
// tell which one fits.
func checkSignatures(keys [][]byte, id, stamp string, body []byte, signatures []string) error {
	matches, known := 0, 0
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, stamp)
		mac.Write(body)
		want := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for _, s := range signatures {
			if strings.HasPrefix(s, "v1,") {
				known++
			}
			if hmac.Equal([]byte(s), want) {
				matches++
			}
		}
	}
	switch {
	case matches > 0:
		return nil
	case known == 0:
		return &Unverified{UnverifiedHeaders, fmt.Sprintf("the header %s holds no signature of version v1", HeaderWebhookSignature)}
	default:
		return &Unverified{UnverifiedSignature, "no signature fits: another secret signed it, or the body is not as it was sent"}
	}
}

func checkAge(sent time.Time, o WebhookOptions) error {
	tolerance, now := o.Tolerance, time.Now()
	if tolerance == 0 {
		tolerance = WebhookTolerance
	}
	if o.Now != nil {
		now = o.Now()
	}
	switch age := now.Sub(sent); {
	case age > tolerance:
		return &Unverified{UnverifiedTooOld, fmt.Sprintf("the signature holds, but it was sent %s ago and %s are allowed: an old request sent again, or a clock that is wrong", age.Round(time.Second), tolerance)}
	case age < -tolerance: // not -age: the shortest duration has no opposite
		return &Unverified{UnverifiedTooNew, fmt.Sprintf("the signature holds, but it was sent %s from now and %s are allowed: one of the clocks is wrong", (-age).Round(time.Second), tolerance)}
	default:
		return nil
	}
}

// Standard Webhooks: a secret for v1 signatures has 24 to 64 bytes.
const (
	secretPrefix                  = "whsec_"
	shortestSecret, longestSecret = 24, 64
)

// webhookKeys reads secrets. What is wrong with one does not show its value.
func webhookKeys(secrets []string) ([][]byte, error) {
	if len(secrets) == 0 {
		return nil, errors.New("a webhook cannot be verified without a secret")
	}
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		text := strings.TrimRight(strings.TrimPrefix(strings.TrimSpace(secret), secretPrefix), "=")
		key, err := base64.RawStdEncoding.DecodeString(text)
		if err != nil || len(key) < shortestSecret || len(key) > longestSecret {
			return nil, fmt.Errorf("webhook secret %d is not one: it looks like %sMfKQ9r8G…, with %d to %d bytes in base64", i+1, secretPrefix, shortestSecret, longestSecret)
		}
		keys[i] = key
	}
	return keys, nil
}
