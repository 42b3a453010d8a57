package client

import (
	"context"
	"iter"
	"net/url"
	"time"
)

// ReviewKind is why something waits for a person.
type ReviewKind string

const (
	ReviewUnresolved ReviewKind = "unresolved" // nobody knows yet, and no automation will find out
	ReviewConflict   ReviewKind = "conflict"   // settled, and evidence contradicts it
)

// Review is something that waits for a person.
type Review struct {
	Kind         ReviewKind `json:"kind"`
	Since        time.Time  `json:"since"`         // it has waited for a person from then on
	Assignee     string     `json:"assignee"`      // empty: nobody in particular
	HandedReason string     `json:"handed_reason"` // why the automation gave it to people
	Evidence     string     `json:"evidence"`      // of the last attempt that may have crossed
	Conflicts    []Conflict `json:"conflicts"`
	// Actions are what can be done to it now: resolve, lookup, resend, resend_absent (on
	// a person's own finding that nothing arrived), assign, note, correct, dismiss (a
	// correction to the state that it has).
	Actions []string `json:"actions"`
	Command Command  `json:"command"`
}

// Conflict is evidence that contradicts a settled state.
type Conflict struct {
	ID        int64     `json:"id"`
	At        time.Time `json:"at"`
	Source    string    `json:"source"`  // as the DecidedBy of a Decision
	Finding   Finding   `json:"finding"` // empty for late evidence of one attempt
	Answer    string    `json:"answer"`  // of late evidence
	Status    int       `json:"status"`
	Reference string    `json:"reference"`
	Code      string    `json:"code"`
	Message   string    `json:"message"`
	Attempt   int       `json:"attempt"` // that late evidence belongs to
}

// ReviewFilter selects reviews; its zero value selects all.
type ReviewFilter struct {
	Kinds     []ReviewKind
	Upstream  string
	Operation string
	Reasons   []string      // of the outcome, or why it was handed to people
	Evidence  []string      // of the last attempt that may have crossed
	Assignee  *string       // empty: those that nobody looks after
	OlderThan time.Duration // waiting for at least so long
	Metadata  map[string]string
	// MetadataMin and MetadataMax select commands whose metadata is a number within
	// the bounds.
	MetadataMin, MetadataMax map[string]string

	// Not for bulk actions, which take all.
	Cursor string // of the page to begin with
	Limit  int    // reviews per page, up to 100; 50
}

// ReviewPage is one page of reviews, the oldest first.
type ReviewPage = PageOf[Review]

// ReviewsPage reads one page of what waits for a person.
func (c *Client) ReviewsPage(ctx context.Context, f ReviewFilter) (ReviewPage, error) {
	return page[Review](ctx, c, path("reviews"), f.query())
}

// Reviews yields what waits for a person, the oldest first. It ends after the first
// error.
func (c *Client) Reviews(ctx context.Context, f ReviewFilter) iter.Seq2[Review, error] {
	return pages(f.Cursor, func(cursor string) (ReviewPage, error) {
		f.Cursor = cursor
		return c.ReviewsPage(ctx, f)
	})
}

func (f ReviewFilter) query() url.Values {
	q := query(map[string]string{
		"upstream": f.Upstream, "operation": f.Operation, "older_than": span(f.OlderThan), "cursor": f.Cursor, "limit": number(f.Limit),
	})
	for _, kind := range f.Kinds {
		q.Add("kind", string(kind))
	}
	for _, reason := range f.Reasons {
		q.Add("reason", reason)
	}
	for _, evidence := range f.Evidence {
		q.Add("evidence", evidence)
	}
	if f.Assignee != nil {
		q.Set("assignee", *f.Assignee)
	}
	named(q, "metadata", f.Metadata)
	named(q, "metadata_min", f.MetadataMin)
	named(q, "metadata_max", f.MetadataMax)
	return q
}
