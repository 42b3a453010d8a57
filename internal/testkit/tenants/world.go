// Package tenants builds two tenants that share everything a tenant may choose:
// the name of their upstream, idempotency keys, references, metadata, event ids,
// the URL of a webhook. Each has something of every kind that is on record. Tests
// of the API and of the dashboard ask as one of them for what is the other's.
package tenants

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/operators"
	"executor/internal/seal"
	"executor/internal/testkit"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// The two tenants. Whoever asks in a test is of Acme; Globex must not notice.
const (
	Acme   = "acme"
	Globex = "globex"
)

// Password is every operator's.
const Password = "correct horse battery"

// patience bounds waits for what takes moments, on a busy machine.
const patience = 30 * time.Second

// World is two tenants in one database, and the stores that serve them.
type World struct {
	Pool       *pgxpool.Pool
	Upstreams  *upstreams.Store
	Commands   *commands.Store
	Doubts     *reconcile.Store
	Hooks      *webhooks.Store
	Keys       *apikeys.Store
	Operators  *operators.Store
	Sessions   *operators.Sessions
	Deployment *attempts.Deployment
	Tenants    map[string]*Things // by their names

	instances int
	log       *slog.Logger
	access    *upstreams.Access
	dialer    *egress.Dialer
	upstream  *httptest.Server
	receiver  *httptest.Server
}

// New builds the world. Once it returns nothing in it moves by itself.
func New(t testing.TB) *World {
	t.Helper()
	w := &World{
		Pool: testkit.Database(t), Tenants: map[string]*Things{}, log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		upstream: httptest.NewServer(http.HandlerFunc(answer)), receiver: httptest.NewServer(http.HandlerFunc(receive)),
	}
	t.Cleanup(w.upstream.Close)
	t.Cleanup(w.receiver.Close)
	w.openStores(t)
	stop := sync.OnceFunc(w.work(t))
	t.Cleanup(stop)
	for _, tenant := range []string{Acme, Globex} {
		w.Tenants[tenant] = w.settle(t, tenant)
	}
	stop()
	return w
}

// answer is the upstream of both: it books payments, says nothing to charges, and
// knows of none when it is asked.
func answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
	case r.URL.Path == "/payments":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id": %q, "for": %q}`, r.Header.Get("X-Reference"), r.Header.Get("X-Note"))
	default:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
		}
	}
}

// receive takes every webhook.
func receive(http.ResponseWriter, *http.Request) {}

func (w *World) openStores(t testing.TB) {
	t.Helper()
	box, err := seal.New(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := attempts.NewInserter(w.Pool)
	if err != nil {
		t.Fatal(err)
	}
	w.Upstreams = upstreams.NewStore(w.Pool)
	w.Hooks = webhooks.NewStore(webhooks.Config{Pool: w.Pool, Box: box, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ask: webhooks.AskNobody, Log: w.log})
	t.Cleanup(w.Hooks.Close)
	w.Commands = commands.NewStore(commands.Config{Pool: w.Pool, Upstreams: w.Upstreams, Jobs: jobs, Announcer: w.Hooks, Deployment: "test", Log: w.log})
	t.Cleanup(w.Commands.Close)
	secrets := egress.NewSecrets(func(string) string { return noticeSecret }, "")
	w.Doubts = reconcile.NewStore(reconcile.Config{Pool: w.Pool, Commands: w.Commands, Upstreams: w.Upstreams, Secrets: secrets, Log: w.log})
	w.Keys = apikeys.NewStore(w.Pool, w.log)
	t.Cleanup(w.Keys.Close)
	quick := &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
	if w.Operators, err = operators.NewStore(operators.Config{Pool: w.Pool, Hash: quick}); err != nil {
		t.Fatal(err)
	}
	w.Sessions = operators.NewSessions(w.Pool)
	w.Deployment = attempts.OpenDeployment(w.Pool, "test", w.Commands, w.Upstreams)
	if _, err := w.Deployment.Adopt(t.Context(), audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
}

// work sends, asks and delivers until it is stopped.
func (w *World) work(t testing.TB) (stop func()) {
	t.Helper()
	guard := egress.NewGuard(egress.GuardConfig{})
	secrets, tokens := egress.NewSecrets(os.Getenv, ""), egress.NewTokens(egress.TokensConfig{Guard: guard})
	w.access, w.dialer = upstreams.NewAccess(secrets, tokens), egress.NewDialer(guard, nil)
	instance := w.instance()
	engine, err := attempts.NewEngine(attempts.EngineConfig{
		Pool: w.Pool, Commands: w.Commands, Upstreams: w.Upstreams, Sender: attempts.NewSender(attempts.SenderConfig{Guard: guard}),
		Secrets: secrets, Tokens: tokens, Instance: instance, Expected: "test", Log: w.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Commands.SetStarter(engine)
	if err := engine.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	deliveries := webhooks.NewEngine(webhooks.EngineConfig{Store: w.Hooks, Dialer: w.dialer, Instance: instance, Log: w.log})
	deliveries.Start()
	unfollow := w.Follow()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := engine.Stop(ctx); err != nil {
			t.Error(err)
		}
		deliveries.Stop(ctx)
		unfollow()
	}
}

// instance is a new name of a process. It bears no id: those are of tenants.
func (w *World) instance() string {
	w.instances++
	return fmt.Sprintf("test-%d", w.instances)
}

// Follow works on lookups, bulk actions and reports until it is stopped.
func (w *World) Follow() (stop func()) {
	engine := reconcile.NewEngine(reconcile.EngineConfig{Store: w.Doubts, Dialer: w.dialer, Access: w.access, Instance: w.instance(), Log: w.log})
	engine.Add(w.Doubts.BulkRunner())
	engine.Add(w.Doubts.ReportRunner())
	engine.Start()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		engine.Stop(ctx)
	}
}

// Until waits for a state of things.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
