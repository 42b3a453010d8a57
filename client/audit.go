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
	Number            int64           `json:"number"` // its place in the tenant's log, from 1 without gaps
	At                time.Time       `json:"at"`
	Actor             string          `json:"actor"` // the API key's name, or the operator
	Action            string          `json:"action"`
	CommandID         string          `json:"command_id"` // empty if it was done to something else
	Subject           string          `json:"subject"`    // what that is
	Reason            string          `json:"reason"`
	EvidenceReference string          `json:"evidence_reference"`
	Before            json.RawMessage `json:"before"`  // what it changed, as it was
	After             json.RawMessage `json:"after"`   // and as it became
	Details           json.RawMessage `json:"details"` // what it was based on and what was asked for
	PreviousHash      string          `json:"previous_hash"`
	Hash              string          `json:"hash"` // over the entry and the hash before it, in hexadecimal
}

// AuditFilter selects entries; its zero value selects all.
type AuditFilter struct {
	Command       string // its id
	Actor         string
	Action        string
	Subject       string    // what is no command: the name of an upstream, a key, a person; the id of a webhook, a report
	After, Before time.Time // exclusive
	Cursor        string    // of the page to begin with
	Limit         int       // entries per page, up to 100; 50
}

// AuditPage is one page of the audit log.
type AuditPage = PageOf[AuditEntry]

// AuditPage reads one page of what people did, the newest first.
func (c *Client) AuditPage(ctx context.Context, f AuditFilter) (AuditPage, error) {
	return page[AuditEntry](ctx, c, path("audit"), query(map[string]string{
		"command": f.Command, "actor": f.Actor, "action": f.Action, "subject": f.Subject, "after": moment(f.After), "before": moment(f.Before),
		"cursor": f.Cursor, "limit": number(f.Limit),
	}))
}

// Audit yields what people did, the newest first. It ends after the first error.
func (c *Client) Audit(ctx context.Context, f AuditFilter) iter.Seq2[AuditEntry, error] {
	return pages(f.Cursor, func(cursor string) (AuditPage, error) {
		f.Cursor = cursor
		return c.AuditPage(ctx, f)
	})
}

// CommandAuditPage reads one page of what people did to one command, the newest
// first. Unlike Audit it does not need the scope admin.
func (c *Client) CommandAuditPage(ctx context.Context, id, cursor string, limit int) (AuditPage, error) {
	return page[AuditEntry](ctx, c, path("commands", id, "audit"), query(map[string]string{"cursor": cursor, "limit": number(limit)}))
}

// DeploymentAuditPage reads one page of what was done to the deployment, the newest
// first: frozen, resumed, adopted. No tenant's log has it.
func (c *Client) DeploymentAuditPage(ctx context.Context, cursor string, limit int) (AuditPage, error) {
	return page[AuditEntry](ctx, c, path("deployment", "audit"), query(map[string]string{"cursor": cursor, "limit": number(limit)}))
}

// AuditVerification is what the service found about its own log. Whoever doubts
// the service asks the database itself: `executor audit verify --database-url`.
type AuditVerification struct {
	Sound   bool          `json:"sound"`
	Entries int64         `json:"entries"` // that hold, from the first on
	Head    string        `json:"head"`    // the last of them, as number:hash
	Problem *AuditProblem `json:"problem"` // the first one; what comes after it may be wrong too

	document
}

// AuditProblem is where and how the log is not as it was written.
type AuditProblem struct {
	Number int64  `json:"number"` // the first bad entry
	Kind   string `json:"kind"`   // edited, missing, end_missing, replaced, head_lost, format
	Detail string `json:"detail"`
}

// VerifyAudit has the tenant's log checked from its beginning. A head that was
// noted elsewhere and is given as pin proves that the log was not cut off or
// written anew either; it may be empty.
func (c *Client) VerifyAudit(ctx context.Context, pin string) (AuditVerification, error) {
	v, _, err := read[AuditVerification](ctx, c, call{
		method: http.MethodGet, path: path("audit", "verify"), query: query(map[string]string{"pin": pin}), repeat: true, wait: longestCheck,
	})
	return v, err
}

// longestCheck is how long the service may take to read a long log.
const longestCheck = 5 * time.Minute
