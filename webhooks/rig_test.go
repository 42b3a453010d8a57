package webhooks_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/seal"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/upstreams"
	"executor/webhooks"
)

// patience bounds waits for events that take moments, on a busy machine.
const patience = 30 * time.Second

const tenant = "default"

// loopback is where the receivers of tests listen.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

const profile = `version: 1
upstream: %s
tenant: %s
base_url: https://up.example
operations:
  pay: {method: POST, path: /payments, body: json}
`

// rig is a store of webhooks and the commands that it tells of.
type rig struct {
	pool  *pgxpool.Pool
	ups   *upstreams.Store
	cmds  *commands.Store
	hooks *webhooks.Store
	hold  time.Duration // of unresolved events
}

// Announce puts the rig between the commands and the webhooks, for the hold.
func (r *rig) Announce(ctx context.Context, tx commands.Tx, events []commands.OutcomeEvent) error {
	for i := range events {
		events[i].Hold = 0
		if events[i].Type == "command.unresolved" {
			events[i].Hold = r.hold
		}
	}
	return r.hooks.Announce(ctx, tx, events)
}

func newBox(t testing.TB) *seal.Box {
	t.Helper()
	key := make([]byte, seal.KeyBytes)
	_, _ = rand.Read(key) // never fails
	box, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// newRig has the upstream "up" of the tenant "default".
func newRig(t testing.TB, changes ...func(*webhooks.Config)) *rig {
	t.Helper()
	return newRigOn(t, testkit.Database(t), changes...)
}

func newRigOn(t testing.TB, pool *pgxpool.Pool, changes ...func(*webhooks.Config)) *rig {
	t.Helper()
	r := &rig{pool: pool, ups: upstreams.NewStore(pool)}
	config := webhooks.Config{Pool: pool, Box: newBox(t), Allow: loopback, Ask: webhooks.AskNobody}
	for _, change := range changes {
		change(&config)
	}
	r.hooks = webhooks.NewStore(config)
	t.Cleanup(r.hooks.Close)
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r.cmds = commands.NewStore(commands.Config{Pool: pool, Upstreams: r.ups, Jobs: jobs, Announcer: r})
	t.Cleanup(r.cmds.Close)
	r.apply(t, "up", tenant)
	return r
}

func (r *rig) apply(t testing.TB, upstream, owner string) {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", fmt.Appendf(nil, profile, upstream, owner))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.ups.Apply(t.Context(), p, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
}

func by(owner string) webhooks.By { return webhooks.By{Tenant: owner, Actor: "ann", Reason: "test"} }

// endpoint makes one of the tenant "default" and returns its secret too.
func (r *rig) endpoint(t testing.TB, url string, changes ...func(*webhooks.Settings)) (webhooks.Endpoint, string) {
	t.Helper()
	set := webhooks.Settings{URL: url}
	for _, change := range changes {
		change(&set)
	}
	e, secret, err := r.hooks.Create(t.Context(), by(tenant), set)
	if err != nil {
		t.Fatal(err)
	}
	return e, secret
}

func (r *rig) submit(t testing.TB, key string) uuid.UUID {
	t.Helper()
	return r.submitTo(t, tenant, "up", key)
}

func (r *rig) submitTo(t testing.TB, owner, upstream, key string) uuid.UUID {
	t.Helper()
	a, err := r.cmds.Submit(t.Context(), commands.Submission{
		Tenant: owner, Key: key, Upstream: upstream, Operation: "pay", Actor: "test",
		Body: []byte(`{"amount":100}`), HasBody: true, Metadata: map[string]string{"order": "4 < 5", "b": "2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a.Command.ID
}

// final is an outcome of a state, as an attempt would give it.
func final(state outcome.State) *commands.Final {
	f := &commands.Final{
		Outcome:   outcome.Outcome{State: state, Reason: outcome.OutcomeReasonNoResponse, NextAction: outcome.NextActionNone},
		StoppedBy: outcome.ReasonAmbiguous, DecidedBy: outcome.DecidedByAttempt,
	}
	switch state {
	case outcome.StateSuccess:
		f.Answer = commands.AnswerGiven{Status: 201, Reference: "pay_9007199254740993"}
	case outcome.StateRejected:
		f.Answer = commands.AnswerGiven{Status: 422, Code: "no_money", Message: "no <money>"}
	case outcome.StateUnresolved:
		f.NextAction = outcome.NextActionReview
	case outcome.StateCancelled:
		f.SafeToResubmit = true
	}
	return f
}

// end moves a command to a final state.
func (r *rig) end(t testing.TB, id uuid.UUID, state outcome.State) {
	t.Helper()
	if err := r.tryEnd(t.Context(), id, state); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) tryEnd(ctx context.Context, ids uuid.UUID, state outcome.State) error {
	return pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error { return r.endIn(ctx, tx, ids, state) })
}

func (r *rig) endIn(ctx context.Context, tx pgx.Tx, id uuid.UUID, state outcome.State) error {
	locked, err := r.cmds.Lock(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return err
	}
	_, err = r.cmds.Move(ctx, tx, []commands.Move{{Command: locked[id], To: state, Outcome: final(state), Actor: "test"}})
	return err
}

// ended submits a command and ends it.
func (r *rig) ended(t testing.TB, key string, state outcome.State) uuid.UUID {
	t.Helper()
	id := r.submit(t, key)
	r.end(t, id, state)
	return id
}

// engine delivers until the test ends.
func (r *rig) engine(t testing.TB, changes ...func(*webhooks.EngineConfig)) *webhooks.Engine {
	t.Helper()
	config := webhooks.EngineConfig{
		Store: r.hooks, Dialer: egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), nil), Instance: "test",
		Every: 40 * time.Millisecond, Tend: 100 * time.Millisecond,
	}
	for _, change := range changes {
		change(&config)
	}
	e := webhooks.NewEngine(config)
	e.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		e.Stop(ctx)
	})
	return e
}

// waits gives a schedule of equal waits.
func waits(n int, wait time.Duration) func(*webhooks.EngineConfig) {
	return func(c *webhooks.EngineConfig) {
		c.Schedule = make([]time.Duration, n)
		for i := range c.Schedule {
			c.Schedule[i] = wait
		}
	}
}

func (r *rig) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := r.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) count(t testing.TB, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := r.pool.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (r *rig) text(t testing.TB, sql string, args ...any) string {
	t.Helper()
	var s string
	if err := r.pool.QueryRow(t.Context(), sql, args...).Scan(&s); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return s
}

// of reads the deliveries about a command.
func (r *rig) of(t testing.TB, command uuid.UUID) []webhooks.Delivery {
	t.Helper()
	list, err := r.hooks.DeliveriesOf(t.Context(), tenant, command)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// one reads the only delivery about a command.
func (r *rig) one(t testing.TB, command uuid.UUID) webhooks.Delivery {
	t.Helper()
	list := r.of(t, command)
	if len(list) != 1 {
		t.Fatalf("%d deliveries about %s, want 1", len(list), command)
	}
	return list[0]
}

func (r *rig) account(t testing.TB, id uuid.UUID) webhooks.Account {
	t.Helper()
	a, err := r.hooks.Delivery(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (r *rig) get(t testing.TB, id uuid.UUID) webhooks.Endpoint {
	t.Helper()
	e, err := r.hooks.Get(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// await waits until something is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; !so(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it never came to it: %s", what)
		}
		<-time.After(pause)
	}
}

// awaitState waits until the only delivery about a command is in a state.
func (r *rig) awaitState(t testing.TB, command uuid.UUID, state webhooks.DeliveryState) webhooks.Delivery {
	t.Helper()
	var last webhooks.Delivery
	defer func() {
		if last.State != state {
			t.Logf("the last that was seen: %+v", last)
		}
	}()
	await(t, "delivery "+string(state), func() bool { last = r.one(t, command); return last.State == state })
	return last
}

// got is a request that a receiver got.
type got struct {
	id      string // header webhook-id
	header  http.Header
	body    []byte
	message struct {
		Type      string
		Timestamp time.Time
		Data      struct {
			ID            uuid.UUID
			Version       int
			Sequence      int
			PreviousState *string `json:"previous_state"`
			Outcome       struct{ State string }
		}
	}
}

// receiver is a real server that keeps what it gets.
type receiver struct {
	*httptest.Server

	mu   sync.Mutex
	list []got
}

// newReceiver answers with what answer does with the n-th request, from 1; nil
// answers 204.
func newReceiver(t testing.TB, answer func(n int, g got, w http.ResponseWriter, req *http.Request)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(r.handler(answer))
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

func (r *receiver) handler(answer func(n int, g got, w http.ResponseWriter, req *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		g := got{id: req.Header.Get("webhook-id"), header: req.Header.Clone(), body: body}
		_ = json.Unmarshal(body, &g.message)
		r.mu.Lock()
		r.list = append(r.list, g)
		n := len(r.list)
		r.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		answer(n, g, w, req)
	})
}

func (r *receiver) all() []got {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]got(nil), r.list...)
}

// await waits for n requests.
func (r *receiver) await(t testing.TB, n int) []got {
	t.Helper()
	await(t, fmt.Sprintf("%d requests", n), func() bool { return len(r.all()) >= n })
	return r.all()
}

// status answers every request with a status.
func status(code int) func(int, got, http.ResponseWriter, *http.Request) {
	return func(_ int, _ got, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// verify checks a request with the reference library.
func verify(t testing.TB, g got, secret string) error {
	t.Helper()
	hook, err := reference.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return hook.Verify(g.body, g.header)
}

// journal is a log that many write to.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
