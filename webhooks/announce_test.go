package webhooks_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/webhooks"
)

func TestWithoutEndpointsNothingIsWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t, "theirs", "other")
	if _, _, err := r.hooks.Create(t.Context(), by("other"), webhooks.Settings{URL: "https://other.example"}); err != nil {
		t.Fatal(err)
	}
	id := r.submit(t, "k")
	r.end(t, id, outcome.StateUnresolved)
	r.end(t, id, outcome.StateSuccess)
	if n := r.count(t, `SELECT (SELECT count(*) FROM webhook_events) + (SELECT count(*) FROM webhook_deliveries)`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// TestTenantsAreApart: in one batch, each tenant's outcome goes to its own
// endpoint, and nobody reads or changes what is another's.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t, "theirs", "other")
	mine, theirs := newReceiver(t, nil), newReceiver(t, nil)
	own, _ := r.endpoint(t, mine.URL)
	if _, _, err := r.hooks.Create(t.Context(), by("other"), webhooks.Settings{URL: theirs.URL}); err != nil {
		t.Fatal(err)
	}
	r.engine(t)
	a, b := r.submit(t, "k"), r.submitTo(t, "other", "theirs", "k")
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		locked, err := r.cmds.Lock(t.Context(), tx, []uuid.UUID{a, b})
		if err != nil {
			return err
		}
		_, err = r.cmds.Move(t.Context(), tx, []commands.Move{
			{Command: locked[a], To: outcome.StateSuccess, Outcome: final(outcome.StateSuccess)},
			{Command: locked[b], To: outcome.StateSuccess, Outcome: final(outcome.StateSuccess)},
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := mine.await(t, 1)[0].message.Data.ID; got != a {
		t.Errorf("we were told of %s", got)
	}
	if got := theirs.await(t, 1)[0].message.Data.ID; got != b {
		t.Errorf("they were told of %s", got)
	}
	r.awaitState(t, a, webhooks.DeliveryDelivered)
	d, other, ctx := r.one(t, a), by("other"), t.Context()
	for name, call := range map[string]func() error{
		"get":       func() error { _, err := r.hooks.Get(ctx, "other", own.ID); return err },
		"update":    func() error { _, err := r.hooks.Update(ctx, other, own.ID, 0, webhooks.Changes{}); return err },
		"delete":    func() error { return r.hooks.Delete(ctx, other, own.ID, 0) },
		"rotate":    func() error { _, _, err := r.hooks.RotateSecret(ctx, other, own.ID, 0, 0); return err },
		"test":      func() error { _, err := r.hooks.Test(ctx, other, own.ID); return err },
		"delivery":  func() error { _, err := r.hooks.Delivery(ctx, "other", d.ID); return err },
		"redeliver": func() error { _, err := r.hooks.Redeliver(ctx, other, d.ID); return err },
		"redeliver*": func() error {
			_, err := r.hooks.RedeliverRange(ctx, other, webhooks.Range{Endpoint: own.ID})
			return err
		},
	} {
		if err := call(); err != webhooks.ErrNotFound {
			t.Errorf("%s across tenants: %v", name, err)
		}
	}
	list, _, err := r.hooks.Deliveries(ctx, webhooks.DeliveryFilter{Tenant: "other", Command: &a})
	if of, _ := r.hooks.DeliveriesOf(ctx, "other", a); err != nil || len(list)+len(of) != 0 {
		t.Errorf("another tenant's list: %v, %v", list, err)
	}
	if len(mine.all()) != 1 || len(theirs.all()) != 1 {
		t.Errorf("%d and %d requests", len(mine.all()), len(theirs.all()))
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t, "second", tenant)
	set := func(events, upstreams []string) func(*webhooks.Settings) {
		return func(s *webhooks.Settings) { s.Events, s.Upstreams = events, upstreams }
	}
	all, _ := r.endpoint(t, "https://a.example")
	good, _ := r.endpoint(t, "https://b.example", set([]string{"command.success", "command.corrected"}, nil))
	second, _ := r.endpoint(t, "https://c.example", set(nil, []string{"second", "third"}))
	both, _ := r.endpoint(t, "https://d.example", set([]string{"command.success"}, []string{"second"}))
	for _, tt := range []struct {
		upstream string
		state    outcome.State
		want     []uuid.UUID
	}{
		{"up", outcome.StateSuccess, []uuid.UUID{all.ID, good.ID}},
		{"up", outcome.StateRejected, []uuid.UUID{all.ID}},
		{"second", outcome.StateSuccess, []uuid.UUID{all.ID, good.ID, second.ID, both.ID}},
		{"second", outcome.StateCancelled, []uuid.UUID{all.ID, second.ID}},
	} {
		id := r.submitTo(t, tenant, tt.upstream, tt.upstream+string(tt.state))
		r.end(t, id, tt.state)
		var got []uuid.UUID
		for _, d := range r.of(t, id) {
			got = append(got, d.EndpointID)
		}
		byText := func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) }
		slices.SortFunc(got, byText)
		slices.SortFunc(tt.want, byText)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s of %s goes to %v, want %v", tt.state, tt.upstream, got, tt.want)
		}
	}
}

// TestAnEndpointMadeAMomentAgo is told of what ends after its creation committed.
func TestAnEndpointMadeAMomentAgo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.submit(t, "k")
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT now()`); err != nil { // the transaction has begun
			return err
		}
		r.endpoint(t, "https://late.example")
		return r.endIn(t.Context(), tx, id, outcome.StateSuccess)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.one(t, id)
}

// TestARolledBackOutcomeIsNotTold.
func TestARolledBackOutcomeIsNotTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	r.endpoint(t, to.URL)
	r.engine(t)
	id := r.submit(t, "k")
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.endIn(t.Context(), tx, id, outcome.StateRejected); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.end(t, id, outcome.StateSuccess)
	r.awaitState(t, id, webhooks.DeliveryDelivered)
	if list := to.all(); len(list) != 1 || list[0].message.Type != "command.success" {
		t.Errorf("told %+v", list)
	}
}

// TestAHeldDoubtIsDropped when the command settles first.
func TestAHeldDoubtIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hold = time.Hour
	to := newReceiver(t, nil)
	e, _ := r.endpoint(t, to.URL, func(s *webhooks.Settings) { s.Ordered = true })
	_, _ = r.endpoint(t, "https://doubts.example", func(s *webhooks.Settings) { s.Events = []string{"command.unresolved"} })
	r.engine(t)
	id := r.submit(t, "k")
	r.end(t, id, outcome.StateUnresolved)
	for _, d := range r.of(t, id) {
		if d.State != webhooks.DeliveryPending || d.HeldUntil == nil || !d.NextAt.Equal(d.At.Add(time.Hour)) {
			t.Errorf("held as %+v", d)
		}
	}
	r.end(t, id, outcome.StateSuccess)
	list := to.await(t, 1)
	if m := list[0].message; m.Type != "command.success" || m.Data.Sequence != 2 || m.Data.PreviousState == nil || *m.Data.PreviousState != "unresolved" {
		t.Errorf("told %s", list[0].body)
	}
	dropped := 0
	for _, d := range r.of(t, id) {
		if d.Sequence == 1 && d.State == webhooks.DeliveryDropped && d.Tries == 0 && d.EndedAt != nil {
			dropped++ // also at the endpoint that does not want what came after
		}
	}
	if dropped != 2 {
		t.Errorf("%d held deliveries were dropped, want 2: %+v", dropped, r.of(t, id))
	}
	first := r.of(t, id)[slices.IndexFunc(r.of(t, id), func(d webhooks.Delivery) bool { return d.EndpointID == e.ID })]
	if _, err := r.hooks.Redeliver(t.Context(), by(tenant), first.ID); err != nil {
		t.Fatal(err)
	}
	if g := to.await(t, 2)[1]; g.id != first.EventID.String() || g.message.Type != "command.unresolved" {
		t.Errorf("by hand: %s", g.body)
	}
}

// TestADoubtWhoseHoldPassedIsTold, claimed or not.
func TestADoubtWhoseHoldPassedIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hold = time.Nanosecond
	to := newReceiver(t, nil)
	r.endpoint(t, to.URL)
	id := r.submit(t, "k")
	r.end(t, id, outcome.StateUnresolved)
	r.end(t, id, outcome.StateSuccess) // before anybody delivers
	r.engine(t)
	to.await(t, 2)
	for _, d := range r.of(t, id) {
		await(t, "delivered", func() bool { return r.account(t, d.ID).State == webhooks.DeliveryDelivered })
	}
}

// TestHoldsCrossSettlements: around the moment when holds pass, a doubt is either
// dropped or told, never both and never neither, and what settles it is told
// once.
func TestHoldsCrossSettlements(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.hold = 300 * time.Millisecond
	to := newReceiver(t, nil)
	r.endpoint(t, to.URL)
	r.engine(t)
	const n = 60
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = r.submit(t, fmt.Sprint("k", i))
	}
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			if err := r.tryEnd(t.Context(), id, outcome.StateUnresolved); err != nil {
				t.Error(err)
				return
			}
			<-time.After(r.hold + time.Duration(i-n/2)*5*time.Millisecond) // spread around the moment
			if err := r.tryEnd(t.Context(), id, outcome.StateSuccess); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	await(t, "nothing is pending", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'`) == 0
	})
	told := map[string]int{} // command and type
	for _, g := range to.all() {
		told[g.message.Data.ID.String()+g.message.Type]++
	}
	sent := 0
	for _, id := range ids {
		for _, d := range r.of(t, id) {
			want := map[webhooks.DeliveryState]int{webhooks.DeliveryDelivered: 1, webhooks.DeliveryDropped: 0}[d.State]
			if told[id.String()+d.Type] != want || (d.State == webhooks.DeliveryDropped && d.Sequence != 1) {
				t.Errorf("%s is %s and was told %d times", d.Type, d.State, told[id.String()+d.Type])
			}
			sent += want
		}
	}
	t.Logf("%d of %d doubts were told", sent-n, n)
	if n := r.count(t, `SELECT count(*) FROM (SELECT FROM webhook_events GROUP BY command_id, sequence HAVING count(*) > 1) twice`); n != 0 {
		t.Errorf("%d outcomes with two ids", n)
	}
}

// statements hears what a transaction sends.
type statements struct {
	pgx.Tx
	sql []string
	arg [][]any
}

func (s *statements) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	s.sql, s.arg = append(s.sql, sql), append(s.arg, args)
	return s.Tx.Query(ctx, sql, args...)
}

// TestAnnounceScales: two statements for any batch, one where nobody listens, and
// none of them reads a table from end to end.
func TestAnnounceScales(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 60
	events := make([]commands.OutcomeEvent, n)
	for i := range events {
		id := r.ended(t, fmt.Sprint("k", i), outcome.StateUnresolved)
		events[i] = commands.OutcomeEvent{
			ID: uuid.Must(uuid.NewV7()), CommandID: id, Tenant: tenant, Number: 9, Type: "command.success", At: time.Now(), Sequence: 2,
			PreviousState: outcome.StateUnresolved, Data: []byte(`{"state":"success"}`),
		}
	}
	r.fill(t)
	announce := func() *statements {
		heard := &statements{}
		err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
			heard.Tx = tx
			return r.hooks.Announce(t.Context(), heard, events)
		})
		if err != nil {
			t.Fatal(err)
		}
		return heard
	}
	if heard := announce(); len(heard.sql) != 1 || r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE tenant = $1`, tenant) != 0 {
		t.Errorf("without endpoints: %d queries", len(heard.sql))
	}
	r.endpoint(t, "https://a.example")
	r.endpoint(t, "https://b.example")
	heard := announce()
	if got := r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE tenant = $1`, tenant); got != 2*n {
		t.Errorf("%d deliveries, want %d", got, 2*n)
	}
	none := []uuid.UUID{}
	held := make([]any, 17)
	held[0], held[1] = []uuid.UUID{uuid.New()}, []int32{2}
	for name, plan := range map[string]string{
		"wanted":   r.explain(t, heard.sql[0], heard.arg[0]...),
		"announce": r.explain(t, webhooks.AnnounceSQL, held...),
		"anything": r.explain(t, webhooks.AnythingSQL, false),
		"claim":    r.explain(t, webhooks.ClaimSQL, "", false, 4, none, []int32{}, 256, uuid.New(), time.Second, 1000, time.Hour),
	} {
		for _, table := range []string{"commands", "command_requests", "webhook_deliveries", "webhook_events"} {
			if strings.Contains(plan, "Seq Scan on "+table) {
				t.Errorf("%s reads %s from end to end:\n%s", name, table, plan)
			}
		}
	}
}

// fill gives the planner tables of some size and knowledge of them.
func (r *rig) fill(t testing.TB) {
	t.Helper()
	r.exec(t, `INSERT INTO webhook_endpoints (id, tenant, url, description, events, upstreams, ordered, created_at, updated_at)
		SELECT gen_random_uuid(), 'tenant ' || n % 50, 'https://example.com/' || n, '', '{}', '{}', n % 2 = 0, now(), now() FROM generate_series(1, 200) n`)
	r.exec(t, `INSERT INTO webhook_events (id, tenant, command_id, sequence, type, at, payload)
		SELECT gen_random_uuid(), 'tenant ' || n % 50, gen_random_uuid(), 1, 'command.success', now() - n * interval '1 s', '{}' FROM generate_series(1, 20000) n`)
	r.exec(t, `INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, command_id, sequence, type, at, next_at, state, ended_at)
		SELECT v.id, e.id, v.tenant, v.command_id, 1, v.type, v.at, v.at, 'delivered', now()
		FROM webhook_events v JOIN LATERAL (SELECT id FROM webhook_endpoints e WHERE e.tenant = v.tenant LIMIT 1) e ON true`)
	r.exec(t, `UPDATE webhook_deliveries SET state = 'pending', ended_at = NULL WHERE id IN (SELECT id FROM webhook_deliveries ORDER BY at LIMIT 500)`)
	r.exec(t, `INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, outcome)
		SELECT gen_random_uuid(), 'filler', n::text, 1, 'pay', 1, 'success', now(), now(), '{}' FROM generate_series(1, 20000) n`)
	r.exec(t, `INSERT INTO command_requests SELECT c.id, c.tenant, 'POST', '/', '[]', '', 'replayable', '', '', '', '', '{}', '', '{}', '' FROM commands c WHERE c.tenant = 'filler'`)
	r.exec(t, `ANALYZE`)
}

// explain is how the server would run a statement for any arguments.
func (r *rig) explain(t testing.TB, sql string, args ...any) string {
	t.Helper()
	var plan strings.Builder
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SET LOCAL plan_cache_mode = force_generic_plan`); err != nil {
			return err
		}
		rows, err := tx.Query(t.Context(), `EXPLAIN ANALYZE `+sql, args...)
		if err != nil {
			return err
		}
		var line string
		_, err = pgx.ForEachRow(rows, []any{&line}, func() error {
			plan.WriteString(line + "\n")
			return nil
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// BenchmarkAnnounce measures a batch of outcomes, with and without endpoints.
func BenchmarkAnnounce(b *testing.B) {
	for _, endpoints := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("%d endpoints", endpoints), func(b *testing.B) {
			r := newRigOn(b, testkit.Database(b))
			for i := range endpoints {
				r.endpoint(b, fmt.Sprintf("https://example.com/%d", i))
			}
			events := make([]commands.OutcomeEvent, 100)
			for i := range events {
				events[i] = commands.OutcomeEvent{
					CommandID: r.submit(b, fmt.Sprint("k", i)), Tenant: tenant, Number: 2, Type: "command.success", At: time.Now(), Sequence: 1,
					Data: []byte(`{"state":"success","reason":"applied","status":201,"reference":"pay_1","decided_at":"2026-11-30T00:00:00Z"}`),
				}
			}
			for b.Loop() {
				for i := range events {
					events[i].ID = uuid.Must(uuid.NewV7())
				}
				err := pgx.BeginFunc(b.Context(), r.pool, func(tx pgx.Tx) error { return r.hooks.Announce(b.Context(), tx, events) })
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(events)), "µs/event")
		})
	}
}
