package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/seal"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// echoProfile is of an upstream on loopback that this test serves.
const echoProfile = `version: 1
upstream: echo
base_url: %s
egress: {allow: [127.0.0.0/8]}
retry: {max_attempts: 2, backoff: {initial: 10ms, max: 10ms, jitter: none}}
operations:
  pay:
    method: POST
    path: /accounts/{account}/payments
    body: json
    caller_headers: [X-Note]
    caller_query: [mode]
    idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h}
    result: {reference: json.id, headers: [X-Trace]}
    rejection: {code: json.code, message: json.message}
  store:
    method: PUT
    path: /things
    body: raw
    idempotency: {kind: natural}
notices:
  verify: {scheme: hmac-sha256, header: X-Signature, secret: env:EXECUTOR_SECRET_ECHO}
  event_id: json.event
  command: json.key
  findings: [{when: json.paid == true, finding: applied, reference: json.id}]
  weight: conclusive
`

// noticeKey signs the notices of echo.
const noticeKey = "a secret of some length"

func noticeSecret(name string) string {
	if name == "EXECUTOR_SECRET_ECHO" {
		return noticeKey
	}
	return ""
}

// live is a rig on real stores and, unless it is idle, a real engine and a real
// upstream.
type live struct {
	*rig
	pool *pgxpool.Pool
	keys *apikeys.Store
}

func newLive(t *testing.T, pool *pgxpool.Pool, idle bool, upstream http.HandlerFunc) *live {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	ups := upstreams.NewStore(pool)
	jobs, err := attempts.NewInserter(pool)
	if err != nil {
		t.Fatal(err)
	}
	told := webhooks.NewStore(webhooks.Config{Pool: pool, Box: sealing(t), Log: log, Ask: webhooks.AskNobody})
	t.Cleanup(told.Close)
	store := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups, Jobs: jobs, Announcer: told, Log: log})
	t.Cleanup(store.Close)
	deployment := attempts.OpenDeployment(pool, "test", store, ups)
	if _, err := deployment.Adopt(t.Context(), audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if !idle {
		startEngine(t, pool, store, ups, log)
	}
	l := &live{pool: pool, keys: apikeys.NewStore(pool, log)}
	t.Cleanup(l.keys.Close)
	l.rig = newRig(t, func(c *Config) {
		c.Commands, c.Upstreams, c.Keys, c.Deployment, c.Log = store, ups, l.keys, deployment, log
		doubts := reconcile.NewStore(reconcile.Config{Pool: pool, Commands: store, Upstreams: ups, Secrets: egress.NewSecrets(noticeSecret, ""), Log: log})
		c.Reviews, c.Lookups, c.Notices, c.Reports = doubts, doubts, doubts, doubts
		c.Webhooks, c.Audit = told, NewAuditLog(pool)
	})
	l.rig.keys = nil
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	l.do("PUT", "/v1/upstreams/echo", l.key("default"), yamlBody(fmt.Sprintf(echoProfile, server.URL))).want(201)
	return l
}

// sealing keeps the secrets of one test.
func sealing(t *testing.T) *seal.Box {
	t.Helper()
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	box, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func startEngine(t *testing.T, pool *pgxpool.Pool, store *commands.Store, ups *upstreams.Store, log *slog.Logger) {
	t.Helper()
	guard := egress.NewGuard(egress.GuardConfig{})
	engine, err := attempts.NewEngine(attempts.EngineConfig{
		Pool: pool, Commands: store, Upstreams: ups, Sender: attempts.NewSender(attempts.SenderConfig{Guard: guard}),
		Secrets: egress.NewSecrets(os.Getenv, ""), Tokens: egress.NewTokens(egress.TokensConfig{Guard: guard}),
		Instance: "test-" + uuid.NewString(), Expected: "test", Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	store.SetStarter(engine)
	if err := engine.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// key makes an admin's key of a tenant and asks with it.
func (l *live) key(tenant string) askOption {
	_, secret, err := l.keys.Create(context.Background(), tenant, "k"+uuid.NewString(), []string{"admin"}, audit.By{Actor: "test"})
	if err != nil {
		panic(err)
	}
	return as(secret)
}

// echo answers with an id and the request's own body.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Trace", "t1")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{ "id": "pay_9", "key": %q, "got": %s }`, r.Header.Get("Idempotency-Key"), body)
}
