package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
)

// deskProfile has an operation of each kind, and those that can be looked up.
const deskProfile = `version: 1
upstream: up
base_url: https://up.example
deadline: 10m
operations:
  transfer: {method: POST, path: /transfers, body: json}
  charge:
    method: POST
    path: /charges
    body: json
    lookup:
      method: GET
      path: /charges
      query: {reference: "{key}"}
      findings: [{when: status == 200, finding: applied}, {when: status == 404, finding: absent}]
      schedule: {first_after: 1h, factor: 2, max_interval: 1h, give_up_after: 2h}
      absence: {settles_after: 1m, confirmations: 2, spacing: 1s, then: review}
  pay: {method: POST, path: /payments, body: json, idempotency: {kind: keyed, retention: 1h, margin: 1m, key: {in: header, name: Idempotency-Key}}}
  forget: {method: POST, path: /forgets, body: json, idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}}}
  put: {method: PUT, path: /things, body: json, idempotency: {kind: natural}}
`

// desk is where people decide.
type desk struct{ *rig }

func newDesk(t testing.TB) desk {
	t.Helper()
	return newDeskOn(t, testkit.Database(t))
}

func newDeskOn(t testing.TB, pool *pgxpool.Pool) desk {
	t.Helper()
	d := desk{newRigOn(t, pool)}
	d.apply(t, deskProfile)
	return d
}

// accept takes a command that nobody sends.
func (d desk) accept(t testing.TB, operation string, metadata map[string]string) uuid.UUID {
	t.Helper()
	a, err := d.commands.Submit(t.Context(), commands.Submission{
		Tenant: tenant, Key: uuid.NewString(), Upstream: "up", Operation: operation, Actor: "test",
		Body: []byte(`{"amount":100}`), HasBody: true, Metadata: metadata,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.Command.ID
}

// in is a command of the operation that one attempt has brought to a state.
func (d desk) in(t testing.TB, operation string, state outcome.State) uuid.UUID {
	t.Helper()
	id := d.accept(t, operation, nil)
	switch state {
	case outcome.StatePending:
	case outcome.StateExecuting:
		d.begin(t, id, lost)
	default:
		d.begin(t, id, lost)
		d.finish(t, id, endings[state])
		if got := d.get(t, id).State; got != state {
			t.Fatalf("the command is %s, not %s", got, state)
		}
	}
	return id
}

var endings = map[outcome.State]ending{
	outcome.StateUnresolved: lost,
	outcome.StateSuccess:    {evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerApplied, status: 201, reference: "pay_1"},
	outcome.StateRejected:   {evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerRefused, status: 422},
	outcome.StateCancelled:  {evidence: outcome.EvidenceNotSent},
}

// waiting is a command that waits for a person: in doubt, with nothing to ask or
// nothing left to ask.
func (d desk) waiting(t testing.TB, operation string) uuid.UUID {
	t.Helper()
	id := d.in(t, operation, outcome.StateUnresolved)
	if d.get(t, id).Reconciliation.Phase == "lookup" {
		d.step(t, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
			return nil, d.commands.HandToReview(t.Context(), tx, c, reconcile.ReviewScheduleUsedUp)
		})
	}
	return id
}

// disputed is a settled command that evidence contradicts.
func (d desk) disputed(t testing.TB, state outcome.State) uuid.UUID {
	t.Helper()
	id := d.in(t, "transfer", state)
	finding := outcome.FindingApplied
	if state == outcome.StateSuccess {
		finding = outcome.FindingRefused
	}
	if effect := d.learn(t, id, finding); effect != commands.EffectConflict {
		t.Fatalf("%s about a %s command is %s", finding, state, effect)
	}
	return id
}

// learn is what a lookup finds.
func (d desk) learn(t testing.TB, id uuid.UUID, f outcome.Finding) (effect commands.Effect) {
	t.Helper()
	d.step(t, id, func(tx pgx.Tx, _ commands.Locked) (moved []commands.Moved, err error) {
		effect, moved, err = d.commands.Learn(t.Context(), tx, id, commands.Knowledge{
			Source: outcome.DecidedByLookup, Actor: "looker", Finding: f, Status: 200, Reference: "found_1",
		})
		return moved, err
	})
	return effect
}

// by is an action of Ann's on the command as it is now.
func (d desk) by(t testing.TB, id uuid.UUID) reconcile.Action {
	t.Helper()
	return reconcile.Action{Tenant: tenant, Command: id, Version: d.get(t, id).Version, Actor: "ann", Reason: "seen in the statement", EvidenceReference: "T-1"}
}

func (d desk) entries(t testing.TB, id uuid.UUID) []audit.Recorded {
	t.Helper()
	list, _, err := audit.List(t.Context(), d.pool, audit.Filter{Tenant: tenant, Command: &id, Limit: audit.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// actions of the audit about the command, in order.
func (d desk) deeds(t testing.TB, id uuid.UUID) string {
	t.Helper()
	var list []string
	for _, e := range d.entries(t, id) {
		list = append(list, e.Action)
	}
	slices.Reverse(list)
	return strings.Join(list, " ")
}

// sound checks the chain of the audit.
func (d desk) sound(t testing.TB) {
	t.Helper()
	report, err := audit.Verify(t.Context(), d.pool, "")
	if err != nil || !report.Sound() {
		t.Errorf("the audit does not hold: %+v, %v", report, err)
	}
}

// item is the queue's line about a command.
func (d desk) item(t testing.TB, id uuid.UUID) (reconcile.ReviewItem, bool) {
	t.Helper()
	list := d.queue(t, reconcile.ReviewFilter{Limit: 100})
	i := slices.IndexFunc(list, func(item reconcile.ReviewItem) bool { return item.Command.ID == id })
	if i < 0 {
		return reconcile.ReviewItem{}, false
	}
	return list[i], true
}

// queue reads all of it, page by page.
func (d desk) queue(t testing.TB, f reconcile.ReviewFilter) []reconcile.ReviewItem {
	t.Helper()
	f.Tenant = tenant
	var all []reconcile.ReviewItem
	for {
		page, next, err := d.store.Reviews(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
		if f.Cursor = next; next == "" {
			return all
		}
	}
}

// code is what an action was answered with, in one word.
func code(err error) string {
	var (
		stale   *reconcile.Stale
		refused *reconcile.Refused
		invalid *commands.Invalid
	)
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &stale):
		return "stale"
	case errors.As(err, &refused):
		return refused.Code
	case errors.As(err, &invalid):
		return "invalid " + invalid.Fields[0].Pointer
	case errors.Is(err, reconcile.ErrVersionRequired):
		return "version_required"
	case errors.Is(err, commands.ErrNotFound):
		return "not_found"
	case errors.Is(err, commands.ErrUnavailable):
		return "unavailable"
	default:
		return err.Error()
	}
}

// everyAction does each of them, by its name in the queue.
func (d desk) everyAction() map[string]func(ctx context.Context, a reconcile.Action) error {
	resolution := reconcile.Resolution{State: outcome.StateSuccess, Reference: "pay_9"}
	return map[string]func(ctx context.Context, a reconcile.Action) error{
		reconcile.ActionResolve:      func(ctx context.Context, a reconcile.Action) error { return d.store.Resolve(ctx, a, resolution) },
		reconcile.ActionLookup:       func(ctx context.Context, a reconcile.Action) error { return d.store.LookUpNow(ctx, a) },
		reconcile.ActionResend:       func(ctx context.Context, a reconcile.Action) error { return d.store.Resend(ctx, a, false) },
		reconcile.ActionResendAbsent: func(ctx context.Context, a reconcile.Action) error { return d.store.Resend(ctx, a, true) },
		reconcile.ActionAssign:       func(ctx context.Context, a reconcile.Action) error { return d.store.Assign(ctx, a, "bob") },
		reconcile.ActionNote:         func(ctx context.Context, a reconcile.Action) error { return d.store.Note(ctx, a) },
		reconcile.ActionCorrect:      func(ctx context.Context, a reconcile.Action) error { return d.store.Correct(ctx, a, d.other(ctx, a)) },
		reconcile.ActionDismiss:      func(ctx context.Context, a reconcile.Action) error { return d.store.Correct(ctx, a, d.same(ctx, a)) },
	}
}

func (d desk) same(ctx context.Context, a reconcile.Action) reconcile.Resolution {
	c, _ := d.commands.Get(ctx, a.Tenant, a.Command)
	if !c.State.Absorbing() {
		return reconcile.Resolution{State: outcome.StateSuccess, Reference: "pay_9"}
	}
	return reconcile.Resolution{State: c.State}
}

func (d desk) other(ctx context.Context, a reconcile.Action) reconcile.Resolution {
	if d.same(ctx, a).State == outcome.StateSuccess {
		return reconcile.Resolution{State: outcome.StateRejected}
	}
	return reconcile.Resolution{State: outcome.StateSuccess}
}

// situation brings a new command into one.
type situation struct {
	name string
	make func(t *testing.T, d desk) uuid.UUID
}

// situations are those in which a person may come upon a command.
func situations() []situation {
	list := []situation{
		{"in doubt, without a lookup", func(t *testing.T, d desk) uuid.UUID { return d.waiting(t, "transfer") }},
		{"in doubt, looked up to the end", func(t *testing.T, d desk) uuid.UUID { return d.waiting(t, "charge") }},
		{"in doubt, being looked up on a schedule", func(t *testing.T, d desk) uuid.UUID { return d.in(t, "charge", outcome.StateUnresolved) }},
		{"in doubt, a lookup under way", func(t *testing.T, d desk) uuid.UUID {
			id := d.waiting(t, "charge")
			d.exec(t, `UPDATE doubts SET claim = gen_random_uuid(), claimed_until = now() + interval '1 minute' WHERE command_id = $1`, id)
			return id
		}},
		{"in doubt, with a key that lives", func(t *testing.T, d desk) uuid.UUID { return d.waiting(t, "pay") }},
		{"in doubt, cancelled by the caller", func(t *testing.T, d desk) uuid.UUID {
			id := d.waiting(t, "pay")
			if _, _, err := d.commands.Cancel(t.Context(), tenant, id, audit.By{Actor: "caller"}); err != nil {
				t.Fatal(err)
			}
			return id
		}},
	}
	for _, state := range outcome.States() {
		if state != outcome.StateUnresolved {
			list = append(list, situation{string(state), func(t *testing.T, d desk) uuid.UUID { return d.in(t, "transfer", state) }})
		}
		if state.Absorbing() {
			list = append(list, situation{fmt.Sprintf("%s, disputed", state), func(t *testing.T, d desk) uuid.UUID { return d.disputed(t, state) }})
		}
	}
	return list
}

// ago lets everything about the attempts of a command have happened earlier.
func (d desk) ago(t testing.TB, id uuid.UUID, age time.Duration) {
	t.Helper()
	d.exec(t, `UPDATE attempts SET started_at = started_at - $2::interval, ended_at = ended_at - $2::interval, latest_end = latest_end - $2::interval
		WHERE command_id = $1`, id, age)
}
