package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"time"
)

// AuditEntry is something that a person did.
type AuditEntry struct {
	Number    int64           `json:"number"` // its place in the tenant's log, without gaps
	At        time.Time       `json:"at"`
	Actor     string          `json:"actor"` // the API key's name, or the operator
	Action    string          `json:"action"`
	CommandID string          `json:"command_id"` // empty if it was done to something else
	Reason    string          `json:"reason"`
	Data      json.RawMessage `json:"data"` // what was before, what was seen, what was asked for
	Hash      string          `json:"hash"` // over the entry and the hash before it, in hexadecimal
}

// AuditFilter selects entries; its zero value selects all.
type AuditFilter struct {
	Command string // its id
	Actor   string
	Action  string
	Cursor  string // of the page to begin with
	Limit   int    // entries per page, up to 100; 50
}

// AuditPage is one page of the audit log.
type AuditPage = PageOf[AuditEntry]

// AuditPage reads one page of what people did, the newest first.
func (c *Client) AuditPage(ctx context.Context, f AuditFilter) (AuditPage, error) {
	return page[AuditEntry](ctx, c, path("audit"), query(map[string]string{
		"command": f.Command, "actor": f.Actor, "action": f.Action, "cursor": f.Cursor, "limit": number(f.Limit),
	}))
}

// Audit yields what people did, the newest first. It ends after the first error.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[AuditEntry, error] {
	return pages(f.Cursor, func(cursor string) (AuditPage, error) {
		f.Cursor = cursor
		return c.AuditPage(ctx, f)
	})
}

// CommandAuditPage reads one page of what people did to one command, the oldest
// first. Unlike Audit it does not need the scope admin.
func (c *Client) CommandAuditPage(ctx context.Context, id, cursor string, limit int) (AuditPage, error) {
	return page[AuditEntry](ctx, c, path("commands", id, "audit"), query(map[string]string{"cursor": cursor, "limit": number(limit)}))
}

// AuditVerification is what the service found about its own log. Whoever doubts
// the service asks the database itself: `executor audit verify --database-url`.
type AuditVerification struct {
	Intact   bool         `json:"intact"`
	Entries  int64        `json:"entries"`
	LastHash string       `json:"last_hash"` // kept elsewhere, it proves later that the end was not cut off
	Faults   []AuditFault `json:"faults"`    // the first ones

	document
}

// AuditFault is a place at which the log is not as it was written.
type AuditFault struct {
	Number int64  `json:"number"`
	Detail string `json:"detail"`
}

// VerifyAudit has the tenant's log checked from its beginning.
func (c *Client) VerifyAudit(ctx context.Context) (AuditVerification, error) {
	v, _, err := read[AuditVerification](ctx, c, call{method: http.MethodGet, path: path("audit", "verify"), repeat: true, wait: longestCheck})
	return v, err
}

// longestCheck is how long the service may take to read a long log.
const longestCheck = 5 * time.Minute
