package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/upstreams"
)

// MaxBulk is how many commands one bulk action is for, at most.
const MaxBulk = 10_000

// ErrBulkNotFound: the tenant has started no bulk action under that id.
var ErrBulkNotFound = errors.New("bulk action not found")

// Selected is a command that a person picked, as they saw it.
type Selected struct {
	Command uuid.UUID
	Version int
}

// BulkRequest asks for one action on everything in the queue that a filter finds, or
// on commands that a person picked.
type BulkRequest struct {
	ID                uuid.UUID // chosen by whoever asks: under the same id it is started once
	Tenant            string
	Actor             string
	Action            string       // resolve, lookup, resend, assign or note
	Filter            ReviewFilter // has to leave something out; with a selection it only says how that was found
	Selection         []Selected   // those that were picked, instead of what the filter finds
	Reason            string
	EvidenceReference string
	Resolution        Resolution // for resolve
	Assignee          string     // for assign
	Absent            bool       // for resend
	DryRun            bool       // only say what it would be done to
	ExpectedCount     *int       // start it only for as many; nil = whatever there is
}

// BulkActions lists what can be done to many.
func BulkActions() []string {
	return []string{ActionResolve, ActionLookup, ActionResend, ActionAssign, ActionNote}
}

// BulkResult is what became of one command of a bulk action.
type BulkResult string

const (
	BulkPending BulkResult = "pending"
	BulkDone    BulkResult = "done"
	BulkRefused BulkResult = "refused"
)

// BulkResults lists them.
func BulkResults() []BulkResult { return []BulkResult{BulkPending, BulkDone, BulkRefused} }

// Where a bulk action stands.
const (
	BulkStateRunning = "running"
	BulkStateDone    = "done"
	BulkStatePreview = "preview" // a dry run: nothing was started
)

// Bulk is a bulk action and how far it is.
type Bulk struct {
	ID        uuid.UUID
	Action    string
	Actor     string
	Reason    string
	CreatedAt time.Time
	Order     BulkOrder
	State     string
	Count     int // commands it is for
	Done      int
	Refused   int            // in a dry run: would be now
	Problems  map[string]int // how often each problem refused it
	Items     []BulkItem
	Sample    []BulkItem // of a dry run: the oldest of them
	Selection []Selected // of a dry run: all of them
}

// BulkItem is one command of a bulk action.
type BulkItem struct {
	Command uuid.UUID
	Result  BulkResult
	Problem string // stale, not_found, internal_error or a code of Refused
	Detail  string
}

// BulkOrder is what is to be done, as it is stored and compared.
type BulkOrder struct {
	Action            string       `json:"action"`
	Filter            ReviewFilter `json:"filter"`
	Picked            *Picked      `json:"picked,omitempty"` // nil if the filter selected
	Reason            string       `json:"reason"`
	EvidenceReference string       `json:"evidence_reference,omitempty"`
	Resolution        *Resolution  `json:"resolution,omitempty"`
	Assignee          string       `json:"assignee,omitempty"`
	Absent            bool         `json:"absent,omitempty"`
}

// Picked stands for a selection, which may be long.
type Picked struct {
	Count  int    `json:"count"`
	SHA256 string `json:"sha256"` // of the ids and versions
}

// picked leaves out of a selection what is in it twice, and sums it up.
func (r *BulkRequest) picked() (*Picked, []upstreams.FieldError) {
	seen := make(map[uuid.UUID]bool, len(r.Selection))
	var once []Selected
	sum := sha256.New()
	for _, c := range r.Selection {
		if c.Version < 1 {
			return nil, []upstreams.FieldError{field("/selection", "missing_version", "Each command is selected with the version that you saw.")}
		}
		if !seen[c.Command] {
			seen[c.Command] = true
			once = append(once, c)
			fmt.Fprintf(sum, "%s %d\n", c.Command, c.Version)
		}
	}
	r.Selection = once
	return &Picked{Count: len(once), SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// order checks a request and keeps what matters for its action.
func (r *BulkRequest) order() (BulkOrder, error) {
	a := Action{Actor: r.Actor, Reason: r.Reason, EvidenceReference: r.EvidenceReference}
	o := BulkOrder{Action: r.Action, Filter: r.Filter}
	var fields []upstreams.FieldError
	switch r.Action {
	case ActionResolve:
		fields = append(r.Resolution.check(a), r.Resolution.checkProof(a)...)
		o.Resolution = &r.Resolution
	case ActionResend:
		fields = checkAbsent(a, r.Absent)
		o.Absent = r.Absent
	case ActionAssign:
		o.Assignee = strings.TrimSpace(r.Assignee)
		fields = checkLine("/assignee", o.Assignee, maxName)
	case ActionLookup, ActionNote:
	default:
		fields = append(fields, field("/action", "unknown_action", "There is no bulk action %q: it is one of %s.", r.Action, strings.Join(BulkActions(), ", ")))
	}
	switch {
	case len(r.Selection) > 0:
		var wrong []upstreams.FieldError
		o.Picked, wrong = r.picked()
		fields = append(fields, wrong...)
	case !r.Filter.narrows():
		fields = append(fields, field("/filter", "missing", "A bulk action needs a filter. For all there is, name the kinds."))
	}
	if r.ID == uuid.Nil && !r.DryRun {
		fields = append(fields, field("/id", "missing", "A bulk action needs an id, under which it is started once however often you ask."))
	}
	if err := checkAction(&a, fields...); err != nil {
		return o, err
	}
	o.Reason, o.EvidenceReference = a.Reason, a.EvidenceReference
	return o, r.Filter.check()
}

// Bulk reads a bulk action of the tenant and what became of each command, in the
// order in which they are worked on.
func (s *Store) Bulk(ctx context.Context, tenant string, id uuid.UUID) (Bulk, error) {
	b := Bulk{ID: id, Problems: map[string]int{}}
	var order string
	err := s.pool.QueryRow(ctx, `SELECT action, actor, created_at, request::text FROM bulk_actions WHERE tenant = $1 AND id = $2`, tenant, id).
		Scan(&b.Action, &b.Actor, &b.CreatedAt, &order)
	if errors.Is(err, pgx.ErrNoRows) {
		return Bulk{}, ErrBulkNotFound
	}
	if err != nil {
		return Bulk{}, unavailable("read a bulk action", err)
	}
	if err := b.readOrder(order); err != nil {
		return Bulk{}, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT command_id, result, problem, detail FROM bulk_items WHERE tenant = $1 AND bulk_id = $2 ORDER BY number`, tenant, id)
	if err != nil {
		return Bulk{}, unavailable("read a bulk action", err)
	}
	if b.Items, err = pgx.CollectRows(rows, pgx.RowToStructByPos[BulkItem]); err != nil {
		return Bulk{}, unavailable("read a bulk action", err)
	}
	b.sum()
	return b, nil
}

func (b *Bulk) readOrder(text string) error {
	if err := json.Unmarshal([]byte(text), &b.Order); err != nil {
		return fmt.Errorf("read bulk action %s: %w", b.ID, err)
	}
	b.Reason = b.Order.Reason
	return nil
}

// sum counts the items.
func (b *Bulk) sum() {
	b.Count, b.State = len(b.Items), BulkStateDone
	for _, i := range b.Items {
		switch i.Result {
		case BulkDone:
			b.Done++
		case BulkRefused:
			b.Refused++
			b.Problems[i.Problem]++
		default:
			b.State = BulkStateRunning
		}
	}
}
