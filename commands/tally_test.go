package commands_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// inTable counts the commands of a tenant by state, the slow way.
func (r *rig) inTable(t testing.TB, tenant string) map[outcome.State]commands.Count {
	t.Helper()
	counts := make(map[outcome.State]commands.Count)
	for _, state := range outcome.States() {
		counts[state] = commands.Count{N: int64(r.count(t, `SELECT count(*) FROM commands WHERE tenant = $1 AND state = $2`, tenant, state))}
	}
	return counts
}

func (r *rig) overview(t testing.TB, tenant string) commands.Overview {
	t.Helper()
	o, err := r.store.Overview(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (r *rig) fold(t testing.TB) {
	t.Helper()
	if _, err := r.store.Fold(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) mustAgree(t testing.TB, when string) {
	t.Helper()
	if got, want := r.overview(t, tenant).States, r.inTable(t, tenant); !maps.Equal(got, want) {
		t.Errorf("%s: the tallies say %v, the table %v", when, got, want)
	}
}

// wander takes a command one random step further: attempts that end in every way,
// resends, findings and corrections.
func (r *rig) wander(ctx context.Context, tx pgx.Tx, c commands.Locked, dice *rand.Rand) ([]commands.Moved, error) {
	m := commands.Move{Command: c, Attempts: c.Attempts}
	decided := func(state outcome.State, reason outcome.OutcomeReason) {
		m.To = state
		m.Outcome = &commands.Final{Outcome: outcome.Outcome{State: state, Reason: reason, NextAction: outcome.NextActionNone}, DecidedBy: outcome.DecidedByOperator}
	}
	switch c.State {
	case outcome.StatePending:
		m.To, m.Attempts = outcome.StateExecuting, c.Attempts+1
		_, err := tx.Exec(ctx, `
			INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at,
				send_deadline, latest_end, request, bytes_total, body_sha256)
			VALUES ($1, $2, $3, $4, 1, 'test', 1, $5, $5, $5, '{}', 10, '')`, c.ID, m.Attempts, c.Tenant, c.UpstreamID, c.Now)
		if err != nil {
			return nil, err
		}
	case outcome.StateExecuting:
		ends := []ending{lost, unsent, applied, refused, declined, unclear}
		if err := closeAttempt(ctx, tx, c, ends[dice.IntN(len(ends))]); err != nil {
			return nil, err
		}
		if dice.IntN(3) == 0 {
			m.To, m.NextAttemptAt, m.WaitFor = outcome.StatePending, c.Now, commands.WaitBackoff
			break
		}
		out, err := r.closing(ctx, tx, c)
		if err != nil {
			return nil, err
		}
		m.To, m.Outcome = out.State, out
	case outcome.StateUnresolved:
		switch dice.IntN(4) {
		case 0:
			decided(outcome.StateSuccess, outcome.OutcomeReasonApplied)
		case 1:
			m.To, m.NextAttemptAt, m.Resend = outcome.StatePending, c.Now, commands.ResendReplay
		default:
			m.To, m.NextAttemptAt, m.Resend = outcome.StatePending, c.Now, commands.ResendOperator
		}
	case outcome.StateSuccess:
		m.Correction = true
		decided(outcome.StateRejected, outcome.OutcomeReasonRefused)
	default:
		m.Correction = true
		decided(outcome.StateSuccess, outcome.OutcomeReasonApplied)
	}
	return r.store.Move(ctx, tx, []commands.Move{m})
}

// TestTalliesAgree: however commands move, and whoever folds meanwhile, the tallies
// say what is in the table.
func TestTalliesAgree(t *testing.T) {
	r := newRig(t)
	ctx, stop := context.WithCancel(bounded(t))
	var movers, folders sync.WaitGroup
	for range 2 {
		folders.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.store.Fold(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range uint64(3) {
		movers.Go(func() {
			dice := rand.New(rand.NewPCG(n, 1))
			for i := range 12 {
				a, err := r.store.Submit(ctx, submission(fmt.Sprintf("key-%d-%d", n, i), "pay"))
				if err != nil {
					t.Error(err)
					return
				}
				for range dice.IntN(12) {
					err := r.inTx(ctx, a.Command.ID, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) { return r.wander(ctx, tx, c, dice) })
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	movers.Wait()
	r.mustAgree(t, "folding")
	stop()
	folders.Wait()
	r.fold(t)
	r.mustAgree(t, "folded")
	if n := r.count(t, `SELECT count(*) FROM tally_deltas`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	o := r.overview(t, tenant)
	if o.Total != 36 || o.Rates.Sum(commands.TallyAccepted, commands.Points) != 36 {
		t.Errorf("%d commands, %d accepted within the hour; want 36", o.Total, o.Rates.Sum(commands.TallyAccepted, commands.Points))
	}
	for _, what := range []outcome.State{outcome.StateSuccess, outcome.StateRejected, outcome.StateUnresolved, outcome.StateCancelled} {
		want := r.count(t, `SELECT count(*) FROM events WHERE data ->> 'state' = $1 AND sequence > 0`, what)
		if got := o.Rates.Sum(commands.Tally(what), commands.Points); got != int64(want) {
			t.Errorf("%s happened %d times, by the events %d times", what, got, want)
		}
	}
}

// TestFoldKilled: a fold whose connection dies in the middle has done nothing.
func TestFoldKilled(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.attempt(t, r.submit(t, submission(fmt.Sprint(i), "pay")).ID, applied, outcome.StateSuccess)
	}
	r.fold(t)
	r.attempt(t, r.submit(t, submission("last", "pay")).ID, lost, outcome.StateUnresolved)
	r.exec(t, `
		CREATE FUNCTION dies() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$`)
	r.exec(t, `CREATE TRIGGER dies BEFORE INSERT OR UPDATE ON tallies FOR EACH ROW EXECUTE FUNCTION dies()`)
	if _, err := r.store.Fold(t.Context()); err == nil {
		t.Fatal("the fold went through")
	}
	r.mustAgree(t, "killed")
	r.exec(t, `DROP TRIGGER dies ON tallies`)
	r.fold(t)
	r.mustAgree(t, "folded after all")
}

// TestFoldSpans: old minutes become hours and days; nothing is lost and nothing
// counted twice.
func TestFoldSpans(t *testing.T) {
	r := newRig(t)
	for i := range 6 {
		r.submit(t, submission(fmt.Sprint(i), "pay"))
	}
	sum := func() int { return r.count(t, `SELECT sum(n)::int FROM tallies`) }
	spans := func() (list map[string]int) {
		list = map[string]int{}
		rows, err := r.pool.Query(t.Context(), `SELECT span, count(*)::int FROM tallies GROUP BY 1`)
		if err != nil {
			t.Fatal(err)
		}
		var (
			span string
			n    int
		)
		if _, err := pgx.ForEachRow(rows, []any{&span, &n}, func() error { list[span] = n; return nil }); err != nil {
			t.Fatal(err)
		}
		return list
	}
	r.fold(t)
	r.exec(t, `DELETE FROM tallies`)
	r.exec(t, `
		INSERT INTO tallies (tenant, span, at, upstream_id, what, n)
		SELECT 'default', 'minute', date_trunc('hour', now(), 'UTC') - interval '6 hours' + i * interval '1 minute', 1, 'accepted', 1 FROM generate_series(0, 59) i
		UNION ALL
		SELECT 'default', 'hour', date_trunc('day', now(), 'UTC') - interval '20 days' + i * interval '1 hour', 1, 'accepted', 1 FROM generate_series(0, 23) i`)
	r.fold(t)
	if got := spans(); got["minute"] != 0 || got["hour"] != 1 || got["day"] != 1 || sum() != 84 {
		t.Errorf("%v, %d in all; want one hour and one day, 84", got, sum())
	}
	o, err := r.store.UpstreamOverview(t.Context(), tenant, "up")
	if err != nil {
		t.Fatal(err)
	}
	if o.LastHour[commands.TallyAccepted] != 0 || o.LastDay[commands.TallyAccepted] != 60 {
		t.Errorf("%d in the last hour and %d in the last day, want 0 and 60", o.LastHour[commands.TallyAccepted], o.LastDay[commands.TallyAccepted])
	}
}

// TestUpstreamTrouble: what is wrong with an upstream is named, and what holds
// longest comes first.
func TestUpstreamTrouble(t *testing.T) {
	r := newRig(t)
	check := func(want string) {
		t.Helper()
		list, err := r.store.Upstreams(t.Context(), tenant)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		got := ""
		if list[0].Trouble != nil {
			got = list[0].Trouble.Code
		}
		if got != want {
			t.Errorf("trouble is %v, want %q", list[0].Trouble, want)
		}
		if troubled := r.overview(t, tenant).Troubled(); (len(troubled) == 1) != (want != "") {
			t.Errorf("%d upstreams in trouble beside %q", len(troubled), want)
		}
	}
	check("")
	id := r.submit(t, submission("failing", "pay")).ID
	for range 6 {
		r.attempt(t, id, unclear, outcome.StatePending)
	}
	check(commands.TroubleFailing)
	r.exec(t, `UPDATE upstreams SET budget_tokens = 0, budget_at = now() + interval '1 hour'`)
	check(commands.TroubleBudget)
	r.exec(t, `UPDATE upstreams SET throttled_until = now() + interval '1 hour'`)
	check(commands.TroubleThrottled)
	if list, err := r.store.Upstreams(t.Context(), tenant); err != nil || !strings.Contains(list[0].Trouble.Reason, list[0].ThrottledUntil.UTC().Format("2006-01-02")) {
		t.Errorf("the day is not told: %v, %v", list[0].Trouble, err)
	}
	if err := r.store.Park(t.Context(), id, commands.WaitCredential, time.Minute); err != nil {
		t.Fatal(err)
	}
	check(commands.TroubleCredential)
	if _, err := r.ups.Pause(t.Context(), tenant, "up", audit.By{Actor: "alice", Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	check(commands.TroublePaused)
}

// TestOverviewUrgent: what may miss its deadline and what waits longest is named; of
// another tenant nothing is.
func TestOverviewUrgent(t *testing.T) {
	r := newRig(t)
	var pending, doubted uuid.UUID
	for i := range 12 {
		c := r.submit(t, submission(fmt.Sprint("pending", i), "pay"))
		r.exec(t, `UPDATE commands SET deadline = now() + $2 * interval '1 minute' WHERE id = $1`, c.ID, 14-i)
		pending = c.ID
	}
	for i := range 6 {
		id := r.submit(t, submission(fmt.Sprint("doubted", i), "pay")).ID
		r.attempt(t, id, lost, outcome.StateUnresolved)
		if i == 0 {
			doubted = id
		}
	}
	o := r.overview(t, tenant)
	if len(o.DeadlineSoon) != 10 || o.DeadlineSoon[0].ID != pending || o.DeadlineSoon[0].Waiting == nil {
		t.Errorf("%d commands with their deadline near, the first %v", len(o.DeadlineSoon), o.DeadlineSoon)
	}
	if len(o.OldestUnresolved) != 5 || o.OldestUnresolved[0].ID != doubted {
		t.Errorf("%d of the oldest unresolved, the first %v", len(o.OldestUnresolved), o.OldestUnresolved)
	}
	other := r.overview(t, "other")
	if other.Total != 0 || len(other.Upstreams)+len(other.DeadlineSoon)+len(other.OldestUnresolved) != 0 {
		t.Errorf("another tenant sees %v", other)
	}
	if _, err := r.store.UpstreamOverview(t.Context(), "other", "up"); err == nil {
		t.Error("another tenant sees the upstream")
	}
}

// TestDoubtKeepsItsEvidence: the queue of reviews is filtered by what stands on the
// doubt, which follows what comes late.
func TestDoubtKeepsItsEvidence(t *testing.T) {
	r := newRig(t)
	id := r.submit(t, submission("late", "charge")).ID
	r.attempt(t, id, lost, outcome.StateUnresolved)
	check := func(evidence, reason string) {
		t.Helper()
		var got, why, operation string
		var same bool
		r.scan(t, `
			SELECT d.evidence, d.reason, d.operation, d.deadline = c.deadline FROM doubts d JOIN commands c ON c.id = d.command_id WHERE c.id = $1`,
			[]any{id}, &got, &why, &operation, &same)
		if got != evidence || why != reason || operation != "charge" || !same {
			t.Errorf("the doubt keeps %s, %s of %s, the deadline %v; want %s, %s", got, why, operation, same, evidence, reason)
		}
	}
	check("sent_no_response", "no_response")
	if _, err := r.learn(t.Context(), id, late(1, unclear)); err != nil {
		t.Fatal(err)
	}
	check("response_received", "no_response")
	if n, err := r.store.CountAsSent(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	check("sent_no_response", "no_response")
}
