package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Webhook is a receiver that outcomes are sent to.
type Webhook struct {
	ID          string    `json:"id"`
	URL         string    `json:"url"`
	Description string    `json:"description"`
	Events      []string  `json:"events"`    // types; empty: all
	Upstreams   []string  `json:"upstreams"` // empty: all
	Ordered     bool      `json:"ordered"`   // a command's next event waits for the one before
	Version     int       `json:"version"`   // grows with every change
	Disabled    *Disabled `json:"disabled"`  // nil: it is not; while it is, deliveries wait
	// FailingSince is the first failure after the last success.
	FailingSince *time.Time `json:"failing_since"`
	// Verified is nil while the receiver has not answered its challenge: it gets
	// nothing else until then, and deliveries wait.
	Verified  *Verified     `json:"verified"`
	Secrets   []SecretInUse `json:"secrets"` // that sign, the newest first; without their values
	CreatedAt time.Time     `json:"created_at"`
	UpdatedAt time.Time     `json:"updated_at"`
	// Secret verifies the signatures: see VerifyWebhook. It comes with CreateWebhook
	// and RotateWebhookSecret and is never shown again.
	Secret string `json:"secret,omitempty"`

	document
}

// Disabled says since when and why nothing is sent to a receiver.
type Disabled struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"` // person, gone (it answered 410), failing (for days), unproven (it has not answered a challenge)
	Reason string    `json:"reason"`
}

// Verified says since when and how it is known that a receiver wants webhooks.
type Verified struct {
	At time.Time `json:"at"`
	By string    `json:"by"` // challenge (it answered one), person, setting, before
}

// SecretInUse is a secret without its value.
type SecretInUse struct {
	ID        string     `json:"id"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// WebhookPage is all receivers: they stand on one page.
type WebhookPage = PageOf[Webhook]

// Webhooks reads all receivers of the key's tenant, the oldest first.
func (c *Client) Webhooks(ctx context.Context) (WebhookPage, error) {
	return page[Webhook](ctx, c, path("webhooks"), nil)
}

// Webhook reads one receiver.
func (c *Client) Webhook(ctx context.Context, id string) (Webhook, error) {
	w, _, err := read[Webhook](ctx, c, call{method: http.MethodGet, path: path("webhooks", id), repeat: true})
	return w, err
}

// WebhookSettings describes a new receiver; URL is required.
type WebhookSettings struct {
	URL         string   `json:"url"`
	Description string   `json:"description,omitempty"`
	Events      []string `json:"events,omitempty"`    // such as command.success; empty for all
	Upstreams   []string `json:"upstreams,omitempty"` // empty for all
	Ordered     bool     `json:"ordered,omitempty"`
	Reason      string   `json:"reason,omitempty"` // for the audit log
}

// CreateWebhook has outcomes sent to a receiver. It is not repeated by itself: after
// an *Unanswered see with Webhooks whether it was made; its secret, which is shown
// only once, then comes from RotateWebhookSecret.
func (c *Client) CreateWebhook(ctx context.Context, s WebhookSettings) (Webhook, error) {
	return post[Webhook](ctx, c, path("webhooks"), s)
}

// WebhookChange changes a receiver; what is nil stays.
type WebhookChange struct {
	URL         *string  `json:"url,omitzero"`
	Description *string  `json:"description,omitzero"`
	Events      []string `json:"events,omitzero"`    // not nil but empty: all
	Upstreams   []string `json:"upstreams,omitzero"` // not nil but empty: all
	Ordered     *bool    `json:"ordered,omitzero"`
	Disabled    *bool    `json:"disabled,omitzero"` // false: deliveries that were due meanwhile follow
	Reason      string   `json:"reason,omitzero"`   // for the audit log
	// Version is the one that the change is meant for: ErrStale if it has another by
	// now. 0: whatever it is.
	Version int `json:"-"`
}

// UpdateWebhook changes a receiver. It is not repeated by itself: another's change
// may have come between.
func (c *Client) UpdateWebhook(ctx context.Context, id string, change WebhookChange) (Webhook, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Webhook{}, err
	}
	r := call{method: http.MethodPatch, path: path("webhooks", id), body: body}
	if change.Version > 0 {
		r.headers = ifMatch(change.Version)
	}
	return once[Webhook](ctx, c, r)
}

// DeleteWebhook sends nothing more to a receiver. Its delivery log stays.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: path("webhooks", id), empty: true})
	return unanswered(err)
}

// RotateWebhookSecret makes a new secret, which is shown this once. Deliveries carry
// signatures of both until overlap has passed; 0 ends the old one at once, as for
// one that leaked. The reason, which may be empty, is for the audit log. It is not
// repeated by itself: each call makes another secret.
func (c *Client) RotateWebhookSecret(ctx context.Context, id string, overlap time.Duration, reason string) (Webhook, error) {
	return post[Webhook](ctx, c, path("webhooks", id, "secrets"), struct {
		Overlap string `json:"overlap"`
		Reason  string `json:"reason,omitempty"`
	}{overlap.String(), reason})
}

// TestWebhook sends an event of the type webhook.test, which is delivered like any
// other. It is not repeated by itself.
func (c *Client) TestWebhook(ctx context.Context, id string) (Delivery, error) {
	return once[Delivery](ctx, c, call{method: http.MethodPost, path: path("webhooks", id, "test")})
}

// ChallengeWebhook asks a receiver once more whether it wants webhooks: see
// WebhookHandler. It is not repeated by itself.
func (c *Client) ChallengeWebhook(ctx context.Context, id string) (Delivery, error) {
	return once[Delivery](ctx, c, call{method: http.MethodPost, path: path("webhooks", id, "challenge")})
}

// RedeliverRange selects what is delivered once more.
type RedeliverRange struct {
	Since  time.Time       // events from here on
	Until  time.Time       // exclusive; zero: now
	States []DeliveryState // empty: those that failed
	Reason string          // for the audit log
}

// Redelivered says how much of a range is due again.
type Redelivered struct {
	Count int  `json:"count"` // the oldest first
	More  bool `json:"more"`  // the range holds more than one call makes due: the same call takes the next
}

// RedeliverWebhook has a range of events delivered once more, under the same event
// ids. It is not repeated by itself; a receiver knows a repeat by the event id.
func (c *Client) RedeliverWebhook(ctx context.Context, id string, r RedeliverRange) (Redelivered, error) {
	return post[Redelivered](ctx, c, path("webhooks", id, "redeliver"), struct {
		Since  string          `json:"since"`
		Until  string          `json:"until,omitempty"`
		States []DeliveryState `json:"states,omitempty"`
		Reason string          `json:"reason,omitempty"`
	}{moment(r.Since), moment(r.Until), r.States, r.Reason})
}

// post sends a document once.
func post[T any](ctx context.Context, c *Client, p string, v any) (T, error) {
	body, err := json.Marshal(v)
	if err != nil {
		var none T
		return none, err
	}
	return once[T](ctx, c, call{method: http.MethodPost, path: p, body: body})
}
