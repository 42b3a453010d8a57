package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Notice is something that the upstream told about a command by itself.
type Notice struct {
	ID             int64
	EventID        string // the upstream's; a copy has the same
	ReceivedAt     time.Time
	MatchedAt      *time.Time // the command was found to be meant
	ProfileVersion int
	NamedBy        string // what of the command it names: key, id, reference
	Name           string
	Weight         string // conclusive, hint
	Finding        Finding
	Reference      string
	Code           string
	Message        string
	Rule           string // of the profile, that gave the finding
	State          string // unmatched, kept, done, ignored, expired
	Effect         string // what became of it: settled, kept, none, conflict, lookup, reported
	Headers        http.Header
	Body           []byte
	SHA256         string // of the body as it came
	Notes          []string
}

// UnmarshalJSON reads the three forms that a body can take.
func (n *Notice) UnmarshalJSON(b []byte) error {
	var d struct {
		ID             int64       `json:"id"`
		EventID        string      `json:"event_id"`
		ReceivedAt     time.Time   `json:"received_at"`
		MatchedAt      *time.Time  `json:"matched_at"`
		ProfileVersion int         `json:"profile_version"`
		NamedBy        string      `json:"named_by"`
		Name           string      `json:"name"`
		Weight         string      `json:"weight"`
		Finding        Finding     `json:"finding"`
		Reference      string      `json:"reference"`
		Code           string      `json:"code"`
		Message        string      `json:"message"`
		Rule           string      `json:"rule"`
		State          string      `json:"state"`
		Effect         string      `json:"effect"`
		Headers        http.Header `json:"headers"`
		SHA256         string      `json:"sha256"`
		Notes          []string    `json:"notes"`
		payload
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	*n = Notice{
		d.ID, d.EventID, d.ReceivedAt, d.MatchedAt, d.ProfileVersion, d.NamedBy, d.Name, d.Weight, d.Finding, d.Reference, d.Code, d.Message,
		d.Rule, d.State, d.Effect, canonical(d.Headers), d.payload.bytes(), d.SHA256, d.Notes,
	}
	return nil
}

// NoticePage is all notices of a command: they stand on one page.
type NoticePage = PageOf[Notice]

// Notices reads what the upstream told about a command by itself, in the order it
// came.
func (c *Client) Notices(ctx context.Context, id string) (NoticePage, error) {
	return page[Notice](ctx, c, path("commands", id, "notices"), nil)
}
