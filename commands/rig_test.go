package commands_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/upstreams"
)

// patience bounds waits for events that take moments, on a busy machine.
const patience = 30 * time.Second

const tenant = "default"

// profile describes one operation of each kind. Nothing is ever sent to it.
const profile = `version: 1
upstream: up
base_url: https://up.example/v2
deadline: 10m
retry: {max_attempts: 9, min_attempt_window: 1s, backoff: {initial: 100ms, max: 1s, jitter: none}}
operations:
  pay:
    method: POST
    path: /accounts/{account}/payments
    body: json
    caller_headers: [X-Trace, X-Channel]
    caller_query: [mode]
    idempotency:
      kind: keyed
      key: {in: header, name: Idempotency-Key, max_length: 40}
      retention: 24h
      authoritative_refusals: [422]
  pay_in_body:
    method: POST
    path: /payments
    body: json
    idempotency: {kind: keyed, retention: 24h, key: {in: body, name: /meta/key}}
  charge: {method: POST, path: /charges, body: json, result: {headers: [X-Odd]}}
  upload: {method: POST, path: /files, body: raw}
  ping: {method: POST, path: /ping, body: none}
  balance: {method: GET, path: "/accounts/{account}", body: none, idempotency: {kind: safe}}
`

// rig is a store on a database of its own, without anybody who sends: what an
// engine does, the test does by hand.
type rig struct {
	pool  *pgxpool.Pool
	ups   *upstreams.Store
	store *commands.Store
}

// newRig has the upstream "up" of the tenant "default".
func newRig(t testing.TB, changes ...func(*commands.Config)) *rig {
	t.Helper()
	return newRigOn(t, testkit.Database(t), changes...)
}

func newRigOn(t testing.TB, pool *pgxpool.Pool, changes ...func(*commands.Config)) *rig {
	t.Helper()
	r := &rig{pool: pool, ups: upstreams.NewStore(pool)}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	config := commands.Config{Pool: pool, Upstreams: r.ups, Jobs: jobs}
	for _, change := range changes {
		change(&config)
	}
	r.store = commands.NewStore(config)
	t.Cleanup(r.store.Close)
	r.apply(t, profile)
	return r
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

// submission is a valid one for an operation of the profile.
func submission(key, operation string) commands.Submission {
	s := commands.Submission{Tenant: tenant, Key: key, Upstream: "up", Operation: operation, Actor: "test"}
	switch operation {
	case "pay":
		s.Params = map[string]string{"account": "a1"}
		s.Body, s.HasBody = []byte(`{"amount":100}`), true
	case "pay_in_body":
		s.Body, s.HasBody = []byte(`{"amount":100,"meta":{}}`), true
	case "charge":
		s.Body, s.HasBody = []byte(`{"amount":100}`), true
	case "upload":
		s.Body, s.HasBody = []byte("bytes"), true
	case "balance":
		s.Params = map[string]string{"account": "a1"}
	}
	return s
}

func (r *rig) submit(t testing.TB, s commands.Submission) commands.Command {
	t.Helper()
	a, err := r.store.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if a.Replayed {
		t.Fatalf("key %q was bound already", s.Key)
	}
	return a.Command
}

func (r *rig) get(t testing.TB, id uuid.UUID) commands.Command {
	t.Helper()
	c, err := r.store.Get(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *rig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// scan reads the one row of a query into its targets.
func (r *rig) scan(t testing.TB, sql string, args []any, into ...any) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), sql, args...).Scan(into...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (r *rig) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	r.scan(t, sql, args, &n)
	return n
}

// inTx runs one step of a command under its lock, as every caller of Move does.
func (r *rig) inTx(ctx context.Context, id uuid.UUID, step func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error)) error {
	var moved []commands.Moved
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		locked, err := r.store.Lock(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		moved, err = step(tx, locked[id])
		return err
	})
	if err == nil {
		r.store.Changed(moved)
	}
	return err
}

// begin opens the command's next attempt.
func (r *rig) begin(t testing.TB, id uuid.UUID) {
	t.Helper()
	if err := r.tryBegin(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) tryBegin(ctx context.Context, id uuid.UUID) error {
	return r.inTx(ctx, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		_, err := tx.Exec(ctx, `
			INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at,
				send_deadline, latest_end, request, bytes_total, body_sha256)
			VALUES ($1, $2, $3, $4, 1, 'test', $5, $6, $6, $6, '{}', 10, '')`,
			id, c.Attempts+1, c.Tenant, c.UpstreamID, c.ProfileVersion, c.Now)
		if err != nil {
			return nil, err
		}
		return r.store.Move(ctx, tx, []commands.Move{{Command: c, To: outcome.StateExecuting, Attempts: c.Attempts + 1}})
	})
}

// ending is what an attempt saw.
type ending struct {
	evidence  outcome.Evidence
	category  outcome.Category
	answer    outcome.Answer
	status    int
	reference string
	body      []byte
	wait      time.Duration // before the next attempt
}

var (
	lost     = ending{evidence: outcome.EvidenceSentNoResponse, category: outcome.CategoryExecutorLost}
	unsent   = ending{evidence: outcome.EvidenceNotSent, category: outcome.CategoryConnectRefused}
	applied  = answered(outcome.AnswerApplied, 201)
	accepted = answered(outcome.AnswerPending, 202)
	refused  = answered(outcome.AnswerRefused, 422)
	declined = answered(outcome.AnswerDeclined, 429)
	unclear  = answered(outcome.AnswerUnclear, 503)
)

func answered(a outcome.Answer, status int) ending {
	return ending{evidence: outcome.EvidenceResponseReceived, category: outcome.CategoryNone, answer: a, status: status}
}

// finish closes the open attempt and moves the command; a final state has to be
// the one in which the attempts leave it.
func (r *rig) finish(t testing.TB, id uuid.UUID, e ending, to outcome.State) {
	t.Helper()
	if err := r.tryFinish(t.Context(), id, e, to); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) tryFinish(ctx context.Context, id uuid.UUID, e ending, to outcome.State) error {
	return r.inTx(ctx, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		err := closeAttempt(ctx, tx, c, e)
		if err != nil {
			return nil, err
		}
		m := commands.Move{Command: c, To: to, Attempts: c.Attempts}
		if to == outcome.StatePending {
			m.NextAttemptAt, m.WaitFor = c.Now.Add(e.wait), commands.WaitBackoff
		} else if m.Outcome, err = r.closing(ctx, tx, c); err != nil {
			return nil, err
		} else if m.Outcome.State != to {
			return nil, fmt.Errorf("the attempts leave the command %s, not %s", m.Outcome.State, to)
		}
		return r.store.Move(ctx, tx, []commands.Move{m})
	})
}

// closeAttempt records how the open attempt ended.
func closeAttempt(ctx context.Context, tx pgx.Tx, c commands.Locked, e ending) error {
	_, err := tx.Exec(ctx, `
		UPDATE attempts SET ended_at = $2, evidence = $3, category = $4, answer = $5, status = $6, reference = $7,
			response_body = $8, response_headers = '{"Content-Type":["application/json"]}', wait_ms = $9
		WHERE command_id = $1 AND ended_at IS NULL`,
		c.ID, c.Now, e.evidence, e.category, e.answer, e.status, e.reference, e.body, e.wait.Milliseconds())
	return err
}

// closing is the outcome that the attempts on record give.
func (r *rig) closing(ctx context.Context, tx pgx.Tx, c commands.Locked) (*commands.Final, error) {
	history, err := r.store.History(ctx, tx, []uuid.UUID{c.ID})
	if err != nil {
		return nil, err
	}
	terms, err := r.store.Terms(ctx, c)
	if err != nil {
		return nil, err
	}
	out := outcome.Close(commands.FactsOf(terms, c, history[c.ID]))
	return commands.FinalOf(out, outcome.ReasonAmbiguous, outcome.DecidedByAttempt, history[c.ID]), nil
}

// attempt begins and finishes one.
func (r *rig) attempt(t testing.TB, id uuid.UUID, e ending, to outcome.State) {
	t.Helper()
	r.begin(t, id)
	r.finish(t, id, e, to)
}

// eventTypes are the types of the events on record, in order.
func (r *rig) eventTypes(t testing.TB, id uuid.UUID) string {
	t.Helper()
	var types []string
	for _, e := range r.events(t, id) {
		types = append(types, e.Type)
	}
	return strings.Join(types, " ")
}

func (r *rig) events(t testing.TB, id uuid.UUID) []commands.Event {
	t.Helper()
	list, err := r.store.Events(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// bounded gives a context that ends a wait that would never end.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// lease adds a lease of an instance and returns its epoch.
func (r *rig) lease(t testing.TB, instance string, live bool) int64 {
	t.Helper()
	var epoch int64
	r.scan(t, `
		INSERT INTO leases (instance, acquired_at, renewed_at, expires_at, ended_at)
		VALUES ($1, now(), now(), now() + interval '1 hour', CASE WHEN $2 THEN NULL ELSE now() END) RETURNING epoch`,
		[]any{instance, live}, &epoch)
	return epoch
}
