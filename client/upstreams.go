package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Upstream is a remote service and its newest profile.
type Upstream struct {
	Name           string     `json:"name"`
	Tenant         string     `json:"tenant"`
	Version        int        `json:"version"`
	Description    string     `json:"description"`
	BaseURL        string     `json:"base_url"`
	Operations     []string   `json:"operations"`
	Paused         *Pause     `json:"paused"`          // nil: it is not
	ThrottledUntil *time.Time `json:"throttled_until"` // the upstream said when to come back
	BudgetTokens   float64    `json:"budget_tokens"`   // left for retries
	CreatedAt      time.Time  `json:"created_at"`
	UpdatedAt      time.Time  `json:"updated_at"`
	Profile        string     `json:"profile"`  // the text as applied; not in lists
	Warnings       []Warning  `json:"warnings"` // not in lists
	Changed        bool       `json:"changed"`  // after PutUpstream: it made a new version
}

// Pause says who stopped sending to an upstream, and why.
type Pause struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Warning is a place where a profile is incomplete or promises too much.
type Warning struct {
	Code   string `json:"code"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Path   string `json:"path"`
	Detail string `json:"detail"`
}

// Upstreams reads all upstreams of the key's tenant, by name.
func (c *Client) Upstreams(ctx context.Context) ([]Upstream, error) {
	return list[Upstream](ctx, c, path("upstreams"))
}

// Upstream reads one with its profile.
func (c *Client) Upstream(ctx context.Context, name string) (Upstream, error) {
	u, _, err := read[Upstream](ctx, c, call{method: http.MethodGet, path: path("upstreams", name), repeat: true})
	return u, err
}

// PutUpstream applies a profile (YAML). The same text again makes no new version;
// a profile that does not hold is a *Problem with lines and columns. It is not
// repeated by itself: another's newer profile may have come between. A reason is kept
// in the audit.
func (c *Client) PutUpstream(ctx context.Context, name string, profile []byte, reason ...string) (Upstream, error) {
	u, _, err := read[Upstream](ctx, c, call{method: http.MethodPut, path: path("upstreams", name), query: query(map[string]string{"reason": strings.Join(reason, "; ")}), body: append([]byte{}, profile...), media: "application/yaml"})
	return u, err
}

// PauseUpstream starts no further attempt there; commands wait, and their
// deadlines run on.
func (c *Client) PauseUpstream(ctx context.Context, name, reason string) (Upstream, error) {
	return because[Upstream](ctx, c, path("upstreams", name, "pause"), reason)
}

// ResumeUpstream sends there again. A reason is kept in the audit.
func (c *Client) ResumeUpstream(ctx context.Context, name string, reason ...string) (Upstream, error) {
	u, _, err := read[Upstream](ctx, c, call{method: http.MethodPost, path: path("upstreams", name, "resume"), body: why(reason)})
	return u, err
}

// Explain returns the table of what each kind of failure would end in, for people.
func (c *Client) Explain(ctx context.Context, name string) (string, error) {
	res, err := c.do(ctx, call{method: http.MethodGet, path: path("upstreams", name, "explain"), accept: "text/plain", repeat: true})
	return string(res.body), plain(err)
}

// ExplainJSON returns the same for programs.
func (c *Client) ExplainJSON(ctx context.Context, name string) (json.RawMessage, error) {
	m, _, err := read[json.RawMessage](ctx, c, call{method: http.MethodGet, path: path("upstreams", name, "explain"), repeat: true})
	return m, err
}

// why is the body with a reason of those calls that need none; nil without one.
func why(reason []string) []byte {
	text := strings.Join(reason, "; ")
	if text == "" {
		return nil
	}
	body, _ := json.Marshal(map[string]string{"reason": text}) // a map of texts is always JSON
	return body
}

// because posts a reason, which is kept with the caller's name.
func because[T any](ctx context.Context, c *Client, p, reason string) (T, error) {
	body, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		var none T
		return none, err
	}
	v, _, err := read[T](ctx, c, call{method: http.MethodPost, path: p, body: body})
	return v, err
}
