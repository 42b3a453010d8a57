package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
	"executor/outcome"
	"executor/reconcile"
)

// TestResendSafety enumerates kinds of operations, the age of the key, and what is
// known of an absence.
func TestResendSafety(t *testing.T) {
	d := newDesk(t)
	const safe, unsafe = "done", "resend_not_safe"
	tests := []struct {
		operation                 string
		age                       time.Duration
		plain, absent, lookedInto string // as things stand, by the person's finding, after lookups confirmed it
	}{
		{"transfer", time.Minute, unsafe, safe, unsafe}, // nobody can have looked
		{"charge", time.Minute, unsafe, safe, safe},
		{"charge", 48 * time.Hour, unsafe, safe, safe},
		{"pay", time.Minute, safe, safe, safe},
		{"pay", 58 * time.Minute, safe, safe, safe},
		{"pay", 59 * time.Minute, unsafe, safe, unsafe}, // the margin has begun
		{"pay", 48 * time.Hour, unsafe, safe, unsafe},
		{"forget", 0, unsafe, safe, unsafe}, // nobody knows how long the key lives
		{"put", 48 * time.Hour, safe, safe, safe},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s after %s", tt.operation, tt.age), func(t *testing.T) {
			for known, want := range map[string]string{"nothing": tt.plain, "absent": tt.absent, "confirmed": tt.lookedInto} {
				id := d.waiting(t, tt.operation)
				d.ago(t, id, tt.age)
				if known == "confirmed" {
					d.exec(t, `UPDATE attempts SET latest_end = now() - interval '1 hour' WHERE command_id = $1`, id)
					d.exec(t, `UPDATE doubts SET absents = 2, last_absent_at = now() WHERE command_id = $1`, id)
				}
				err := d.store.Resend(t.Context(), d.by(t, id), known == "absent")
				if code(err) != want {
					t.Errorf("%s is known: %v, want %s", known, err, want)
				}
				if want == unsafe {
					d.staysUnsent(t, id, err)
				} else {
					d.isSentOnce(t, id, map[string]string{"nothing": "", "absent": "operator", "confirmed": "lookup"}[known], tt.operation)
				}
			}
		})
	}
	d.sound(t)
}

// staysUnsent checks a refused resend, and that it says what would help.
func (d desk) staysUnsent(t *testing.T, id uuid.UUID, err error) {
	t.Helper()
	c := d.get(t, id)
	if c.State != outcome.StateUnresolved || d.deeds(t, id) != "" || d.count(t, `SELECT count(*) FROM attempts WHERE command_id = $1 AND settled_by <> ''`, id) != 0 {
		t.Errorf("a refused resend left %s, %s", c.State, d.deeds(t, id))
	}
	if text := err.Error(); !strings.Contains(text, "rule 8, ambiguous") || !strings.Contains(text, "your own finding") {
		t.Errorf("it says %q", text)
	}
}

// isSentOnce checks what an authorised resend leaves: one attempt to come, under the
// same key, and the caller's outcome as it was.
func (d desk) isSentOnce(t *testing.T, id uuid.UUID, settledBy, operation string) {
	t.Helper()
	c := d.get(t, id)
	if c.State != outcome.StatePending || c.Outcome.State != outcome.StateUnresolved || c.Deadline.Before(time.Now().Add(9*time.Minute)) || d.deeds(t, id) != "command.resend" {
		t.Errorf("%+v, audit %s", c, d.deeds(t, id))
	}
	var by string
	d.scan(t, `SELECT settled_by FROM attempts WHERE command_id = $1`, []any{id}, &by)
	if by != settledBy && (operation == "charge" || settledBy == "operator") {
		t.Errorf("the attempt before is settled by %q, want %q", by, settledBy)
	}
	if d.count(t, `SELECT count(*) FROM river_job j JOIN commands c ON c.job_id = j.id WHERE c.id = $1`, id) != 1 {
		t.Error("nothing will send it")
	}
}

// TestWhatIsNoConfirmedAbsence: absents on record that prove nothing to a resend.
func TestWhatIsNoConfirmedAbsence(t *testing.T) {
	tests := map[string]func(t *testing.T, d desk, id uuid.UUID){
		"too few": func(t *testing.T, d desk, id uuid.UUID) {
			d.exec(t, `UPDATE doubts SET absents = 1 WHERE command_id = $1`, id)
		},
		"seen meanwhile": func(t *testing.T, d desk, id uuid.UUID) {
			d.exec(t, `UPDATE doubts SET seen = true WHERE command_id = $1`, id)
		},
		"too early": func(t *testing.T, d desk, id uuid.UUID) {
			d.exec(t, `UPDATE attempts SET latest_end = now() - interval '59 seconds' WHERE command_id = $1`, id)
		},
		"it was accepted": func(t *testing.T, d desk, id uuid.UUID) {
			d.exec(t, `UPDATE attempts SET evidence = 'response_received', status = 202, answer = 'pending' WHERE command_id = $1`, id)
		},
		"findings move nothing": func(t *testing.T, d desk, id uuid.UUID) { d.apply(t, deskProfile+"reconciliation: report_only\n") },
		"after a restore": func(t *testing.T, d desk, id uuid.UUID) {
			d.exec(t, `INSERT INTO deployment (id, system_identifier, timeline) VALUES ('d', '', 99)`)
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			id := d.waiting(t, "charge")
			d.exec(t, `UPDATE attempts SET latest_end = now() - interval '1 hour' WHERE command_id = $1`, id)
			d.exec(t, `UPDATE doubts SET absents = 2, last_absent_at = now() WHERE command_id = $1`, id)
			spoil(t, d, id)
			if got := code(d.store.Resend(t.Context(), d.by(t, id), false)); got != "resend_not_safe" {
				t.Errorf("%s", got)
			}
		})
	}
}

// TestAnAuthorisationIsUsedOnce: many who authorise at once, in two processes, bring
// about one attempt; and one that left doubt needs a new authorisation.
func TestAnAuthorisationIsUsedOnce(t *testing.T) {
	one := newDesk(t)
	two := desk{newRigOn(t, one.pool)}
	id := one.waiting(t, "transfer")
	for round := 1; round <= 3; round++ {
		a := one.by(t, id)
		var wg sync.WaitGroup
		answers := make([]string, 6)
		for i := range answers {
			wg.Go(func() {
				store := []*reconcile.Store{one.store, two.store}[i%2]
				answers[i] = code(store.Resend(context.Background(), a, true))
			})
		}
		wg.Wait()
		if got := strings.Join(answers, " "); strings.Count(got, "done") != 1 || strings.Count(got, "stale") != 5 {
			t.Errorf("round %d: %s", round, got)
		}
		if n := one.count(t, `SELECT count(*) FROM river_job`); n != round+1 { // the first is of the accepted command
			t.Errorf("round %d: %d jobs", round, n)
		}
		one.begin(t, id, lost)
		one.finish(t, id, lost)
		if got := code(one.store.Resend(t.Context(), a, true)); got != "stale" {
			t.Errorf("round %d, the used authorisation again: %s", round, got)
		}
	}
	if got := one.deeds(t, id); got != "command.resend command.resend command.resend" || one.get(t, id).Attempts != 4 {
		t.Errorf("%d attempts, audit %s", one.get(t, id).Attempts, got)
	}
	one.sound(t)
}

// TestLookUpNow: the upstream is asked at once, for a command that a person has just
// one round, and it stays with them.
func TestLookUpNow(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusBadGateway)
	upstream := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, int(status.Load()), `{}`) })
	d := newDesk(t)
	d.apply(t, strings.NewReplacer("https://up.example", upstream.URL, "deadline: 10m", "deadline: 10m\negress: {allow: [127.0.0.0/8]}").Replace(deskProfile))
	held, scheduled := d.waiting(t, "charge"), d.in(t, "charge", outcome.StateUnresolved)
	// The schedule of the first is long used up.
	d.exec(t, `UPDATE doubts SET gives_up_at = now() - interval '1 day' WHERE command_id = $1`, held)
	d.start(t)
	for _, id := range []uuid.UUID{held, scheduled} {
		a := d.by(t, id)
		if err := d.store.LookUpNow(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if got := code(d.store.LookUpNow(t.Context(), a)); got != "stale" {
			t.Errorf("a second click: %s", got)
		}
		eventually(t, "a round", func() bool { return d.findings(t, id) == "unknown" })
	}
	if c := d.get(t, held); c.Reconciliation.Phase != "review" || c.Reconciliation.NextLookupAt != nil {
		t.Errorf("the command that a person has: %+v", c.Reconciliation)
	}
	if c := d.get(t, scheduled); c.Reconciliation.Phase != "lookup" || c.Reconciliation.NextLookupAt == nil {
		t.Errorf("the command on a schedule: %+v", c.Reconciliation)
	}
	status.Store(http.StatusOK)
	if err := d.store.LookUpNow(t.Context(), d.by(t, held)); err != nil {
		t.Fatal(err)
	}
	d.reaches(t, held, outcome.StateSuccess)
	if n := len(upstream.asked("/charges")); n != 3 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

// TestNoLookupBeginsInAnAction: while a person acts on a command no round of lookups
// takes it up.
func TestNoLookupBeginsInAnAction(t *testing.T) {
	d := newDesk(t)
	id := d.waiting(t, "charge")
	d.exec(t, `UPDATE doubts SET next_at = now() - interval '1 minute' WHERE command_id = $1`, id)
	a := d.by(t, id)
	d.exec(t, `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END $$`)
	d.exec(t, `CREATE TRIGGER wait BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION wait()`)
	holder, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.Background()) }()
	if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_xact_lock(7)`); err != nil {
		t.Fatal(err)
	}
	acted := make(chan error, 1)
	go func() { acted <- d.store.Resend(context.Background(), a, true) }()
	eventually(t, "the action at its last step", func() bool {
		return d.count(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 7
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 1
	})
	var free int
	err = pgx.BeginFunc(t.Context(), d.pool, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM doubts WHERE next_at <= now() FOR UPDATE SKIP LOCKED) due`).Scan(&free)
	})
	if err != nil || free != 0 {
		t.Errorf("%d doubts can be taken up, %v", free, err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-acted; err != nil {
		t.Fatal(err)
	}
	if n := d.count(t, `SELECT count(*) FROM doubts WHERE next_at IS NOT NULL`); n != 0 || d.get(t, id).State != outcome.StatePending {
		t.Errorf("%d doubts are due, the command is %s", n, d.get(t, id).State)
	}
}

// TestTenantsDecideForThemselves: nobody sees or touches another's commands.
func TestTenantsDecideForThemselves(t *testing.T) {
	d := newDesk(t)
	id := d.waiting(t, "transfer")
	before := d.get(t, id)
	for name, do := range d.everyAction() {
		a := d.by(t, id)
		a.Tenant = "other"
		if got := code(do(t.Context(), a)); got != "not_found" {
			t.Errorf("%s: %s", name, got)
		}
	}
	list, _, err := d.store.Reviews(t.Context(), reconcile.ReviewFilter{Tenant: "other"})
	if err != nil || len(list) != 0 {
		t.Errorf("the queue of another tenant: %+v, %v", list, err)
	}
	bulk := reconcile.BulkRequest{
		ID: uuid.New(), Tenant: "other", Actor: "eve", Action: reconcile.ActionNote, Reason: "all", Filter: reconcile.ReviewFilter{Tenant: tenant, Upstream: "up"},
	}
	if b, err := d.store.StartBulk(t.Context(), bulk); err != nil || b.Count != 0 {
		t.Errorf("a bulk action of another tenant: %+v, %v", b, err)
	}
	if _, err := d.store.Bulk(t.Context(), tenant, bulk.ID); code(err) != reconcile.ErrBulkNotFound.Error() {
		t.Errorf("another tenant's bulk action: %v", err)
	}
	if entries, _, err := audit.List(t.Context(), d.pool, audit.Filter{Tenant: "other", Command: &id}); err != nil || len(entries) != 0 {
		t.Errorf("the audit of another tenant: %+v, %v", entries, err)
	}
	if after := d.get(t, id); after.Version != before.Version || d.deeds(t, id) != "" {
		t.Errorf("left %+v, %s", after, d.deeds(t, id))
	}
}
