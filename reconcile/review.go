package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// ErrVersionRequired: an action names the version of the command that the person
// saw, or it is not done.
var ErrVersionRequired = errors.New("the expected version of the command is missing")

// Stale says that the command has changed since the person saw it.
type Stale struct {
	Version int // of the command now
}

func (e *Stale) Error() string {
	return fmt.Sprintf("the command has changed meanwhile and has version %d now", e.Version)
}

// Refused says why an action cannot be done as things stand.
type Refused struct {
	Code   string // one word for programs, one of the constants Refused…
	Detail string // what it means and what would help
	Count  int    // how many commands a refused bulk action would have been for
}

func (e *Refused) Error() string { return e.Code + ": " + e.Detail }

// Codes of refusals.
const (
	RefusedNotUnresolved    = "not_unresolved"
	RefusedNotSettled       = "not_settled"
	RefusedNothingToReview  = "nothing_to_review"
	RefusedNoConflict       = "no_conflict"
	RefusedNoLookup         = "no_lookup"
	RefusedLookupInProgress = "lookup_in_progress"
	RefusedCancelRequested  = "cancel_requested"
	RefusedResendNotSafe    = "resend_not_safe"
	RefusedTooMany          = "too_many"
	RefusedCountDiffers     = "count_differs"
	RefusedIDReused         = "id_reused"
)

// RefusalCodes lists them.
func RefusalCodes() []string {
	return []string{
		RefusedNotUnresolved, RefusedNotSettled, RefusedNothingToReview, RefusedNoConflict, RefusedNoLookup,
		RefusedLookupInProgress, RefusedCancelRequested, RefusedResendNotSafe, RefusedTooMany, RefusedCountDiffers, RefusedIDReused,
	}
}

// Kinds of items in the queue.
const (
	ReviewUnresolved = "unresolved" // in doubt, and nothing automatic goes on
	ReviewConflict   = "conflict"   // settled, and evidence contradicts it
)

// ReviewKinds lists them.
func ReviewKinds() []string { return []string{ReviewUnresolved, ReviewConflict} }

// Orders of the queue.
const (
	ReviewSortAge      = "age"      // what has waited longest first
	ReviewSortDeadline = "deadline" // the command's deadline, the earliest first
)

// ReviewSorts lists them; the first is the default.
func ReviewSorts() []string { return []string{ReviewSortAge, ReviewSortDeadline} }

// What a person can do about an item.
const (
	ActionResolve = "resolve"
	ActionLookup  = "lookup"
	ActionResend  = "resend"
	ActionAssign  = "assign"
	ActionNote    = "note"
	ActionCorrect = "correct"
	ActionDismiss = "dismiss" // a correction to the same state: the conflicts are over
	ActionCancel  = "cancel"  // nothing more is to be sent

	// ActionResendAbsent is a resend that takes the person's own finding that
	// nothing has arrived.
	ActionResendAbsent = "resend_absent"
)

// ReviewFilter narrows the queue. Tenant is required, zero fields do not narrow.
type ReviewFilter struct {
	Tenant      string            `json:"-"`
	Upstream    string            `json:"upstream,omitempty"`
	Operation   string            `json:"operation,omitempty"`
	Kinds       []string          `json:"kinds,omitempty"`
	Reasons     []string          `json:"reasons,omitempty"`  // of the outcome, or why it was handed to a person
	Evidence    []string          `json:"evidence,omitempty"` // of the last attempt that may have acted
	Assignee    *string           `json:"assignee,omitempty"` // "" is nobody
	OlderThan   time.Duration     `json:"older_than,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`     // equal texts
	MetadataMin map[string]string `json:"metadata_min,omitempty"` // numbers; what does not look like one is left out
	MetadataMax map[string]string `json:"metadata_max,omitempty"`
	Sort        string            `json:"-"` // ReviewSorts; "" is age. A cursor holds for the sort it came from
	Cursor      string            `json:"-"`
	Limit       int               `json:"-"`
}

// ReviewItem is a command that waits for a person.
type ReviewItem struct {
	Kind         string
	Command      commands.Command
	Since        time.Time // it is unresolved, or its oldest open conflict came up
	Assignee     string
	HandedReason string           // why no automation goes on
	Evidence     outcome.Evidence // of the last attempt that may have acted; "" if there is none
	Conflicts    []Conflict       // those that are open
	Actions      []string         // that would be accepted now
}

// Reviews reads a page of what waits for a person, in the order asked for, and the
// cursor of the next page ("" at the end).
func (s *Store) Reviews(ctx context.Context, f ReviewFilter) ([]ReviewItem, string, error) {
	limit := min(f.Limit, commands.MaxPage)
	if limit <= 0 {
		limit = defaultReviews
	}
	found, err := s.queue(ctx, s.pool, f, limit+1)
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(found) > limit {
		found = found[:limit]
		next = found[limit-1].cursor(f.sort())
	}
	list, err := s.reviewItems(ctx, f.Tenant, found)
	return list, next, err
}

// CountReviews counts what waits for a person, up to commands.CountBound.
func (s *Store) CountReviews(ctx context.Context, f ReviewFilter) (commands.Count, error) {
	n, err := s.countQueue(ctx, s.pool, f, commands.CountBound+1)
	if err != nil {
		return commands.Count{}, err
	}
	return commands.CountUpTo(int64(n), commands.CountBound), nil
}

// defaultReviews is how many items a page has if nobody says.
const defaultReviews = 50

// reviewItems completes what the queue found. What was settled since is left out.
func (s *Store) reviewItems(ctx context.Context, tenant string, found []queued) ([]ReviewItem, error) {
	ids := make([]uuid.UUID, len(found))
	for i, q := range found {
		ids[i] = q.CommandID
	}
	list, err := s.commands.Many(ctx, tenant, ids)
	if err != nil {
		return nil, err
	}
	standings, err := s.standings(ctx, s.pool, ids)
	if err != nil {
		return nil, unavailable("read what may be done about commands", err)
	}
	conflicts, err := s.conflicts(ctx, ids)
	if err != nil {
		return nil, unavailable("read conflicts", err)
	}
	items := make([]ReviewItem, 0, len(found))
	for _, q := range found {
		c, st := list[q.CommandID], standings[q.CommandID]
		open := q.Kind == ReviewUnresolved && c.State == outcome.StateUnresolved || q.Kind == ReviewConflict && len(conflicts[q.CommandID]) > 0
		if !open {
			continue
		}
		items = append(items, ReviewItem{
			Kind: q.Kind, Command: c, Since: q.Since, Assignee: q.Assignee, HandedReason: q.HandedReason, Evidence: q.Evidence,
			Conflicts: conflicts[q.CommandID], Actions: st.allowed(),
		})
	}
	return items, nil
}
