package client

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var (
	secretA = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32)))
	secretB = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("b", 24)))
	secretC = "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("c", 64)))
)

const (
	eventID     = "0193c0de-0000-7000-8000-00000000000e"
	successBody = `{"type":"command.success","timestamp":"2026-11-01T00:00:31Z","data":{"id":"c1","idempotency_key":"order-42","upstream":"ledger",
		"operation":"create_payment","metadata":{"order":"42"},"version":9,"sequence":2,"previous_state":"unresolved","added_later":1,
		"outcome":{"state":"success","reason":"applied","stopped_by":"max_attempts","decided_by":"lookup","decided_at":"2026-11-01T00:00:31Z","sequence":2,
		"safe_to_resubmit":false,"next_action":"none","result":{"status":201,"reference":"pay_9"}}}}`
)

// signed is a delivery as the reference library signs it.
func signed(t *testing.T, at time.Time, body string, secrets ...string) http.Header {
	t.Helper()
	h := http.Header{}
	h.Set("Webhook-Id", eventID)
	h.Set("Webhook-Timestamp", fmt.Sprint(at.Unix()))
	var signatures []string
	for _, secret := range secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := signer.Sign(eventID, at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		signatures = append(signatures, signature)
	}
	h.Set("Webhook-Signature", strings.Join(signatures, " "))
	return h
}

func TestVerifyWebhook(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	e, err := VerifyWebhook([]string{secretA}, signed(t, now, successBody, secretA), []byte(successBody), WebhookOptions{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	o, settled := e.Outcome.(Success)
	if e.ID != eventID || e.Type != WebhookSuccess || !e.SentAt.Equal(now) || e.Timestamp.Second() != 31 || e.CommandID != "c1" || e.Key != "order-42" ||
		e.Upstream != "ledger" || e.Operation != "create_payment" || e.Metadata["order"] != "42" || e.Version != 9 || e.Sequence != 2 ||
		e.PreviousState != StateUnresolved || !settled || o.Result.Reference != "pay_9" || o.DecidedBy != "lookup" || string(e.JSON()) != successBody {
		t.Errorf("read %+v", e)
	}
	test := `{"type":"webhook.test","timestamp":"2026-11-01T00:00:31Z","data":{"webhook_id":"w1"}}`
	e, err = VerifyWebhook([]string{secretA}, signed(t, time.Now(), test, secretA), []byte(test), WebhookOptions{})
	if err != nil || e.Type != WebhookTest || e.Outcome != nil || e.CommandID != "" {
		t.Errorf("a test: %+v, %v", e, err)
	}
}

func TestWhichSignaturesHold(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	one := func(change func(http.Header)) http.Header {
		h := signed(t, now, successBody, secretA)
		change(h)
		return h
	}
	tests := []struct {
		name    string
		secrets []string
		header  http.Header
		body    string
		want    UnverifiedReason // empty: it holds
	}{
		{"one of two secrets signed", []string{secretB, secretA}, signed(t, now, successBody, secretA), successBody, ""},
		{"one of two signatures is ours", []string{secretA}, signed(t, now, successBody, secretB, secretA), successBody, ""},
		{"the longest secret, without its prefix", []string{strings.TrimPrefix(secretC, "whsec_")}, signed(t, now, successBody, secretC), successBody, ""},
		{"a secret without padding", []string{strings.TrimRight(secretA, "=")}, signed(t, now, successBody, secretA), successBody, ""},
		{"two header lines", []string{secretA}, one(func(h http.Header) { h.Add("Webhook-Signature", "v1a,xxx") }), successBody, ""},
		{"a foreign version beside ours", []string{secretA}, one(func(h http.Header) {
			h.Set("Webhook-Signature", "v1a,abc v2,def "+h.Get("Webhook-Signature"))
		}), successBody, ""},
		{"another secret", []string{secretB}, signed(t, now, successBody, secretA), successBody, UnverifiedSignature},
		{"another body", []string{secretA}, signed(t, now, successBody, secretA), strings.Replace(successBody, "42", "43", 1), UnverifiedSignature},
		{"a space more", []string{secretA}, signed(t, now, successBody, secretA), successBody + " ", UnverifiedSignature},
		{"another id", []string{secretA}, one(func(h http.Header) { h.Set("Webhook-Id", "x") }), successBody, UnverifiedSignature},
		{"another time", []string{secretA}, one(func(h http.Header) { h.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()+1)) }), successBody, UnverifiedSignature},
		{"a time written otherwise", []string{secretA}, one(func(h http.Header) { h.Set("Webhook-Timestamp", fmt.Sprintf("+%d", now.Unix())) }), successBody, UnverifiedSignature},
		{"a signature cut short", []string{secretA}, one(func(h http.Header) { h.Set("Webhook-Signature", h.Get("Webhook-Signature")[:20]) }), successBody, UnverifiedSignature},
		{"an empty signature", []string{secretA}, one(func(h http.Header) { h.Set("Webhook-Signature", "v1,") }), successBody, UnverifiedSignature},
		{"only a foreign version", []string{secretA}, one(func(h http.Header) { h.Set("Webhook-Signature", "v1a,abc") }), successBody, UnverifiedHeaders},
		{"no id", []string{secretA}, one(func(h http.Header) { h.Del("Webhook-Id") }), successBody, UnverifiedHeaders},
		{"no time", []string{secretA}, one(func(h http.Header) { h.Del("Webhook-Timestamp") }), successBody, UnverifiedHeaders},
		{"no signature", []string{secretA}, one(func(h http.Header) { h.Del("Webhook-Signature") }), successBody, UnverifiedHeaders},
		{"a time in words", []string{secretA}, one(func(h http.Header) { h.Set("Webhook-Timestamp", "now") }), successBody, UnverifiedHeaders},
		{"as old as may be", []string{secretA}, signed(t, now.Add(-5*time.Minute), successBody, secretA), successBody, ""},
		{"too old", []string{secretA}, signed(t, now.Add(-5*time.Minute-time.Second), successBody, secretA), successBody, UnverifiedTooOld},
		{"as new as may be", []string{secretA}, signed(t, now.Add(5*time.Minute), successBody, secretA), successBody, ""},
		{"newer than a duration can say", []string{secretA}, signed(t, time.Unix(1<<40, 0), successBody, secretA), successBody, UnverifiedTooNew},
		{"too new", []string{secretA}, signed(t, now.Add(5*time.Minute+time.Second), successBody, secretA), successBody, UnverifiedTooNew},
		{"not JSON", []string{secretA}, signed(t, now, "hello", secretA), "hello", UnverifiedPayload},
		{"no event", []string{secretA}, signed(t, now, "{}", secretA), "{}", UnverifiedPayload},
	}
	for _, tt := range tests {
		_, err := VerifyWebhook(tt.secrets, tt.header, []byte(tt.body), WebhookOptions{Now: func() time.Time { return now }})
		var refused *Unverified
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (!errors.As(err, &refused) || refused.Reason != tt.want):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	old := signed(t, now.Add(-time.Hour), successBody, secretA)
	if _, err := VerifyWebhook([]string{secretA}, old, []byte(successBody), WebhookOptions{Tolerance: time.Hour, Now: func() time.Time { return now }}); err != nil {
		t.Errorf("within a tolerance of its own: %v", err)
	}
}

// What is wrong with a secret is the receiver's fault, not the sender's, and does
// not show the secret.
func TestSecretsOfWebhooks(t *testing.T) {
	for _, secrets := range [][]string{nil, {""}, {"whsec_"}, {secretA, "whsec_!!"}, {"whsec_c2hvcnRzZWNyZXQ="}, {"whsec_" + strings.Repeat("A", 400)}} {
		_, err := VerifyWebhook(secrets, signed(t, time.Now(), successBody, secretA), []byte(successBody), WebhookOptions{})
		if err == nil || errors.As(err, new(*Unverified)) || strings.Contains(err.Error(), "c2hv") {
			t.Errorf("%q: %v", secrets, err)
		}
		if _, err := WebhookHandler(secrets, nil); err == nil {
			t.Errorf("a handler takes %q", secrets)
		}
	}
}

func TestWebhookHandler(t *testing.T) {
	var got []WebhookEvent
	var fail error
	h, err := WebhookHandler([]string{secretA}, func(_ context.Context, e WebhookEvent) error {
		got = append(got, e)
		return fail
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func(method, body string, header http.Header) *http.Response {
		t.Helper()
		r := httptest.NewRequest(method, "/hook", strings.NewReader(body))
		r.Header = header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	if res := send("POST", successBody, signed(t, time.Now(), successBody, secretA)); res.StatusCode != 204 || len(got) != 1 || got[0].CommandID != "c1" {
		t.Errorf("taken: %d, %+v", res.StatusCode, got)
	}
	fail = errors.New("the password is x")
	res := send("POST", successBody, signed(t, time.Now(), successBody, secretA))
	if text, _ := io.ReadAll(res.Body); res.StatusCode != 500 || strings.Contains(string(text), "password") || len(got) != 2 {
		t.Errorf("not taken: %d %s", res.StatusCode, text)
	}
	large := strings.Repeat("x", webhookBytes+1)
	for want, res := range map[int]*http.Response{
		401: send("POST", successBody, signed(t, time.Now(), successBody, secretB)),
		405: send("GET", "", http.Header{}),
		400: send("POST", large, signed(t, time.Now(), large, secretA)),
	} {
		if res.StatusCode != want || len(got) != 2 {
			t.Errorf("status %d, want %d; %d events", res.StatusCode, want, len(got))
		}
	}
}

// A challenge is answered with what it asks, and only if it is signed; the code that
// takes events never sees it.
func TestWebhookHandlerAnswersChallenges(t *testing.T) {
	h, err := WebhookHandler([]string{secretA}, func(_ context.Context, e WebhookEvent) error {
		t.Errorf("handed on: %+v", e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"type":"webhook.challenge","timestamp":"2026-11-01T00:00:00Z","data":{"webhook":"w1","challenge":"s3cr3t"}}`
	for secret, want := range map[string]string{secretA: "200 s3cr3t", secretB: "401 "} {
		r := httptest.NewRequest("POST", "/hook", strings.NewReader(body))
		r.Header = signed(t, time.Now(), body, secret)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := fmt.Sprint(w.Code, " ", w.Body); !strings.HasPrefix(got, want) || (w.Code != 200 && strings.Contains(got, "s3cr3t")) {
			t.Errorf("answered %q, want %q", got, want)
		}
	}
}
