package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// BulkRequest does one thing to every review that a filter selects.
type BulkRequest struct {
	ID     string // NewID makes one; the same id again starts nothing. Not needed for a dry run
	Action string // resolve, lookup, resend, assign or note
	Filter ReviewFilter
	Reason string // needed unless it is a dry run; the text of a note

	EvidenceReference string
	State             State  // with resolve
	Code, Message     string // with resolve as rejected
	Assignee          string // with assign; empty for nobody
	Absent            bool   // with resend: a person found that nothing of any of them arrived

	DryRun        bool // count, and do nothing
	ExpectedCount *int // of a dry run: refused if the filter selects another number now
}

// Bulk is how far a bulk action is.
type Bulk struct {
	ID        string         `json:"id"`
	Action    string         `json:"action"`
	Actor     string         `json:"actor"`
	Reason    string         `json:"reason"`
	CreatedAt *time.Time     `json:"created_at"` // nil for a dry run
	State     BulkState      `json:"state"`
	Count     int            `json:"count"` // selected
	Done      int            `json:"done"`
	Refused   int            `json:"refused"`  // in a dry run, those that would be now
	Problems  map[string]int `json:"problems"` // how often each refused it
	Items     []BulkItem     `json:"items"`    // in the order they are worked on; none in a dry run
	Sample    []BulkItem     `json:"sample"`   // the oldest ones of a dry run

	document
}

// BulkItem is what became of one command.
type BulkItem struct {
	CommandID string `json:"command_id"`
	Result    string `json:"result"`  // pending, done, refused
	Problem   string `json:"problem"` // why it was refused: a problem's code, or stale: it has moved on
	Detail    string `json:"detail"`  // the same in words
}

// BulkState is how far a bulk action is.
type BulkState string

const (
	BulkRunning BulkState = "running"
	BulkDone    BulkState = "done"    // every item has its result
	BulkPreview BulkState = "preview" // a dry run: nothing was started
)

// Over says that nothing more happens.
func (b Bulk) Over() bool { return b.State != BulkRunning }

// NewID returns a random UUID, such as the id of a bulk action.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// StartBulk starts a bulk action, or counts with DryRun. The reviews that the filter
// selects now are written down and done one by one, as a person would. It repeats
// by itself where the answer is lost: the id makes that safe.
func (c *Client) StartBulk(ctx context.Context, r BulkRequest) (Bulk, error) {
	if r.ID == "" && !r.DryRun {
		return Bulk{}, &Invalid{"ID", "the bulk action has no id: choose one with NewID and keep it, so that it can be repeated"}
	}
	body, err := json.Marshal(r.document())
	if err != nil {
		return Bulk{}, err
	}
	b, _, err := read[Bulk](ctx, c, call{method: http.MethodPost, path: path("reviews", "bulk"), body: body, repeat: true})
	return b, err
}

// Bulk reads how far a bulk action is.
func (c *Client) Bulk(ctx context.Context, id string) (Bulk, error) {
	b, _, err := read[Bulk](ctx, c, call{method: http.MethodGet, path: path("reviews", "bulk", id), repeat: true})
	return b, err
}

// WaitBulk returns once a bulk action is over, and shows each what it sees until
// then; each may be nil. If ctx ends first, the error is ctx's and the bulk is as it
// was last seen.
func (c *Client) WaitBulk(ctx context.Context, id string, each func(Bulk)) (Bulk, error) {
	return poll(ctx, func(ctx context.Context) (Bulk, error) { return c.Bulk(ctx, id) }, Bulk.Over, each)
}

type bulkDocument struct {
	ID                string         `json:"id,omitempty"`
	Action            string         `json:"action"`
	Filter            filterDocument `json:"filter"`
	Reason            string         `json:"reason,omitempty"`
	EvidenceReference string         `json:"evidence_reference,omitempty"`
	State             State          `json:"state,omitempty"`
	Code              string         `json:"code,omitempty"`
	Message           string         `json:"message,omitempty"`
	Assignee          string         `json:"assignee,omitempty"`
	Absent            bool           `json:"absent,omitempty"`
	DryRun            bool           `json:"dry_run,omitempty"`
	ExpectedCount     *int           `json:"expected_count,omitempty"`
}

func (r BulkRequest) document() bulkDocument {
	return bulkDocument{
		r.ID, r.Action, r.Filter.document(), r.Reason, r.EvidenceReference, r.State, r.Code, r.Message, r.Assignee, r.Absent, r.DryRun, r.ExpectedCount,
	}
}

type filterDocument struct {
	Kinds       []ReviewKind      `json:"kind,omitempty"`
	Upstream    string            `json:"upstream,omitempty"`
	Operation   string            `json:"operation,omitempty"`
	Reasons     []string          `json:"reason,omitempty"`
	Evidence    []string          `json:"evidence,omitempty"`
	Assignee    *string           `json:"assignee,omitempty"`
	OlderThan   string            `json:"older_than,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	MetadataMin map[string]string `json:"metadata_min,omitempty"`
	MetadataMax map[string]string `json:"metadata_max,omitempty"`
}

func (f ReviewFilter) document() filterDocument {
	return filterDocument{
		f.Kinds, f.Upstream, f.Operation, f.Reasons, f.Evidence, f.Assignee, span(f.OlderThan), f.Metadata, f.MetadataMin, f.MetadataMax,
	}
}
