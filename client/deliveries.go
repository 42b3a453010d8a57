package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"
)

// DeliveryState is how far a delivery is.
type DeliveryState string

const (
	DeliveryPending   DeliveryState = "pending"   // due, or waiting for its next try
	DeliveryDelivered DeliveryState = "delivered" // the receiver took it
	DeliveryFailed    DeliveryState = "failed"    // given up
	DeliveryDropped   DeliveryState = "dropped"   // never sent: the receiver was deleted, or the event became untrue
)

// Delivery is one event on its way to one receiver.
type Delivery struct {
	ID        string        `json:"id"`
	WebhookID string        `json:"webhook_id"`
	EventID   string        `json:"event_id"` // the header webhook-id, the same on every try
	Type      string        `json:"type"`
	CommandID string        `json:"command_id"` // empty for a test
	Sequence  int           `json:"sequence"`
	At        time.Time     `json:"at"` // of the event
	State     DeliveryState `json:"state"`
	HeldUntil *time.Time    `json:"held_until"` // an outcome that comes before then drops it
	NextAt    *time.Time    `json:"next_at"`    // no try before
	EndedAt   *time.Time    `json:"ended_at"`
	Tries     int           `json:"tries"`
	Status    int           `json:"status"`  // of the last try, as the next two
	Failure   string        `json:"failure"` // its kind
	Detail    string        `json:"detail"`  // the same in words

	// Not in lists.
	Payload json.RawMessage `json:"payload,omitempty"` // the body as it is signed and sent
	Log     []DeliveryTry   `json:"log,omitempty"`     // the oldest first

	document
}

// DeliveryTry is one try.
type DeliveryTry struct {
	Number     int        `json:"number"`
	At         time.Time  `json:"at"`
	DurationMS int64      `json:"duration_ms"`
	Instance   string     `json:"instance"` // the process that made it
	Status     int        `json:"status"`
	Failure    string     `json:"failure"` // its kind
	Detail     string     `json:"detail"`  // the same in words
	Excerpt    string     `json:"excerpt"` // the beginning of the receiver's answer
	NextAt     *time.Time `json:"next_at"` // the try after it
}

// DeliveryFilter selects deliveries; its zero value selects all.
type DeliveryFilter struct {
	Webhook      string // the receiver's id
	Command      string // the command's id
	States       []DeliveryState
	Event        string    // its id: the header webhook-id
	Type         string    // of the event
	Since, Until time.Time // of the event; Until is exclusive
	Cursor       string    // of the page to begin with
	Limit        int       // deliveries per page, up to 100; 50
}

// DeliveryPage is one page of the delivery log.
type DeliveryPage = PageOf[Delivery]

// DeliveriesPage reads one page of the delivery log, the newest first.
func (c *Client) DeliveriesPage(ctx context.Context, f DeliveryFilter) (DeliveryPage, error) {
	q := query(map[string]string{
		"webhook": f.Webhook, "command": f.Command, "event": f.Event, "type": f.Type,
		"since": moment(f.Since), "until": moment(f.Until), "cursor": f.Cursor, "limit": number(f.Limit),
	})
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	return page[Delivery](ctx, c, path("webhook-deliveries"), q)
}

// Deliveries yields the delivery log, the newest first. It ends after the first
// error.
func (c *Client) Deliveries(ctx context.Context, f DeliveryFilter) iter.Seq2[Delivery, error] {
	return pages(f.Cursor, func(cursor string) (DeliveryPage, error) {
		f.Cursor = cursor
		return c.DeliveriesPage(ctx, f)
	})
}

// Delivery reads one with its payload and every try.
func (c *Client) Delivery(ctx context.Context, id string) (Delivery, error) {
	d, _, err := read[Delivery](ctx, c, call{method: http.MethodGet, path: path("webhook-deliveries", id), repeat: true})
	return d, err
}

// WaitDelivery returns once a delivery was tried more often than so many times, or
// is no longer pending. If ctx ends first, the error is ctx's and the delivery is as
// it was last seen.
func (c *Client) WaitDelivery(ctx context.Context, id string, tries int) (Delivery, error) {
	return poll(ctx, func(ctx context.Context) (Delivery, error) { return c.Delivery(ctx, id) }, func(d Delivery) bool {
		return d.Tries > tries || d.State != DeliveryPending
	}, nil)
}

// Redeliver has an event delivered once more, under the same event id. It is not
// repeated by itself, and a receiver knows a repeat by the event id.
func (c *Client) Redeliver(ctx context.Context, id string) (Delivery, error) {
	return once[Delivery](ctx, c, call{method: http.MethodPost, path: path("webhook-deliveries", id, "redeliver")})
}
