package reconcile_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"

	"net/netip"
	"os"

	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rogpeppe/go-internal/testscript"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/internal/seal"
	"executor/internal/simulator"
	"executor/internal/testkit"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// TestStories plays the scripts in testdata: a command meets trouble at a
// simulated upstream, the doubt is followed up, and the end counts requests,
// effects, lookups and webhooks. The words of the scripts are in storyWords.
func TestStories(t *testing.T) {
	const atOnce = 12
	scripts := &stories{T: t, databases: make(chan *pgxpool.Pool, atOnce)}
	for range atOnce {
		scripts.databases <- testkit.Database(t)
	}
	testscript.RunT(scripts, testscript.Params{
		Dir:                 "testdata",
		Setup:               func(env *testscript.Env) error { return newStory(env) },
		Cmds:                storyWords,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
	scripts.all.Wait()
	if n := len(scripts.names); n < 30 {
		t.Errorf("only %d stories", n)
	}
}

// stories runs many scripts side by side: they mostly wait.
type stories struct {
	*testing.T
	databases chan *pgxpool.Pool // that no script has at the moment
	all       sync.WaitGroup
	names     []string

	mine *pgxpool.Pool // of the one script
}

func (s *stories) Parallel() {}

func (s *stories) Verbose() bool { return testing.Verbose() }

func (s *stories) Run(name string, play func(testscript.T)) {
	s.names = append(s.names, name)
	s.all.Go(func() {
		pool := <-s.databases
		defer func() { s.databases <- pool }()
		s.T.Run(name, func(t *testing.T) {
			empty(t, pool)
			play(&stories{T: t, mine: pool})
		})
	})
}

// empty takes away what a script left behind. A new database for each would be as
// empty, and its every connection would have all statements to plan.
func empty(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		DO $$ DECLARE name text; BEGIN
			SET LOCAL session_replication_role = replica; -- no foreign key minds, and no trigger but that of the audit
			FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('goose_db_version', 'river_migration', 'audit', 'audit_heads') LOOP
				EXECUTE format('DELETE FROM %I', name);
			END LOOP;
		END $$`)
	if err != nil {
		t.Fatal(err)
	}
}

// story is a world of one script: a database, an upstream, and processes.
type story struct {
	pool   *pgxpool.Pool
	sim    *simulator.Simulator
	simURL string
	secret string // of the webhook endpoint, which is the simulator's hook "shop"
	box    *seal.Box

	commands *commands.Store
	ups      *upstreams.Store
	doubts   *reconcile.Store
	hooks    *webhooks.Store
	stop     func() // ends the process

	ids map[string]uuid.UUID // by key
	op  map[string]int       // the version that a person read last
}

type storyKey struct{}

// newStory builds the world of one script.
func newStory(env *testscript.Env) error {
	t := env.T().(*stories)
	w := &story{pool: t.mine, sim: simulator.New(simulator.Config{}), ids: map[string]uuid.UUID{}, op: map[string]int{}}
	env.Values[storyKey{}] = w
	if _, err := attempts.NewDeployment(w.pool, "test", nil).Adopt(t.Context(), audit.By{Actor: "test"}); err != nil {
		return err
	}
	var err error
	if w.simURL, err = w.sim.Listen("127.0.0.1:0"); err != nil {
		return err
	}
	env.Defer(func() { _ = w.sim.Close() })
	env.Setenv("UPSTREAM", w.simURL)
	if w.box, err = seal.New([]byte("0123456789abcdef0123456789abcdef")); err != nil {
		return err
	}
	if err := w.start(); err != nil {
		return err
	}
	env.Defer(func() { w.stop() })
	source, err := os.ReadFile("testdata/ledger.yaml")
	if err != nil {
		return err
	}
	if err := w.apply(t.Context(), "ledger.yaml", string(source)); err != nil {
		return err
	}
	if err := w.takeNotices(env); err != nil {
		return err
	}
	return w.subscribe(t.Context())
}

// start starts a process: what sends, what asks, what tells.
func (w *story) start() error {
	w.ups = upstreams.NewStore(w.pool)
	jobs, err := attempts.NewInserter(w.pool)
	if err != nil {
		return err
	}
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	w.hooks = webhooks.NewStore(webhooks.Config{Pool: w.pool, Box: w.box, Allow: loopback, Ask: webhooks.AskNobody, Log: testLog()})
	w.commands = commands.NewStore(commands.Config{Pool: w.pool, Upstreams: w.ups, Jobs: jobs, Announcer: w.hooks, Log: testLog()})
	w.doubts = reconcile.NewStore(reconcile.Config{Pool: w.pool, Commands: w.commands, Upstreams: w.ups, Secrets: egress.NewSecrets(storyEnv, ""), Log: testLog()})
	guard := egress.NewGuard(egress.GuardConfig{})
	secrets := egress.NewSecrets(storyEnv, "")
	tokens := egress.NewTokens(egress.TokensConfig{Guard: guard})
	sender := attempts.NewSender(attempts.SenderConfig{Guard: guard})
	instance := "story-" + uuid.NewString()
	engine, err := attempts.NewEngine(attempts.EngineConfig{
		Pool: w.pool, Commands: w.commands, Upstreams: w.ups, Sender: sender, Secrets: secrets, Tokens: tokens, Instance: instance, Log: testLog(),
	})
	if err != nil {
		return err
	}
	w.commands.SetStarter(engine)
	dialer := egress.NewDialer(guard, nil)
	looking := reconcile.NewEngine(reconcile.EngineConfig{
		Store: w.doubts, Dialer: dialer, Access: upstreams.NewAccess(secrets, tokens), Instance: instance, Log: testLog(),
	})
	telling := webhooks.NewEngine(webhooks.EngineConfig{Store: w.hooks, Dialer: dialer, Instance: instance, Log: testLog()})
	looking.Add(w.doubts.NoticeMatcher())
	if err := engine.Start(context.Background()); err != nil {
		return err
	}
	looking.Start()
	telling.Start()
	w.stop = func() {
		looking.Stop(context.Background())
		_ = engine.Stop(context.Background())
		telling.Stop(context.Background())
		sender.Close()
		w.commands.Close()
		w.hooks.Close()
	}
	return nil
}

// takeNotices is the door for the upstream's notices, as the API has it.
func (w *story) takeNotices(env *testscript.Env) error {
	door := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, err = w.doubts.Receive(r.Context(), tenant, "ledger", r.Header, body)
		}
		status := http.StatusAccepted
		if err != nil {
			status = http.StatusUnauthorized
		}
		rw.WriteHeader(status)
	}))
	env.Defer(door.Close)
	return w.sim.SetReceiver(simulator.Receiver{URL: door.URL, Secret: storyEnv("EXECUTOR_SECRET_NOTICES")})
}

// storyEnv has the secrets that profiles name.
func storyEnv(name string) string {
	return map[string]string{"EXECUTOR_SECRET_NOTICES": "whsec_c3Rvcnktbm90aWNlcy1zZWNyZXQtMDEyMzQ1Njc="}[name]
}

// subscribe has the simulator's hook "shop" told of every outcome.
func (w *story) subscribe(ctx context.Context) error {
	_, secret, err := w.hooks.Create(ctx, webhooks.By{Tenant: tenant, Actor: "shop"}, webhooks.Settings{URL: w.simURL + "/_hooks/shop"})
	if err != nil {
		return err
	}
	w.secret = secret
	return w.sim.SetHook("shop", "", secret)
}
