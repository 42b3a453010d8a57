package client

import (
	"encoding/json"
	"time"
)

// Command is one intent and what became of it.
type Command struct {
	ID              string
	State           State
	Final           bool // it has an answer; false again while a resend is under way
	Version         int  // grows with every change
	Key             string
	Upstream        string
	Operation       string
	ProfileVersion  int
	BodyKind        BodyKind // how its body can be sent again
	Priority        Priority
	CreatedAt       time.Time
	Deadline        time.Time // no attempt starts after it
	NotBefore       *time.Time
	FinalizedAt     *time.Time
	NextAttemptAt   *time.Time
	CancelRequested bool
	Waiting         *Waiting // what a pending command waits for
	Outcome         Outcome  // the newest one handed out; nil if there is none yet
	Record          Record
	Reconciliation  *Reconciliation
	Metadata        map[string]string

	document json.RawMessage
}

// JSON is the command as the service wrote it, with members that this client does
// not know.
func (c Command) JSON() json.RawMessage { return c.document }

// Waiting says what a pending command waits for. Only its deadline ends the wait
// for certain.
type Waiting struct {
	For   string     `json:"for"` // backoff, permit, rate, retry_token, throttle, paused, frozen, credential, not_before
	Until *time.Time `json:"until"`
}

// Record is the account of all attempts together.
type Record struct {
	Attempts          int       `json:"attempts"`
	LastResponseClass string    `json:"last_response_class"` // such as 5xx
	LastTimeout       *Timeout  `json:"last_timeout"`
	ElapsedMS         int64     `json:"elapsed_ms"`
	Identity          *Identity `json:"operation_identity"` // nil for operations whose key goes nowhere
	Boundary          string    `json:"boundary"`           // not_crossed, possibly_crossed, crossed
}

// Timeout is the last one there was.
type Timeout struct {
	Kind string    `json:"kind"`
	At   time.Time `json:"at"`
}

// Identity is where the upstream finds the key.
type Identity struct {
	In   string `json:"in"` // header, query, body
	Name string `json:"name"`
	Key  string `json:"key"`
}

// Reconciliation is how an unresolved command is being settled.
type Reconciliation struct {
	Phase        string     `json:"phase"` // lookup, review, closed
	Lookups      int        `json:"lookups"`
	NextLookupAt *time.Time `json:"next_lookup_at"`
	AbsentInARow int        `json:"absent_in_a_row"`
	Conflicts    int        `json:"conflicts"` // evidence against the settled state that no person has looked at
	Assignee     string     `json:"assignee"`  // who looks after it; empty: nobody in particular
}

// commandDocument is a command on the wire.
type commandDocument struct {
	ID              string            `json:"id"`
	State           State             `json:"state"`
	Final           bool              `json:"final"`
	Version         int               `json:"version"`
	Key             string            `json:"idempotency_key"`
	Upstream        string            `json:"upstream"`
	Operation       string            `json:"operation"`
	ProfileVersion  int               `json:"profile_version"`
	BodyKind        BodyKind          `json:"body_kind"`
	Priority        Priority          `json:"priority"`
	CreatedAt       time.Time         `json:"created_at"`
	Deadline        time.Time         `json:"deadline"`
	NotBefore       *time.Time        `json:"not_before"`
	FinalizedAt     *time.Time        `json:"finalized_at"`
	NextAttemptAt   *time.Time        `json:"next_attempt_at"`
	CancelRequested bool              `json:"cancel_requested"`
	Waiting         *Waiting          `json:"waiting"`
	Outcome         *outcomeDocument  `json:"outcome"`
	Record          Record            `json:"decision_record"`
	Reconciliation  *Reconciliation   `json:"reconciliation"`
	Metadata        map[string]string `json:"metadata"`
}

// UnmarshalJSON reads a command as the service writes it.
func (c *Command) UnmarshalJSON(b []byte) error {
	var d commandDocument
	if err := json.Unmarshal(b, &d); err != nil {
		return err
	}
	if d.ID == "" || d.State == "" {
		return errForeign
	}
	*c = Command{
		d.ID, d.State, d.Final, d.Version, d.Key, d.Upstream, d.Operation, d.ProfileVersion, d.BodyKind, d.Priority, d.CreatedAt, d.Deadline,
		d.NotBefore, d.FinalizedAt, d.NextAttemptAt, d.CancelRequested, d.Waiting, nil, d.Record, d.Reconciliation, d.Metadata,
		append(json.RawMessage{}, b...),
	}
	if d.Outcome == nil {
		return nil
	}
	var err error
	c.Outcome, err = d.Outcome.outcome()
	return err
}

// MarshalJSON writes the command as the service wrote it.
func (c Command) MarshalJSON() ([]byte, error) {
	if c.document == nil {
		return []byte("null"), nil
	}
	return c.document, nil
}
