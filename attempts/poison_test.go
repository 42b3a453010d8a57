package attempts_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/outcome"
)

// panicking is a resolver that cannot look up anything under "poison".
type panicking struct{ counting }

func (p *panicking) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if strings.HasPrefix(host, "poison") {
		panic("poisoned name")
	}
	return p.counting.LookupNetIP(ctx, network, host)
}

// TestPoison: a command on which our own code breaks ends by what is certain,
// without another try, and holds up no other.
func TestPoison(t *testing.T) {
	t.Parallel()
	var (
		before, after set
		pool          = database(t)
		up            = newLedger(t, always(201, paid))
	)
	p := startProcess(t, pool, options{resolver: &panicking{}, begun: before.strike, seen: after.strike})
	p.apply(t, brief("up", up.URL, ample, "limits: {max_in_flight: 4}"))
	poisoned := brief("poison", up.URL, ample, "")
	p.apply(t, strings.Replace(poisoned, "127.0.0.1:", "poison.test:", 1))

	submit := func(name, upstream, operation string, hit *set) uuid.UUID {
		s := order(name, operation)
		s.Upstream = upstream
		later := time.Now().Add(time.Second)
		s.NotBefore = &later // so that it can be marked before it runs
		id := p.submit(t, s).ID
		if hit != nil {
			hit.add(id)
		}
		return id
	}
	tests := []struct {
		name  string
		id    uuid.UUID
		state outcome.State
		why   outcome.OutcomeReason
		wire  int
	}{
		{"before begin", submit("before begin", "poison", "charge", nil), outcome.StateCancelled, outcome.OutcomeReasonNeverSent, 0},
		{"before the gate", submit("before the gate", "up", "charge", &before), outcome.StateCancelled, outcome.OutcomeReasonNeverSent, 0},
		{"after the gate", submit("after the gate", "up", "charge", &after), outcome.StateUnresolved, outcome.OutcomeReasonNoResponse, 1},
		{"keyed, after the gate", submit("keyed, after the gate", "up", "pay", &after), outcome.StateUnresolved, outcome.OutcomeReasonNoResponse, 1},
	}
	var others []uuid.UUID
	for i := range 20 {
		others = append(others, p.submit(t, order(fmt.Sprintf("other-%d", i), "pay")).ID)
	}
	for _, id := range others {
		if c := p.final(t, id); c.State != outcome.StateSuccess {
			t.Errorf("%s ended %s", c.Key, c.State)
		}
	}
	for _, tt := range tests {
		c := p.final(t, tt.id)
		if c.State != tt.state || c.Outcome.Reason != tt.why || len(up.of(tt.name)) != tt.wire {
			t.Errorf("%s: ended %s, %s, after %d requests; want %s, %s, %d", tt.name, c.State, c.Outcome.Reason, len(up.of(tt.name)), tt.state, tt.why, tt.wire)
		}
		list := p.attempts(t, tt.id)
		if len(list) != 1 || !strings.Contains(list[0].Detail, "executor_error") {
			t.Errorf("%s: attempts on record: %s", tt.name, evidences(list))
		}
	}
	up.verify(t, pool)
}

// refuseBodies makes the database refuse rows whose body says poison, as if it could
// not hold it.
func refuseBodies(t testing.TB, pool *pgxpool.Pool, table, when, column string) {
	t.Helper()
	_, err := pool.Exec(context.Background(), `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF convert_from(NEW.`+column+`, 'UTF8') LIKE '%poison%' THEN
				RAISE EXCEPTION 'refused' USING ERRCODE = '22021';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER refuse BEFORE `+when+` ON `+table+` FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if err != nil {
		t.Fatal(err)
	}
}

// TestRefusedEvidence: should the database refuse what was seen, as it did text
// with zero bytes in other products, the end is written without it.
func TestRefusedEvidence(t *testing.T) {
	t.Parallel()
	pool := database(t)
	refuseBodies(t, pool, "attempts", "UPDATE", "response_body")
	up := newLedger(t, func(w http.ResponseWriter, _ *http.Request, order string, _ int) {
		reply(w, 201, fmt.Sprintf(`{"id":"pay_9","note":%q}`, order))
	})
	p := startProcess(t, pool, options{})
	p.apply(t, brief("up", up.URL, ample, ""))
	poisoned := p.submit(t, order("poison", "charge")).ID
	other := p.submit(t, order("other", "charge")).ID
	for _, id := range []uuid.UUID{poisoned, other} {
		if c := p.final(t, id); c.State != outcome.StateSuccess || c.Attempts != 1 {
			t.Errorf("%s ended %s", c.Key, c.State)
		}
	}
	if a := p.attempts(t, poisoned)[0]; a.Status != 201 || len(a.Notes) != 1 || len(a.ResponseBody) != 0 {
		t.Errorf("kept %d, %q, %s", a.Status, a.ResponseBody, a.Notes)
	}
	up.verify(t, pool)
}
