package reconcile_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// patience bounds waits for events that take moments, on a busy machine.
const patience = time.Minute

const tenant = "default"

// rig is one process's worth of what follows up doubts, on a database of its own.
// Nobody sends: attempts are put on record by hand.
type rig struct {
	pool     *pgxpool.Pool
	ups      *upstreams.Store
	commands *commands.Store
	store    *reconcile.Store
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigOn(t, testkit.Database(t))
}

func newRigOn(t testing.TB, pool *pgxpool.Pool) *rig {
	t.Helper()
	r := &rig{pool: pool, ups: upstreams.NewStore(pool)}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.commands = commands.NewStore(commands.Config{Pool: pool, Upstreams: r.ups, Jobs: jobs, Log: testLog()})
	t.Cleanup(r.commands.Close)
	r.store = reconcile.NewStore(reconcile.Config{Pool: pool, Commands: r.commands, Upstreams: r.ups, Log: testLog()})
	return r
}

func testLog() *slog.Logger {
	if os.Getenv("EXECUTOR_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start runs an engine until the test ends. It asks servers on loopback where a
// profile permits them.
func (r *rig) start(t testing.TB, changes ...func(*reconcile.EngineConfig)) *reconcile.Engine {
	t.Helper()
	guard := egress.NewGuard(egress.GuardConfig{})
	config := reconcile.EngineConfig{
		Store: r.store, Dialer: egress.NewDialer(guard, nil), Instance: "test-" + uuid.NewString(), Log: testLog(),
		Access: upstreams.NewAccess(egress.NewSecrets(os.Getenv, ""), egress.NewTokens(egress.TokensConfig{Guard: guard})),
	}
	for _, change := range changes {
		change(&config)
	}
	engine := reconcile.NewEngine(config)
	engine.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // what is under way is cut off
		engine.Stop(ctx)
	})
	return engine
}

func (r *rig) apply(t testing.TB, source string) upstreams.Upstream {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := r.ups.Apply(t.Context(), p, audit.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// server is an upstream that is asked what became of a command. It notes every
// question.
type server struct {
	*httptest.Server
	mu        sync.Mutex
	questions []string // request lines
}

func newServer(t testing.TB, answer http.HandlerFunc) *server {
	t.Helper()
	return serve(t, answer, httptest.NewServer)
}

// newTLSServer has a certificate that nobody trusts.
func newTLSServer(t testing.TB, answer http.HandlerFunc) *server {
	t.Helper()
	return serve(t, answer, httptest.NewTLSServer)
}

func serve(t testing.TB, answer http.HandlerFunc, start func(http.Handler) *httptest.Server) *server {
	s := &server{}
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.questions = append(s.questions, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		answer(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// asked are the questions so far that hold the text.
func (s *server) asked(text string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, q := range s.questions {
		if strings.Contains(q, text) {
			list = append(list, q)
		}
	}
	return list
}

// answer writes a JSON answer.
func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

const (
	nothing = `{"items": []}`
	done    = `{"items": [{"id": "pay_1", "state": "done", "amount": 100}]}`
	failed  = `{"items": [{"id": "pay_1", "state": "failed", "amount": 100, "code": "card_declined"}]}`
	working = `{"items": [{"id": "pay_1", "state": "working", "amount": 100}]}`
)

// byKey is a lookup by our own key; rest are further members of it.
func byKey(rest string) string {
	return `
      method: GET
      path: /payments
      query: {client_reference: "{key}"}
      findings:
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "done", finding: applied, reference: json.items[0].id}
        - {when: status == 200 && size(json.items) == 1 && json.items[0].state == "failed", finding: refused, code: json.items[0].code}
        - {when: status == 200 && size(json.items) == 1, finding: pending, reference: json.items[0].id}
        - {when: status == 200 && size(json.items) == 0, finding: absent}
` + indented(rest, 6)
}

// often is a schedule of a round a second.
const often = `schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 1m}`

// profileFor is a profile of the upstream "up" whose operation "charge" is not
// idempotent and has this lookup; top are further members of the profile.
func profileFor(url, lookup, top string) string {
	return fmt.Sprintf(`version: 1
upstream: up
base_url: %s
egress: {allow: [127.0.0.0/8]}
timeouts: {connect: 1s, tls: 1s, response_header: 2s, total: 2s}
deadline: 1m
retry: {max_attempts: 3, min_attempt_window: 100ms, backoff: {initial: 20ms, max: 100ms, jitter: none}}
%s
operations:
  charge:
    method: POST
    path: /charges
    body: json
    result: {reference: json.id}
    lookup:%s
`, url, top, lookup)
}

func indented(text string, by int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", by) + line)
	}
	return b.String()
}

// ending is what the attempt of a command saw that ends unresolved.
type ending struct {
	evidence  outcome.Evidence
	answer    outcome.Answer
	status    int
	reference string
	link      string
	latestEnd time.Duration // from its start

	retryAfter string
}

var lost = ending{evidence: outcome.EvidenceSentNoResponse}

// submit accepts a command that nobody sends.
func (r *rig) submit(t testing.TB, key string) commands.Command {
	t.Helper()
	a, err := r.commands.Submit(t.Context(), commands.Submission{
		Tenant: tenant, Key: key, Upstream: "up", Operation: "charge", Actor: "test", Body: []byte(`{"amount":100}`), HasBody: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.Command
}

// unresolved is a command whose one attempt left doubt.
func (r *rig) unresolved(t testing.TB, key string, e ending) uuid.UUID {
	t.Helper()
	id := r.submit(t, key).ID
	r.begin(t, id, e)
	r.finish(t, id, e)
	return id
}

// begin puts an attempt on the wire, as far as the record goes.
func (r *rig) begin(t testing.TB, id uuid.UUID, e ending) {
	t.Helper()
	r.step(t, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		_, err := tx.Exec(t.Context(), `
			INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at,
				send_deadline, latest_end, request, bytes_total, body_sha256)
			VALUES ($1, $2, $3, $4, 1, 'test', $5, $6, $6, $7, '{}', 10, '')`,
			id, c.Attempts+1, c.Tenant, c.UpstreamID, c.ProfileVersion, c.Now, c.Now.Add(e.latestEnd))
		if err != nil {
			return nil, err
		}
		return r.commands.Move(t.Context(), tx, []commands.Move{{Command: c, To: outcome.StateExecuting, Attempts: c.Attempts + 1}})
	})
}

// finish ends it, and closes the command on what its attempts saw.
func (r *rig) finish(t testing.TB, id uuid.UUID, e ending) {
	t.Helper()
	ctx := t.Context()
	r.step(t, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		_, err := tx.Exec(ctx, `
			UPDATE attempts SET ended_at = $2, evidence = $3, category = 'none', answer = $4, status = $5, reference = $6, link = $7,
				boundary = $8, retry_after = $9
			WHERE command_id = $1 AND ended_at IS NULL`, c.ID, c.Now, e.evidence, e.answer, e.status, e.reference, e.link,
			outcome.BoundaryOf(outcome.IdempotencyNone, e.evidence, e.answer), e.retryAfter)
		if err != nil {
			return nil, err
		}
		history, err := r.commands.History(ctx, tx, []uuid.UUID{c.ID})
		if err != nil {
			return nil, err
		}
		terms, err := r.commands.Terms(ctx, c)
		if err != nil {
			return nil, err
		}
		past := history[c.ID]
		final := commands.FinalOf(outcome.Close(commands.FactsOf(terms, c, past)), outcome.ReasonAmbiguous, outcome.DecidedByAttempt, past)
		return r.commands.Move(ctx, tx, []commands.Move{{Command: c, To: final.State, Attempts: c.Attempts, Outcome: final}})
	})
}

// step does one thing to a command under its lock.
func (r *rig) step(t testing.TB, id uuid.UUID, do func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error)) {
	t.Helper()
	var moved []commands.Moved
	err := pgx.BeginFunc(t.Context(), r.pool, func(tx pgx.Tx) error {
		locked, err := r.commands.Lock(t.Context(), tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		moved, err = do(tx, locked[id])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.commands.Changed(moved)
}

// deployment names the deployment that the data belongs to, as it is at the moment.
func (r *rig) deployment(t testing.TB, id string) {
	t.Helper()
	r.exec(t, `INSERT INTO deployment (id, system_identifier, timeline) VALUES ($1, '', `+commands.TimelineSQL+`)`, id)
}

func (r *rig) get(t testing.TB, id uuid.UUID) commands.Command {
	t.Helper()
	c, err := r.commands.Get(context.Background(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reaches waits until a command is in a state.
func (r *rig) reaches(t testing.TB, id uuid.UUID, state outcome.State) commands.Command {
	t.Helper()
	var c commands.Command
	eventually(t, fmt.Sprintf("command %s %s", id, state), func() bool {
		c = r.get(t, id)
		if c.State.Absorbing() && c.State != state {
			t.Fatalf("command %s is %s, not %s: %s", id, c.State, state, r.findings(t, id))
		}
		return c.State == state
	})
	return c
}

// handed waits until a person has the command, and says why.
func (r *rig) handed(t testing.TB, id uuid.UUID) string {
	t.Helper()
	eventually(t, "review", func() bool {
		c := r.get(t, id)
		if c.State != outcome.StateUnresolved {
			t.Fatalf("command %s is %s: %s", id, c.State, r.findings(t, id))
		}
		return c.Reconciliation.Phase == string(outcome.NextActionReview)
	})
	var why string
	r.scan(t, `SELECT handed_reason FROM doubts WHERE command_id = $1`, []any{id}, &why)
	return why
}

func (r *rig) lookups(t testing.TB, id uuid.UUID) []reconcile.Lookup {
	t.Helper()
	list, err := r.store.Lookups(context.Background(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// findings are what the lookups about a command found, in order; those that count
// are marked.
func (r *rig) findings(t testing.TB, id uuid.UUID) string {
	t.Helper()
	var words []string
	for _, l := range r.lookups(t, id) {
		word := string(l.Finding)
		if l.Counts {
			word += "!"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// eventTypes are the types of the announced events of a command, in order.
func (r *rig) eventTypes(t testing.TB, id uuid.UUID) string {
	t.Helper()
	var types string
	r.scan(t, `SELECT coalesce(string_agg(type, ' ' ORDER BY number), '') FROM events WHERE command_id = $1`, []any{id}, &types)
	return types
}

func (r *rig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// scan reads the one row of a query into its targets.
func (r *rig) scan(t testing.TB, sql string, args []any, into ...any) {
	t.Helper()
	if err := r.pool.QueryRow(context.Background(), sql, args...).Scan(into...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	r.scan(t, sql, args, &n)
	return n
}

// eventually waits for a condition that an event elsewhere brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, ok)
}
