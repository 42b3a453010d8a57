package attempts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/outcome"
)

// ledger is an upstream that keeps account of every request it read, by the
// order that the body names. What it saw is the truth that records are compared
// with.
type ledger struct {
	*httptest.Server

	mu       sync.Mutex
	arrivals []arrival
}

// arrival is one request at the upstream.
type arrival struct {
	Order, Method, Path, Key, Authorization, Body string
	At                                            time.Time
}

// newLedger serves handler; n counts the requests of one order from 1.
func newLedger(t testing.TB, handler func(w http.ResponseWriter, r *http.Request, order string, n int)) *ledger {
	t.Helper()
	l := &ledger{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // not a whole request: nothing was done
		}
		var named struct{ Order string }
		_ = json.Unmarshal(body, &named)
		a := arrival{named.Order, r.Method, r.URL.RequestURI(), r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), string(body), time.Now()}
		l.mu.Lock()
		l.arrivals = append(l.arrivals, a)
		l.mu.Unlock()
		handler(w, r, a.Order, len(l.of(a.Order)))
	}))
	t.Cleanup(func() {
		l.CloseClientConnections()
		l.Close()
	})
	return l
}

func (l *ledger) all() []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.arrivals)
}

func (l *ledger) of(order string) []arrival {
	return slices.DeleteFunc(l.all(), func(a arrival) bool { return a.Order != order })
}

// reply answers with a status and a JSON body.
func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

const paid = `{"id":"pay_9"}`

// hang keeps a request until its sender goes away or the channel is closed, and
// says whether it was the channel.
func hang(r *http.Request, release <-chan struct{}) bool {
	select {
	case <-release:
		return true
	case <-r.Context().Done():
		return false
	}
}

// order is a submission whose key and body name it.
func order(name, operation string) commands.Submission {
	s := submission(name, operation)
	s.Body = fmt.Appendf(nil, `{"order":%q}`, name)
	return s
}

// verify checks what must hold of every command whatever happened; it is called when
// nothing is under way any more.
func (l *ledger) verify(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	for _, c := range commandsIn(t, pool) {
		l.verifyCommand(t, c)
	}
}

// kept is a command with its attempts and outcome events as the tables hold
// them.
type kept struct {
	ID          uuid.UUID
	Key         string
	Operation   string
	State       outcome.State
	Sequence    int
	FinalizedAt *time.Time
	attempts    []keptAttempt
	events      []keptEvent
}

type keptAttempt struct {
	CommandID uuid.UUID
	Number    int
	StartedAt time.Time
	LatestEnd time.Time
	EndedAt   *time.Time
	Evidence  outcome.Evidence
	Category  outcome.Category
	Boundary  outcome.Boundary
	Synthetic bool
}

// lost says that nobody knows when it ended.
func (a keptAttempt) lost() bool {
	return a.Category == outcome.CategoryExecutorLost && a.Evidence == outcome.EvidenceSentNoResponse
}

type keptEvent struct {
	CommandID uuid.UUID
	Type      string
	At        time.Time
	Sequence  int
}

func commandsIn(t testing.TB, pool *pgxpool.Pool) []*kept {
	t.Helper()
	list := query[kept](t, pool, `SELECT id, idempotency_key AS key, operation, state, sequence, finalized_at FROM commands ORDER BY id`)
	byID := make(map[uuid.UUID]*kept, len(list))
	all := make([]*kept, len(list))
	for i := range list {
		all[i] = &list[i]
		byID[list[i].ID] = all[i]
	}
	for _, a := range query[keptAttempt](t, pool, `
		SELECT command_id, number, started_at, latest_end, ended_at, coalesce(evidence, '') AS evidence, category, boundary,
			detail LIKE 'synthetic:%' AS synthetic
		FROM attempts ORDER BY command_id, number`) {
		byID[a.CommandID].attempts = append(byID[a.CommandID].attempts, a)
	}
	for _, e := range query[keptEvent](t, pool, `
		SELECT command_id, type, at, sequence FROM events WHERE sequence > 0 ORDER BY command_id, number`) {
		byID[e.CommandID].events = append(byID[e.CommandID].events, e)
	}
	return all
}

func query[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	rows, err := pool.Query(context.Background(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// count runs a query for one number named n.
func count(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	return query[struct{ N int }](t, pool, sql, args...)[0].N
}

func (l *ledger) verifyCommand(t testing.TB, c *kept) {
	t.Helper()
	wire := l.of(c.Key)
	fault := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s (%s, %s): %s\n  on record: %s\n  on the wire: %d", c.Key, c.Operation, c.State, fmt.Sprintf(format, args...), c.account(), len(wire))
	}
	if !c.State.Final() || c.FinalizedAt == nil {
		fault("not final")
		return
	}
	c.verifyEvents(fault)
	c.verifyAttempts(fault)
	c.verifyWire(fault, wire)
}

func (c *kept) account() string {
	text := ""
	for _, a := range c.attempts {
		text += fmt.Sprintf("[%d %s %s] ", a.Number, a.Evidence, a.Category)
	}
	return text
}

// verifyEvents: each outcome has one event, and the last one tells the state.
func (c *kept) verifyEvents(fault func(string, ...any)) {
	for i, e := range c.events {
		if e.Sequence != i+1 {
			fault("event %d has sequence %d", i+1, e.Sequence)
		}
	}
	if n := len(c.events); n == 0 || n != c.Sequence || c.events[n-1].Type != "command."+string(c.State) {
		fault("its outcome events are %+v", c.events)
	}
}

// verifyAttempts: all are closed and numbered, none overlaps another, and none
// follows a possibly crossed one of an operation that is not safe to repeat.
func (c *kept) verifyAttempts(fault func(string, ...any)) {
	doubt := false
	for i, a := range c.attempts {
		if a.Number != i+1 || a.EndedAt == nil {
			fault("attempt %d is numbered %d, ended %v", i+1, a.Number, a.EndedAt)
			return
		}
		if c.Operation == "charge" && doubt {
			fault("attempt %d follows one that may have acted", a.Number)
		}
		doubt = doubt || a.Boundary != outcome.BoundaryNotCrossed
		if i == 0 || a.Synthetic {
			continue
		}
		before := c.attempts[i-1]
		end := *before.EndedAt
		if before.lost() && before.LatestEnd.After(end) {
			end = before.LatestEnd
		}
		if a.StartedAt.Before(end) {
			fault("attempt %d began %s before the end of the one before it", a.Number, end.Sub(a.StartedAt))
		}
	}
}

// verifyWire: what arrived was begun, nothing more arrived than was begun, all of
// it was the same request, and nothing arrived once an outcome was told.
func (c *kept) verifyWire(fault func(string, ...any), wire []arrival) {
	begun, answered := 0, 0
	for _, a := range c.attempts {
		if a.Evidence != outcome.EvidenceNotSent && !a.Synthetic {
			begun++
		}
		if a.Evidence.HasStatus() {
			answered++
		}
	}
	if len(wire) > begun || len(wire) < answered {
		fault("%d attempts may have been sent and %d were answered, but %d requests arrived", begun, answered, len(wire))
	}
	for _, a := range wire {
		if first := wire[0]; a.Method != first.Method || a.Path != first.Path || a.Key != first.Key || a.Body != first.Body {
			fault("two requests differ: %+v and %+v", first, a)
		}
		if c.Operation == "pay" && a.Key != c.Key {
			fault("sent under the key %q", a.Key)
		}
		if len(c.events) > 0 && a.At.After(c.events[0].At) {
			fault("a request arrived %s after the first outcome", a.At.Sub(c.events[0].At))
		}
	}
}
