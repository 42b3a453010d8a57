package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Finding is what is found about a command as a whole.
type Finding string

const (
	FindingApplied Finding = "applied" // the upstream did it
	FindingRefused Finding = "refused" // it refused, and did nothing
	FindingPending Finding = "pending" // it knows of it, and is not done
	FindingAbsent  Finding = "absent"  // it knows nothing of it; proves something only when confirmed
	FindingUnknown Finding = "unknown" // no evidence either way
)

// Lookup is one read-only question to the upstream about an unresolved command,
// and its answer.
type Lookup struct {
	ID             int64           `json:"id"`
	Round          int             `json:"round"`    // its questions are asked one after the other, until one tells
	Question       int             `json:"question"` // its place in the profile's list, from 1
	StartedAt      time.Time       `json:"started_at"`
	EndedAt        time.Time       `json:"ended_at"`
	Instance       string          `json:"instance"` // the process that asked
	ProfileVersion int             `json:"profile_version"`
	Request        LookupRequest   `json:"request"`
	Status         int             `json:"status"`
	Category       string          `json:"category"` // the kind of failure
	Detail         string          `json:"detail"`   // the failure in words
	Finding        Finding         `json:"finding"`
	Counts         bool            `json:"counts"` // absent, late enough and spaced enough to count
	Rule           string          `json:"rule"`   // of the profile, that gave the finding
	Reference      string          `json:"reference"`
	Code           string          `json:"code"`
	Message        string          `json:"message"`
	Response       *LookupResponse `json:"response"` // nil: none came
	Notes          []string        `json:"notes"`
}

// LookupRequest is what was asked, redacted as the profile says.
type LookupRequest struct {
	Method  string   `json:"method"`
	URL     string   `json:"url"`
	Headers []Header `json:"headers"`
}

// LookupResponse is the raw answer, redacted as the profile says.
type LookupResponse struct {
	Headers   http.Header
	Body      []byte
	Truncated bool // there was more of it
}

// UnmarshalJSON reads the three forms that a body can take.
func (r *LookupResponse) UnmarshalJSON(b []byte) error {
	var d struct {
		Headers   http.Header `json:"headers"`
		Truncated bool        `json:"truncated"`
		payload
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	*r = LookupResponse{canonical(d.Headers), d.payload.bytes(), d.Truncated}
	return nil
}

// LookupPage is all lookups of a command: they stand on one page.
type LookupPage = PageOf[Lookup]

// Lookups reads all lookups of a command, the oldest first.
func (c *Client) Lookups(ctx context.Context, id string) (LookupPage, error) {
	return page[Lookup](ctx, c, path("commands", id, "lookups"), nil)
}
