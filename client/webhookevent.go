package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// Types of webhook events. A newer service may send others: take what you know,
// and accept the rest.
const (
	WebhookSuccess    = "command.success"
	WebhookRejected   = "command.rejected"
	WebhookUnresolved = "command.unresolved" // it may still settle: another event tells then
	WebhookCancelled  = "command.cancelled"
	WebhookCorrected  = "command.corrected" // a person corrected an outcome
	WebhookTest       = "webhook.test"      // of no command
	// WebhookChallenge asks whether the receiver wants webhooks, before it gets any
	// other. The answer is a 2xx whose body is the event's Challenge.
	WebhookChallenge = "webhook.challenge"
)

// WebhookEvent is what a webhook tells. What an event of another type does not have
// is zero.
type WebhookEvent struct {
	ID        string    // the same on every try and redelivery
	Type      string    // such as WebhookSuccess
	Timestamp time.Time // when it happened
	SentAt    time.Time // when this try was signed

	CommandID     string
	Key           string // the command's idempotency key
	Upstream      string
	Operation     string
	Metadata      map[string]string // nil if it was too large to be sent
	Version       int               // of the command, with this outcome
	Sequence      int               // grows with every outcome of the command
	PreviousState State             // of the outcome before; empty for the first
	Outcome       Outcome           // without the upstream's body, which Get reads; nil for a test
	Challenge     string            // of a WebhookChallenge: what to answer

	document
}

// UnmarshalJSON reads a webhook's body.
func (e *WebhookEvent) UnmarshalJSON(b []byte) error {
	var d struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      struct {
			ID            string            `json:"id"`
			Key           string            `json:"idempotency_key"`
			Upstream      string            `json:"upstream"`
			Operation     string            `json:"operation"`
			Metadata      map[string]string `json:"metadata"`
			Version       int               `json:"version"`
			Sequence      int               `json:"sequence"`
			PreviousState State             `json:"previous_state"`
			Outcome       *outcomeDocument  `json:"outcome"`
			Challenge     string            `json:"challenge"`
		} `json:"data"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	if d.Type == "" {
		return errors.New("it has no type")
	}
	*e = WebhookEvent{
		Type: d.Type, Timestamp: d.Timestamp, CommandID: d.Data.ID, Key: d.Data.Key, Upstream: d.Data.Upstream, Operation: d.Data.Operation,
		Metadata: d.Data.Metadata, Version: d.Data.Version, Sequence: d.Data.Sequence, PreviousState: d.Data.PreviousState, Challenge: d.Data.Challenge,
	}
	if d.Data.Outcome == nil {
		return nil
	}
	var err error
	e.Outcome, err = d.Data.Outcome.outcome()
	return err
}

// webhookBytes bounds a webhook's body; Standard Webhooks asks for less than 20 kB.
const webhookBytes = 256 << 10

// WebhookHandler receives webhooks. Each that verifies is given to handle, repeats
// too; when that returns nil the answer is 204, and if it returns an error 500, and
// the executor sends it again later. What does not verify is answered with 401. A
// challenge that verifies is answered as it has to be, and not given to handle.
// handle should be quick, or hand the work on: a delivery that is not answered
// within some seconds counts as failed.
//
// The error is about the secrets.
func WebhookHandler(secrets []string, handle func(context.Context, WebhookEvent) error) (http.Handler, error) {
	keys, err := webhookKeys(secrets)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "webhooks come as POST", http.StatusMethodNotAllowed)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhookBytes))
		if err != nil {
			http.Error(w, "the body cannot be read, or is too large", http.StatusBadRequest)
			return
		}
		event, err := verifyWebhook(keys, r.Header, body, WebhookOptions{})
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if event.Type == WebhookChallenge {
			AnswerWebhookChallenge(w, event)
			return
		}
		if handle(r.Context(), event) != nil { // whose text is not for others
			http.Error(w, "it was not taken", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}), nil
}

// AnswerWebhookChallenge answers an event of the type WebhookChallenge: yes, what is
// here wants webhooks. WebhookHandler does it by itself.
func AnswerWebhookChallenge(w http.ResponseWriter, e WebhookEvent) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, e.Challenge)
}
