package client

import (
	"context"
	"net/http"
	"time"
)

// Deployment says whose data the service works on and whether sending stands
// still.
type Deployment struct {
	ID           string     `json:"id"`         // that the data belongs to
	ProcessID    string     `json:"process_id"` // that the answering process belongs to
	Frozen       bool       `json:"frozen"`     // nothing is sent
	FrozenAt     *time.Time `json:"frozen_at"`
	FrozenBy     string     `json:"frozen_by"`
	FrozenReason string     `json:"frozen_reason"`
	// Doubtful: after a promotion or a restore, what was committed before may be
	// lost. Resuming counts every open command as possibly carried out.
	Doubtful bool `json:"doubtful"`
}

// Deployment reads it.
func (c *Client) Deployment(ctx context.Context) (Deployment, error) {
	d, _, err := read[Deployment](ctx, c, call{method: http.MethodGet, path: path("deployment"), repeat: true})
	return d, err
}

// Freeze stops sending everywhere. Commands are still accepted and wait.
func (c *Client) Freeze(ctx context.Context, reason string) (Deployment, error) {
	return because[Deployment](ctx, c, path("deployment", "freeze"), reason)
}

// Resume sends again. A reason is kept in the audit.
func (c *Client) Resume(ctx context.Context, reason ...string) (Deployment, error) {
	d, _, err := read[Deployment](ctx, c, call{method: http.MethodPost, path: path("deployment", "resume"), body: why(reason)})
	return d, err
}

// Adopt makes the data the answering process's own, as for a copy that shall send.
// It stays frozen until Resume. A reason is kept in the audit.
func (c *Client) Adopt(ctx context.Context, reason ...string) (Deployment, error) {
	d, _, err := read[Deployment](ctx, c, call{method: http.MethodPost, path: path("deployment", "adopt"), body: why(reason)})
	return d, err
}
