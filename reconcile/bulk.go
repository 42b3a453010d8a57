package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
	"executor/upstreams"
)

// MaxBulk is how many commands one bulk action is for, at most.
const MaxBulk = 10_000

// ErrBulkNotFound: the tenant has started no bulk action under that id.
var ErrBulkNotFound = errors.New("bulk action not found")

// BulkRequest asks for one action on everything in the queue that a filter finds.
type BulkRequest struct {
	ID                uuid.UUID // chosen by whoever asks: under the same id it is started once
	Tenant            string
	Actor             string
	Action            string       // resolve, lookup, resend, assign or note
	Filter            ReviewFilter // has to leave something out
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
	State     string
	Count     int // commands it is for
	Done      int
	Refused   int            // in a dry run: would be now
	Problems  map[string]int // how often each problem refused it
	Items     []BulkItem
	Sample    []BulkItem // of a dry run: the oldest of them
}

// BulkItem is one command of a bulk action.
type BulkItem struct {
	Command uuid.UUID
	Result  BulkResult
	Problem string // stale, not_found, internal_error or a code of Refused
	Detail  string
}

// bulkOrder is what is to be done, as it is stored and compared.
type bulkOrder struct {
	Action            string       `json:"action"`
	Filter            ReviewFilter `json:"filter"`
	Reason            string       `json:"reason"`
	EvidenceReference string       `json:"evidence_reference,omitempty"`
	Resolution        *Resolution  `json:"resolution,omitempty"`
	Assignee          string       `json:"assignee,omitempty"`
	Absent            bool         `json:"absent,omitempty"`
}

// order checks a request and keeps what matters for its action.
func (r BulkRequest) order() (bulkOrder, error) {
	a := Action{Actor: r.Actor, Reason: r.Reason, EvidenceReference: r.EvidenceReference}
	o := bulkOrder{Action: r.Action, Filter: r.Filter}
	var fields []upstreams.FieldError
	switch r.Action {
	case ActionResolve:
		fields = r.Resolution.check(a)
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
	if !r.Filter.narrows() {
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

// StartBulk begins to do one thing to everything that the filter finds now, or in a
// dry run says what that is. Each command is left alone if it has moved on since.
// The same request under the same id is the same bulk action.
func (s *Store) StartBulk(ctx context.Context, r BulkRequest) (Bulk, error) {
	r.Filter.Tenant, r.Filter.Cursor, r.Filter.Limit = r.Tenant, "", 0
	o, err := r.order()
	if err != nil {
		return Bulk{}, err
	}
	if r.DryRun {
		return s.previewBulk(ctx, r, o)
	}
	err = s.transact(ctx, func(ctx context.Context, tx commands.Tx) error { return s.startBulk(ctx, tx, r, o) })
	if err != nil {
		return Bulk{}, err
	}
	return s.Bulk(ctx, r.Tenant, r.ID)
}

// startBulk settles which commands it is for. Whoever asks under an id that is
// taken waits for the one who came first.
func (s *Store) startBulk(ctx context.Context, tx commands.Tx, r BulkRequest, o bulkOrder) error {
	tag, err := tx.Exec(ctx, `
		INSERT INTO bulk_actions (tenant, id, action, actor, request, created_at) VALUES ($1, $2, $3, $4, $5, now())
		ON CONFLICT (tenant, id) DO NOTHING`, r.Tenant, r.ID, r.Action, r.Actor, jsonText(o))
	if err != nil {
		return fmt.Errorf("start bulk action %s: %w", r.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return sameBulk(ctx, tx, r, o)
	}
	count, err := s.selectItems(ctx, tx, r)
	if err != nil {
		return err
	}
	if err := r.accepts(count); err != nil {
		return err
	}
	return audit.Record(ctx, tx, audit.Entry{
		Tenant: r.Tenant, Actor: r.Actor, Action: "bulk.start", Subject: "bulk action " + r.ID.String(), Reason: o.Reason,
		EvidenceReference: o.EvidenceReference, Details: map[string]any{"order": o, "count": count},
	})
}

// sameBulk refuses another request under the id of an earlier one.
func sameBulk(ctx context.Context, tx commands.Tx, r BulkRequest, o bulkOrder) error {
	var stored string
	err := tx.QueryRow(ctx, `SELECT request::text FROM bulk_actions WHERE tenant = $1 AND id = $2`, r.Tenant, r.ID).Scan(&stored)
	if err != nil {
		return fmt.Errorf("read bulk action %s: %w", r.ID, err)
	}
	if stored != jsonText(o) {
		return &Refused{Code: RefusedIDReused, Detail: "Another bulk action was started under this id. Use a new id for a new action."}
	}
	return nil
}

// selectItems writes down the commands as of this moment and counts them.
func (s *Store) selectItems(ctx context.Context, tx commands.Tx, r BulkRequest) (int, error) {
	sql, args, err := r.Filter.statement(MaxBulk + 1)
	if err != nil {
		return 0, err
	}
	n := len(args) + 1 // args begin with the tenant
	tag, err := tx.Exec(ctx, fmt.Sprintf(`
		INSERT INTO bulk_items (tenant, bulk_id, number, command_id, version, next_at)
		SELECT $1, $%d, row_number() OVER (ORDER BY since, command_id), command_id, version, now() FROM (%s) found`, n, sql),
		append(args, r.ID)...)
	if err != nil {
		return 0, fmt.Errorf("select the commands of bulk action %s: %w", r.ID, err)
	}
	if tag.RowsAffected() > MaxBulk {
		return s.countQueue(ctx, tx, r.Filter)
	}
	return int(tag.RowsAffected()), nil
}

func (s *Store) countQueue(ctx context.Context, tx commands.Tx, f ReviewFilter) (count int, err error) {
	sql, args, err := f.statement(everything)
	if err != nil {
		return 0, err
	}
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM (`+sql+`) found`, args...).Scan(&count); err != nil {
		return 0, fmt.Errorf("count the review queue: %w", err)
	}
	return count, nil
}

// everything is a limit that limits nothing.
const everything = 1 << 31

// accepts refuses a number of commands that nobody can have meant.
func (r BulkRequest) accepts(count int) error {
	switch {
	case count > MaxBulk:
		return &Refused{Code: RefusedTooMany, Count: count, Detail: fmt.Sprintf("The filter finds %d commands; one bulk action takes %d. Narrow the filter.", count, MaxBulk)}
	case r.ExpectedCount != nil && *r.ExpectedCount != count:
		return &Refused{Code: RefusedCountDiffers, Count: count, Detail: fmt.Sprintf("The filter finds %d commands now, not %d. Look at them again.", count, *r.ExpectedCount)}
	default:
		return nil
	}
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
	var o bulkOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return Bulk{}, fmt.Errorf("read bulk action %s: %w", id, err)
	}
	b.Reason = o.Reason
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

// sampleSize is how many commands a dry run names.
const sampleSize = 20

// previewBulk says what a bulk action would be done to, and what of it would be
// refused as things stand.
func (s *Store) previewBulk(ctx context.Context, r BulkRequest, o bulkOrder) (Bulk, error) {
	found, err := s.queue(ctx, s.pool, r.Filter, everything)
	if err != nil {
		return Bulk{}, err
	}
	if err := r.accepts(len(found)); err != nil {
		return Bulk{}, err
	}
	b := Bulk{ID: r.ID, Action: r.Action, Actor: r.Actor, Reason: o.Reason, Problems: map[string]int{}}
	for part := range slices.Chunk(found, 500) {
		ids := make([]uuid.UUID, len(part))
		for i, q := range part {
			ids[i] = q.CommandID
		}
		standings, err := s.standings(ctx, s.pool, ids)
		if err != nil {
			return Bulk{}, unavailable("read what may be done about commands", err)
		}
		for _, id := range ids {
			item := BulkItem{Command: id, Result: BulkPending}
			if refused := o.refusal(standings[id]); refused != nil {
				item.Result, item.Problem, item.Detail = BulkRefused, refused.Code, refused.Detail
			}
			b.Items = append(b.Items, item)
		}
	}
	b.sum()
	b.Items, b.Sample, b.State = nil, b.Items[:min(sampleSize, len(b.Items))], BulkStatePreview
	return b, nil
}

// refusal says why the action would be refused for a command.
func (o bulkOrder) refusal(st standing) *Refused {
	switch o.Action {
	case ActionResolve:
		return st.mayResolve()
	case ActionLookup:
		return st.mayLookUp()
	case ActionResend:
		return st.mayResend(o.Absent)
	case ActionAssign:
		return st.mayAssign()
	default:
		return nil
	}
}
