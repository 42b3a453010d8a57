package attempts_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/outcome"
)

// failing answers the first n requests of each order with a status, and then
// applies them.
func failing(n, status int) func(http.ResponseWriter, *http.Request, string, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ string, count int) {
		if count <= n {
			reply(w, status, `{}`)
			return
		}
		reply(w, 201, paid)
	}
}

// tokens is what is left in the retry budget of the only upstream.
func tokens(t testing.TB, pool *pgxpool.Pool) float64 {
	t.Helper()
	return query[struct{ BudgetTokens float64 }](t, pool, `SELECT budget_tokens FROM upstreams`)[0].BudgetTokens
}

// TestBudgetPays: the budget starts full, every retry takes a token, first
// attempts take none and earn a share.
func TestBudgetPays(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, failing(3, 503))
	p := startProcess(t, pool, options{})
	p.apply(t, brief("up", up.URL, ample, "  budget: {ratio: 0.5, floor_per_second: 0, burst: 5, when_empty: close}"))
	if got := tokens(t, pool); got != 5 {
		t.Errorf("it starts with %v tokens", got)
	}
	c := p.final(t, p.submit(t, order("k", "pay")).ID)
	var left []float64
	for _, a := range p.attempts(t, c.ID) {
		left = append(left, a.BudgetTokens)
	}
	// The first attempt may have earned its half between two of the others.
	if len(left) != 4 || left[0] < 4 || left[2] > 2.5 || left[0]-left[1] > 1 || left[1]-left[2] > 1 {
		t.Errorf("tokens after each attempt: %v", left)
	}
	eventually(t, "the credit of the first attempt", func() bool { return tokens(t, pool) == 2.5 })
	up.verify(t, pool)
}

// TestBudgetWaits: with when_empty wait a command waits for a token, and goes on
// without another pause.
func TestBudgetWaits(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, failing(2, 503))
	p := startProcess(t, pool, options{})
	p.apply(t, brief("up", up.URL, ample, "  budget: {ratio: 0, floor_per_second: 0.4, burst: 1, when_empty: wait}"))
	id := p.submit(t, order("k", "pay")).ID
	p.waitsFor(t, id, commands.WaitRetryToken)
	c := p.final(t, id)
	list := p.attempts(t, id)
	if c.State != outcome.StateSuccess || len(list) != 3 {
		t.Fatalf("ended %s: %s", c.State, evidences(list))
	}
	if list[1].Decision != outcome.VerdictWaitBudget || list[1].Reason != outcome.ReasonBudgetExhausted {
		t.Errorf("after the second attempt: %s, %s", list[1].Decision, list[1].Reason)
	}
	up.verify(t, pool)
}

// TestBudgetCloses: with when_empty close an empty budget ends commands by what
// is known, and two processes have one budget between them.
func TestBudgetCloses(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, failing(100, 503))
	a := startProcess(t, pool, options{})
	b := startProcess(t, pool, options{})
	a.apply(t, brief("up", up.URL, ample, "  budget: {ratio: 0, floor_per_second: 0, burst: 4, when_empty: close}"))
	var ids []uuid.UUID
	for i := range 10 {
		ids = append(ids, []*process{a, b}[i%2].submit(t, order(fmt.Sprintf("k%d", i), "pay")).ID)
	}
	ended := map[outcome.Reason]int{}
	for _, id := range ids {
		c := a.final(t, id)
		ended[c.Outcome.StoppedBy]++
		if c.State != outcome.StateUnresolved {
			t.Errorf("%s ended %s", c.Key, c.State)
		}
	}
	if n := len(up.all()); n != 14 || ended[outcome.ReasonBudgetExhausted] < 9 {
		t.Errorf("%d requests for 10 commands and 4 tokens; stopped by %v", n, ended)
	}
	if got := tokens(t, pool); got != 0 {
		t.Errorf("%v tokens are left", got)
	}
	up.verify(t, pool)
}

// TestTokensHoldDialsBack: commands that wait for a token do not knock at the
// upstream's door meanwhile.
func TestTokensHoldDialsBack(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, failing(1, 429))
	dials := &counting{}
	p := startProcess(t, pool, options{resolver: dials})
	named := strings.Replace(up.URL, "127.0.0.1:", "up.test:", 1)
	p.apply(t, brief("up", named, ample, "  budget: {ratio: 0, floor_per_second: 2, burst: 1, when_empty: wait}"))
	var ids []uuid.UUID
	for i := range 12 {
		ids = append(ids, p.submit(t, order(fmt.Sprintf("k%d", i), "charge")).ID)
	}
	for _, id := range ids {
		if c := p.final(t, id); c.State != outcome.StateSuccess || c.Attempts != 2 {
			t.Errorf("%s ended %s after %d attempts", c.Key, c.State, c.Attempts)
		}
	}
	if n := int(dials.asked.Load()); n != len(up.all()) {
		t.Errorf("%d dials for %d requests", n, len(up.all()))
	}
	up.verify(t, pool)
}
