package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Resolution says how a command really ended.
type Resolution struct {
	State             State // StateSuccess, StateRejected or StateCancelled
	Reason            string
	EvidenceReference string // where the evidence can be seen: a ticket, a statement
	Reference         string // the upstream's name for what was done; a success needs it or the evidence
	Code, Message     string // the upstream's; rejected only
}

// Resolve settles an unresolved command on a person's word. Version is that of the
// command which the decision was made on; ErrStale says that it has changed since.
// Resolve is not repeated by itself: after an *Unanswered read the command first.
func (c *Client) Resolve(ctx context.Context, id string, version int, r Resolution) (Command, error) {
	return c.act(ctx, id, "resolve", version, r.document())
}

// Correct moves a settled command, which evidence contradicts, to another settled
// state; its caller is told by the event command.corrected. The state that it has
// already dismisses the conflicts. Like Resolve it takes a version and is not
// repeated by itself.
func (c *Client) Correct(ctx context.Context, id string, version int, r Resolution) (Command, error) {
	return c.act(ctx, id, "correct", version, r.document())
}

// LookUp asks the upstream about an unresolved command now. Where a person has the
// command it is one round, and it stays with the person. Like Resolve it takes a
// version and is not repeated by itself.
func (c *Client) LookUp(ctx context.Context, id string, version int, reason string) (Command, error) {
	return c.act(ctx, id, "lookup", version, map[string]string{"reason": reason})
}

// Resending authorises one more attempt.
type Resending struct {
	Reason string
	// Absent says that a person found that nothing of the command arrived; the
	// evidence is needed then. An operation that is not safely idempotent is sent
	// again on such a finding only, or on one of the lookups'.
	Absent            bool
	EvidenceReference string
}

// Resend has an unresolved command sent once more, under the same key and with the
// same bytes. One authorisation is one attempt. Like Resolve it takes a version and
// is not repeated by itself.
func (c *Client) Resend(ctx context.Context, id string, version int, r Resending) (Command, error) {
	return c.act(ctx, id, "resend", version, struct {
		Reason            string `json:"reason"`
		Absent            bool   `json:"absent,omitempty"`
		EvidenceReference string `json:"evidence_reference,omitempty"`
	}{r.Reason, r.Absent, r.EvidenceReference})
}

// Assign says who looks after a command; an empty assignee gives it back to
// everybody. Like Resolve it takes a version and is not repeated by itself.
func (c *Client) Assign(ctx context.Context, id string, version int, assignee, reason string) (Command, error) {
	return c.act(ctx, id, "assign", version, struct {
		Assignee *string `json:"assignee"`
		Reason   string  `json:"reason"`
	}{orNull(assignee), reason})
}

// Note keeps a text with a command. Like Resolve it takes a version and is not
// repeated by itself.
func (c *Client) Note(ctx context.Context, id string, version int, text string) (Command, error) {
	return c.act(ctx, id, "notes", version, map[string]string{"text": text})
}

// act does one of them.
func (c *Client) act(ctx context.Context, id, deed string, version int, body any) (Command, error) {
	if version <= 0 {
		return Command{}, &Invalid{"Version", "the version is missing: it is that of the command which the decision was made on"}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return Command{}, err
	}
	return once[Command](ctx, c, call{
		method: http.MethodPost, path: path("commands", id, deed), body: text,
		headers: ifMatch(version),
	})
}

func ifMatch(version int) map[string]string {
	return map[string]string{"If-Match": fmt.Sprintf("%q", fmt.Sprint(version))}
}

// once sends what is not repeated by itself.
func once[T any](ctx context.Context, c *Client, r call) (T, error) {
	var v T
	res, err := c.do(ctx, r)
	if err != nil {
		return v, unanswered(err)
	}
	if err := json.Unmarshal(res.body, &v); err != nil {
		return v, &Unanswered{fmt.Errorf("read the answer to %s %s: %w", r.method, r.path, err)}
	}
	if k, ok := any(&v).(interface{ keep([]byte) }); ok {
		k.keep(res.body)
	}
	return v, nil
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

type resolutionDocument struct {
	State             State  `json:"state,omitempty"`
	Reason            string `json:"reason"`
	EvidenceReference string `json:"evidence_reference,omitempty"`
	Reference         string `json:"reference,omitempty"`
	Code              string `json:"code,omitempty"`
	Message           string `json:"message,omitempty"`
}

func (r Resolution) document() resolutionDocument {
	return resolutionDocument(r)
}
