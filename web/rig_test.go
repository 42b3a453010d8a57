package web_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/internal/bodyfiles"
	"executor/internal/egress"
	"executor/internal/operators"
	"executor/internal/seal"
	"executor/internal/simulator"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
	"executor/web"
	"executor/webhooks"
)

// patience bounds waits for what takes moments, on a busy machine.
const patience = 30 * time.Second

const (
	tenant   = "default"
	password = "correct horse battery"
)

//go:embed testdata/ledger.yaml
var ledgerProfile string

// site is the dashboard with everything behind it: a database of its own, a
// simulated upstream, and the engines that send, ask and deliver.
type site struct {
	pool       *pgxpool.Pool
	files      string // root of the files of bodies
	ups        *upstreams.Store
	commands   *commands.Store
	doubts     *reconcile.Store
	hooks      *webhooks.Store
	keys       *apikeys.Store
	operators  *operators.Store
	sessions   *operators.Sessions
	deployment *attempts.Deployment
	sim        *simulator.Simulator
	simURL     string
	server     *web.Server
	http       *httptest.Server
	log        *bytes.Buffer
}

// newSite serves a tenant "default" with the upstream "ledger" and the operators
// vera (viewer), otto (operator) and ada (admin).
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{pool: testkit.Database(t), files: t.TempDir(), log: &bytes.Buffer{}}
	log := slog.New(slog.NewTextHandler(&testWriter{t}, nil))
	s.wire(t, log)
	s.simulate(t)
	for name, role := range map[string]operators.Role{"vera": operators.RoleViewer, "otto": operators.RoleOperator, "ada": operators.RoleAdmin} {
		s.addOperator(t, name, tenant, role)
	}
	s.http = httptest.NewServer(s.server.Routes())
	t.Cleanup(func() {
		s.server.Drain()
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// testWriter logs what pages could not show.
type testWriter struct{ t testing.TB }

func (w *testWriter) Write(line []byte) (int, error) {
	if os.Getenv("EXECUTOR_TEST_LOG") != "" || bytes.Contains(line, []byte("level=ERROR")) {
		_, _ = os.Stderr.Write(line)
	}
	return len(line), nil
}

func (s *site) wire(t testing.TB, log *slog.Logger) {
	t.Helper()
	s.ups = upstreams.NewStore(s.pool)
	jobs, err := attempts.NewInserter(s.pool)
	if err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	box, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	s.hooks = webhooks.NewStore(webhooks.Config{Pool: s.pool, Box: box, Allow: loopback, Ask: webhooks.AskNobody, Log: log})
	t.Cleanup(s.hooks.Close)
	s.commands = commands.NewStore(commands.Config{Pool: s.pool, Upstreams: s.ups, Jobs: jobs, Announcer: s.hooks, Deployment: "test", Box: box, Files: bodyfiles.New(s.files), Log: log})
	t.Cleanup(s.commands.Close)
	s.doubts = reconcile.NewStore(reconcile.Config{Pool: s.pool, Commands: s.commands, Upstreams: s.ups, Log: log})
	if _, err := attempts.NewDeployment(s.pool, "test", nil).Adopt(t.Context(), audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	s.startEngines(t, log)
	s.keys = apikeys.NewStore(s.pool, log)
	t.Cleanup(s.keys.Close)
	s.openOperators(t)
	s.server, err = web.NewServer(web.Config{
		Pool: s.pool, Commands: s.commands, Upstreams: s.ups, Doubts: s.doubts, Hooks: s.hooks, Deployment: s.deployment,
		Keys: s.keys, Operators: s.operators, Sessions: s.sessions, Instance: "test", Log: log,
		JSON: func(ctx context.Context, tenant string, id uuid.UUID) ([]byte, error) {
			c, err := s.commands.Get(ctx, tenant, id)
			if err != nil {
				return nil, err
			}
			return json.Marshal(map[string]any{"id": c.ID, "state": c.State})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) startEngines(t testing.TB, log *slog.Logger) {
	t.Helper()
	guard := egress.NewGuard(egress.GuardConfig{})
	secrets, tokens := egress.NewSecrets(os.Getenv, ""), egress.NewTokens(egress.TokensConfig{Guard: guard})
	instance := "test-" + uuid.NewString()
	engine, err := attempts.NewEngine(attempts.EngineConfig{
		Pool: s.pool, Commands: s.commands, Upstreams: s.ups, Sender: attempts.NewSender(attempts.SenderConfig{Guard: guard}),
		Secrets: secrets, Tokens: tokens, Files: bodyfiles.New(s.files), Instance: instance, Expected: "test", Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.deployment = engine.Deployment()
	s.commands.SetStarter(engine)
	if err := engine.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	dialer := egress.NewDialer(guard, nil)
	lookups := reconcile.NewEngine(reconcile.EngineConfig{
		Store: s.doubts, Dialer: dialer, Access: upstreams.NewAccess(secrets, tokens), Instance: instance, Log: log,
	})
	lookups.Add(s.doubts.BulkRunner())
	lookups.Add(s.doubts.ReportRunner())
	deliveries := webhooks.NewEngine(webhooks.EngineConfig{Store: s.hooks, Dialer: dialer, Instance: instance, Log: log})
	lookups.Start()
	deliveries.Start()
	t.Cleanup(func() {
		_ = engine.Stop(context.Background())
		cut, cancel := context.WithCancel(context.Background())
		cancel()
		lookups.Stop(cut)
		deliveries.Stop(cut)
	})
}

// simulate starts the upstream and applies its profile.
func (s *site) simulate(t testing.TB) {
	t.Helper()
	s.sim = simulator.New(simulator.Config{})
	var err error
	if s.simURL, err = s.sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.sim.Close() })
	s.apply(t, ledgerProfile)
}

// apply applies a profile in which $UPSTREAM is the simulator.
func (s *site) apply(t testing.TB, source string) upstreams.Upstream {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", []byte(strings.ReplaceAll(source, "$UPSTREAM", s.simURL)))
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := s.ups.Apply(t.Context(), p, audit.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// bodyFile writes a file of the tenant and refers to it.
func (s *site) bodyFile(t testing.TB, name, content string) *bodyfiles.File {
	t.Helper()
	path := filepath.Join(s.files, tenant, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	return &bodyfiles.File{Path: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

// submit submits a command with a behaviour of the simulator.
func (s *site) submit(t testing.TB, key, operation, behavior string, change ...func(*commands.Submission)) uuid.UUID {
	t.Helper()
	sub := commands.Submission{
		Tenant: tenant, Key: key, Upstream: "ledger", Operation: operation, Actor: "shop",
		Body: []byte(`{"amount": 100, "client_reference": "` + key + `"}`), HasBody: true, Metadata: map[string]string{"order": "42"},
	}
	if operation == "create_payment" {
		sub.Params = map[string]string{"account": "a1"}
	}
	if behavior != "" {
		sub.Headers = map[string]string{"Sim-Behavior": behavior}
	}
	for _, c := range change {
		c(&sub)
	}
	a, err := s.commands.Submit(t.Context(), sub)
	if err != nil {
		t.Fatal(err)
	}
	return a.Command.ID
}

// ended submits a command and waits until it is in the state.
func (s *site) ended(t testing.TB, key, operation, behavior string, want outcome.State, change ...func(*commands.Submission)) commands.Command {
	t.Helper()
	id := s.submit(t, key, operation, behavior, change...)
	return s.await(t, id, want)
}

func (s *site) await(t testing.TB, id uuid.UUID, want outcome.State) commands.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		c, err := s.commands.Get(ctx, tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		if c.State == want {
			return c
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the command is %s, not %s", c.State, want)
		case <-time.After(pause):
		}
	}
}

// doubtful is an unresolved command that waits for a person.
func (s *site) doubtful(t testing.TB, key string, change ...func(*commands.Submission)) commands.Command {
	t.Helper()
	return s.ended(t, key, "charge_card", "commit,drop", outcome.StateUnresolved, change...)
}

// browse is somebody's browser without script: it keeps the cookie and follows
// redirects.
type browse struct {
	t      testing.TB
	site   *site
	cookie string
}

// visitor is somebody who is not signed in.
func (s *site) visitor(t testing.TB) *browse { return &browse{t: t, site: s} }

// as signs somebody in.
func (s *site) as(t testing.TB, name string) *browse {
	t.Helper()
	b := s.visitor(t)
	page := b.post("/sign-in", "name", name, "password", password)
	if page.status != http.StatusOK || b.cookie == "" {
		t.Fatalf("sign-in of %s: %d\n%s", name, page.status, page.body)
	}
	return b
}

// page is an answer after redirects.
type page struct {
	status int
	path   string // with its query, after redirects
	header http.Header
	body   string
}

func (b *browse) get(path string) page {
	b.t.Helper()
	return b.do(http.MethodGet, path, nil)
}

// post sends a form of names and values, as the page itself would.
func (b *browse) post(path string, pairs ...string) page {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return b.do(http.MethodPost, path, form)
}

func (b *browse) do(method, path string, form url.Values) page {
	b.t.Helper()
	for range 10 {
		p, next := b.once(method, path, form)
		if next == "" {
			return p
		}
		method, path, form = http.MethodGet, next, nil
	}
	b.t.Fatalf("%s leads in a circle", path)
	return page{}
}

// once makes one request and returns where it leads.
func (b *browse) once(method, path string, form url.Values) (page, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.site.http.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if b.cookie != "" {
		req.Header.Set("Cookie", b.cookie)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		b.cookie = c.Name + "=" + c.Value
		if c.MaxAge < 0 {
			b.cookie = ""
		}
	}
	next := ""
	if resp.StatusCode == http.StatusSeeOther || resp.StatusCode == http.StatusFound {
		next = resp.Header.Get("Location")
	}
	return page{resp.StatusCode, path, resp.Header, string(body)}, next
}

// has fails the test if the page lacks one of the texts. They are compared with
// the HTML as it is.
func (p page) has(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.body, text) {
			t.Errorf("%s (%d) lacks %q:\n%s", p.path, p.status, text, p.body)
		}
	}
}

// lacks fails the test if the page has one of the texts.
func (p page) lacks(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.body, text) {
			t.Errorf("%s (%d) has %q:\n%s", p.path, p.status, text, p.body)
		}
	}
}

// openOperators opens the store with passwords that are quickly hashed.
func (s *site) openOperators(t testing.TB) {
	t.Helper()
	var err error
	s.operators, err = operators.NewStore(operators.Config{Pool: s.pool, Hash: &argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}})
	if err != nil {
		t.Fatal(err)
	}
	s.sessions = operators.NewSessions(s.pool)
}

func (s *site) addOperator(t testing.TB, name, tenant string, role operators.Role) operators.Operator {
	t.Helper()
	o, err := s.operators.Create(t.Context(), operators.By{Actor: "test"}, operators.New{Name: name, Password: password, Tenant: tenant, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
