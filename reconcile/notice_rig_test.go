package reconcile_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
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
	"executor/internal/egress"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// noticeProfile describes an upstream that signs its notices. charge cannot be
// asked about, pay can; buy sends the command's id as its key.
const noticeProfile = `version: 1
upstream: %s
tenant: %s
base_url: https://up.example/v2
retry: {max_attempts: 1}
operations:
  charge:
    method: POST
    path: /charges
    body: json
    redact: {headers: [X-Card], response: [/card/number]}
  pay:
    method: POST
    path: /payments
    body: json
    lookup:
      path: /payments
      query: {reference: "{key}"}
      findings: [{when: status == 200, finding: applied}]
      schedule: {first_after: 1h, give_up_after: 24h}
  buy:
    method: POST
    path: /buys
    body: json
    idempotency: {kind: keyed, key: {in: header, name: Key, from: command_id}}
notices:
  verify: {scheme: standard-webhooks, secret: [env:EXECUTOR_SECRET_NEW, env:EXECUTOR_SECRET_OLD], tolerance: 5m}
  command: 'json.about'
  findings:
    - {when: json.state == "done", finding: applied, reference: json.reference}
    - {when: json.state == "failed", finding: refused, code: json.code, message: json.message}
    - {when: json.state == "pending", finding: pending, reference: json.reference}
    - {when: json.state == "gone", finding: absent}
  weight: conclusive
`

const (
	newSecret = "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0"
	oldSecret = "whsec_b2xkLXNlY3JldC1vbGQtc2VjcmV0"
)

type noticeSecrets map[string]string

func (s noticeSecrets) Lookup(ref string) (egress.Secret, error) {
	value, ok := s[ref]
	if !ok {
		return egress.Secret{}, egress.ErrMissing
	}
	return egress.NewSecret(value), nil
}

// noticeRig is a store that takes notices; what an engine does, the test does by
// hand.
type noticeRig struct {
	pool     *pgxpool.Pool
	ups      *upstreams.Store
	commands *commands.Store
	store    *reconcile.Store
	secrets  noticeSecrets
}

func newNoticeRig(t testing.TB) *noticeRig {
	t.Helper()
	return newNoticeRigOn(t, testkit.Database(t))
}

func newNoticeRigOn(t testing.TB, pool *pgxpool.Pool) *noticeRig {
	t.Helper()
	r := &noticeRig{pool: pool, ups: upstreams.NewStore(pool), secrets: noticeSecrets{
		"env:EXECUTOR_SECRET_NEW": newSecret, "env:EXECUTOR_SECRET_OLD": oldSecret,
	}}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.commands = commands.NewStore(commands.Config{Pool: pool, Upstreams: r.ups, Jobs: jobs})
	t.Cleanup(r.commands.Close)
	r.store = reconcile.NewStore(reconcile.Config{Pool: pool, Commands: r.commands, Upstreams: r.ups, Secrets: r.secrets})
	r.apply(t, fmt.Sprintf(noticeProfile, "up", "default"))
	return r
}

func (r *noticeRig) apply(t testing.TB, source string) {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ups.Apply(t.Context(), p, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
}

func (r *noticeRig) submit(t testing.TB, key, operation string) uuid.UUID {
	t.Helper()
	return r.submitTo(t, "default", "up", key, operation)
}

func (r *noticeRig) submitTo(t testing.TB, tenant, upstream, key, operation string) uuid.UUID {
	t.Helper()
	a, err := r.commands.Submit(t.Context(), commands.Submission{
		Tenant: tenant, Key: key, Upstream: upstream, Operation: operation, Actor: "test", Body: []byte(`{"amount":1}`), HasBody: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.Command.ID
}

func (r *noticeRig) step(t testing.TB, id uuid.UUID, step func(ctx context.Context, tx pgx.Tx, c commands.Locked) (commands.Move, error)) {
	t.Helper()
	var moved []commands.Moved
	err := r.commands.Commit(t.Context(), func(ctx context.Context, tx commands.Tx) error {
		locked, err := r.commands.Lock(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		m, err := step(ctx, tx, locked[id])
		if err != nil {
			return err
		}
		moved, err = r.commands.Move(ctx, tx, []commands.Move{m})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r.commands.Changed(moved)
}

// begin opens an attempt.
func (r *noticeRig) begin(t testing.TB, id uuid.UUID) {
	t.Helper()
	r.step(t, id, func(ctx context.Context, tx pgx.Tx, c commands.Locked) (commands.Move, error) {
		_, err := tx.Exec(ctx, `
			INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at,
				send_deadline, latest_end, request, bytes_total, body_sha256)
			VALUES ($1, $2, $3, $4, 1, 'test', $5, $6, $6, $6, '{}', 10, '')`,
			id, c.Attempts+1, c.Tenant, c.UpstreamID, c.ProfileVersion, c.Now)
		return commands.Move{Command: c, To: outcome.StateExecuting, Attempts: c.Attempts + 1}, err
	})
}

// answer closes the open attempt; "" is an answer that was lost.
func (r *noticeRig) answer(t testing.TB, id uuid.UUID, answer outcome.Answer, reference string) {
	t.Helper()
	evidence := outcome.EvidenceResponseReceived
	if answer == "" {
		evidence = outcome.EvidenceSentNoResponse
	}
	r.step(t, id, func(ctx context.Context, tx pgx.Tx, c commands.Locked) (commands.Move, error) {
		m := commands.Move{Command: c, Attempts: c.Attempts}
		_, err := tx.Exec(ctx, `UPDATE attempts SET ended_at = $2, evidence = $3, category = 'none', answer = $4, reference = $5 WHERE command_id = $1`,
			id, c.Now, evidence, answer, reference)
		if err != nil {
			return m, err
		}
		history, err := r.commands.History(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return m, err
		}
		terms, err := r.commands.Terms(ctx, c)
		if err != nil {
			return m, err
		}
		out := outcome.Close(commands.FactsOf(terms, c, history[id]))
		m.To, m.Outcome = out.State, commands.FinalOf(out, outcome.ReasonAmbiguous, outcome.DecidedByAttempt, history[id])
		return m, nil
	})
}

// attempted submits a command and makes one attempt.
func (r *noticeRig) attempted(t testing.TB, key, operation string, answer outcome.Answer, reference string) uuid.UUID {
	t.Helper()
	id := r.submit(t, key, operation)
	r.begin(t, id)
	r.answer(t, id, answer, reference)
	return id
}

// signed are the headers of a notice.
func signed(event, body string, at time.Time, secrets ...string) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			panic(err)
		}
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", event, stamp, body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return http.Header{"Webhook-Id": {event}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {strings.Join(signatures, " ")}}
}

// about is the body of a notice that names its command by its key.
func about(key, state string) string { return named(key, state, "pay_"+key) }

func named(about any, state, reference string) string {
	body, err := json.Marshal(map[string]any{"about": about, "state": state, "reference": reference, "code": "declined", "message": "no funds"})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func (r *noticeRig) receive(t testing.TB, event, body string) reconcile.Received {
	t.Helper()
	got, err := r.store.Receive(t.Context(), "default", "up", signed(event, body, time.Now(), newSecret), []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (r *noticeRig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (r *noticeRig) count(t testing.TB, sql string, args ...any) (n int) {
	t.Helper()
	if err := r.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// match makes every notice due and looks at all of them.
func (r *noticeRig) match(t testing.TB) int {
	t.Helper()
	r.exec(t, `UPDATE notices SET next_at = now() - interval '1 s' WHERE next_at IS NOT NULL`)
	n, err := r.store.MatchNotices(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (r *noticeRig) wantState(t testing.TB, id uuid.UUID, want outcome.State) commands.Command {
	t.Helper()
	c, err := r.commands.Many(t.Context(), "default", []uuid.UUID{id})
	if err != nil {
		t.Fatal(err)
	}
	if c[id].State != want {
		t.Fatalf("command is %s, want %s", c[id].State, want)
	}
	return c[id]
}

// wantNotices compares the states and effects of a command's notices.
func (r *noticeRig) wantNotices(t testing.TB, id uuid.UUID, want ...string) []reconcile.Notice {
	t.Helper()
	list, err := r.store.Notices(t.Context(), "default", id)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range list {
		got = append(got, fmt.Sprintf("%s %s", n.State, n.Effect))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Fatalf("notices are %q, want %q", got, want)
	}
	return list
}
