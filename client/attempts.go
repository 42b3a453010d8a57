package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Attempt is one request to the upstream, or one that provably never got there.
// What an open attempt does not know yet is zero.
type Attempt struct {
	Number         int                `json:"number"`
	StartedAt      time.Time          `json:"started_at"`
	EndedAt        *time.Time         `json:"ended_at"` // nil while it is open
	Instance       string             `json:"instance"` // the process that made it
	Evidence       string             `json:"evidence"` // not_sent, sent_no_response, response_received, partial_response
	Stage          string             `json:"stage"`    // how far it came
	Category       string             `json:"category"` // the kind of failure
	Detail         string             `json:"detail"`   // the failure in words
	Answer         string             `json:"answer"`   // applied, pending, refused, declined, unclear; empty: none came
	Status         int                `json:"status"`
	Boundary       string             `json:"boundary"`   // not_crossed, possibly_crossed, crossed
	SettledBy      string             `json:"settled_by"` // a confirmed absence that came after it
	Rule           int                `json:"rule"`
	Decision       string             `json:"decision"`
	Reason         string             `json:"reason"`
	WaitMS         int64              `json:"wait_ms"`
	RetryAt        *time.Time         `json:"retry_at"`
	Request        AttemptRequest     `json:"request"`
	Response       *AttemptResponse   `json:"response"` // nil: none came
	Addresses      []Address          `json:"addresses"`
	TimingsMS      map[string]float64 `json:"timings_ms"` // by stage
	Connection     *Connection        `json:"connection"`
	DeadlineLeftMS int64              `json:"deadline_left_ms"`
	BudgetTokens   float64            `json:"budget_tokens"`
	ProfileVersion int                `json:"profile_version"`
	Notes          []string           `json:"notes"`
}

// AttemptRequest is what was sent, redacted as the profile says.
type AttemptRequest struct {
	Method          string   `json:"method"`
	URL             string   `json:"url"`
	Headers         []Header `json:"headers"`
	BytesTotal      int64    `json:"bytes_total"`
	BytesHandedOver int64    `json:"bytes_handed_over"` // to the network
	BodySHA256      string   `json:"body_sha256"`
}

// AttemptResponse is what came back, redacted as the profile says.
type AttemptResponse struct {
	Headers   http.Header
	Body      []byte
	Truncated bool // there was more of it
	SHA256    string
	Bytes     int64
	Reference string
	Code      string
	Message   string
}

// UnmarshalJSON reads the three forms that a body can take.
func (r *AttemptResponse) UnmarshalJSON(b []byte) error {
	var d struct {
		Headers   http.Header `json:"headers"`
		Truncated bool        `json:"truncated"`
		SHA256    string      `json:"sha256"`
		Bytes     int64       `json:"bytes"`
		Reference string      `json:"reference"`
		Code      string      `json:"code"`
		Message   string      `json:"message"`
		payload
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	*r = AttemptResponse{canonical(d.Headers), d.payload.bytes(), d.Truncated, d.SHA256, d.Bytes, d.Reference, d.Code, d.Message}
	return nil
}

// Address is one of the upstream's, and why it was not used; Category is empty for
// the one that was.
type Address struct {
	Address  string `json:"address"`
	Category string `json:"category"`
	Detail   string `json:"detail"`
}

// Connection is the one that carried the request.
type Connection struct {
	Remote   string `json:"remote"`
	Protocol string `json:"protocol"`
	Reused   bool   `json:"reused"`
}

// Attempts reads all attempts of a command, the oldest first.
func (c *Client) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	return list[Attempt](ctx, c, path("commands", id, "attempts"))
}

// AttemptsJSON is the same as the service wrote it.
func (c *Client) AttemptsJSON(ctx context.Context, id string) (json.RawMessage, error) {
	d, _, err := read[json.RawMessage](ctx, c, call{method: http.MethodGet, path: path("commands", id, "attempts"), repeat: true})
	return d, err
}
