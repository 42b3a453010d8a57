package attempts_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/bodyfiles"
	"executor/internal/egress"
	"executor/internal/seal"
	"executor/internal/testkit"
	"executor/upstreams"
)

// patience bounds waits for events that take moments.
const patience = 60 * time.Second

// wireLog is what an upstream saw: one entry a request.
type wireLog struct {
	mu       sync.Mutex
	requests []seenRequest
}

type seenRequest struct {
	Method, Path, Key, Authorization, ContentType, Body string
}

func (l *wireLog) add(r *http.Request) seenRequest {
	body, _ := io.ReadAll(r.Body)
	s := seenRequest{r.Method, r.URL.RequestURI(), r.Header.Get("Idempotency-Key"), r.Header.Get("Authorization"), r.Header.Get("Content-Type"), string(body)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, s)
	return s
}

func (l *wireLog) all() []seenRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]seenRequest(nil), l.requests...)
}

// of returns the requests that carried a key.
func (l *wireLog) of(key string) []seenRequest {
	var list []seenRequest
	for _, r := range l.all() {
		if r.Key == key {
			list = append(list, r)
		}
	}
	return list
}

// upstream is a real HTTP server that logs every request it read.
type upstream struct {
	*httptest.Server
	wireLog
}

// newUpstream serves handler; n counts the requests of one key from 1.
func newUpstream(t testing.TB, handler func(w http.ResponseWriter, r *http.Request, n int)) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := u.add(r)
		handler(w, r, len(u.of(s.Key)))
	}))
	t.Cleanup(u.Close)
	return u
}

// drop ends the connection without an answer.
func drop(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// profileOf is a profile for a server on loopback, with short waits. extra
// lines are appended to the profile's top level.
func profileOf(name, baseURL, extra string) string {
	return fmt.Sprintf(`version: 1
upstream: %s
base_url: %s
egress: {allow: [127.0.0.0/8]}
timeouts: {connect: 2s, tls: 2s, response_header: 2s, total: 4s}
deadline: 1m
retry:
  max_attempts: 4
  min_attempt_window: 100ms
  backoff: {initial: 20ms, max: 100ms, jitter: full}
%s
operations:
  pay:
    method: POST
    path: /payments
    body: json
    idempotency:
      kind: keyed
      key: {in: header, name: Idempotency-Key}
      retention: 24h
    result: {reference: json.id}
    rejection: {code: json.code, message: json.message}
  upload:
    method: PUT
    path: /files
    body: raw
    idempotency:
      kind: keyed
      key: {in: header, name: Idempotency-Key}
      retention: 24h
  form:
    method: POST
    path: /forms
    body: multipart
    idempotency:
      kind: keyed
      key: {in: body, name: /request_id}
      retention: 24h
  charge:
    method: POST
    path: /charges
    body: json
  rename:
    method: PUT
    path: /accounts/{account}
    body: json
    idempotency: {kind: natural}
  balance:
    method: GET
    path: /accounts/{account}
    body: none
    idempotency: {kind: safe}
`, name, baseURL, extra)
}

// process is one process's worth of the program below the API.
type process struct {
	pool     *pgxpool.Pool
	commands *commands.Store
	ups      *upstreams.Store
	engine   *attempts.Engine
	instance string
}

type options struct {
	leaseTTL time.Duration
	drain    time.Duration
	idle     bool   // no engine: submissions go to the queue
	expected string // deployment; "" is any

	getenv      func(string) string // where secrets are; nil for the environment
	resolver    attempts.Resolver   // nil for the machine's
	begun, seen func(uuid.UUID)     // faults
	files       string              // root of the files of bodies
	disk        func(path string)   // strikes before one of them is opened
	log         io.Writer           // nil for none
}

// startProcess builds and starts a process on the database.
func startProcess(t testing.TB, pool *pgxpool.Pool, o options) *process {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("EXECUTOR_TEST_LOG") != "" {
		o.log = os.Stderr
	}
	if o.log != nil {
		log = slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	ups := upstreams.NewStore(pool)
	jobs, err := attempts.NewInserter(pool)
	if err != nil {
		t.Fatal(err)
	}
	files := bodyfiles.New(o.files)
	if o.disk != nil {
		files.SetFault(func(_, path string) { o.disk(path) })
	}
	cmds := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups, Jobs: jobs, Deployment: o.expected, Box: testBox(t), Files: files, Log: log})
	p := &process{pool: pool, commands: cmds, ups: ups}
	if o.idle {
		t.Cleanup(cmds.Close)
		return p
	}
	p.instance = "test-" + uuid.NewString()
	guard := egress.NewGuard(egress.GuardConfig{})
	if o.getenv == nil {
		o.getenv = os.Getenv
	}
	p.engine, err = attempts.NewEngine(attempts.EngineConfig{
		Pool: pool, Commands: cmds, Upstreams: ups, Files: files,
		Sender:  attempts.NewSender(attempts.SenderConfig{Guard: guard, Resolver: o.resolver}),
		Secrets: egress.NewSecrets(o.getenv, ""), Tokens: egress.NewTokens(egress.TokensConfig{Guard: guard}),
		Instance: p.instance, Expected: o.expected, LeaseTTL: o.leaseTTL, Drain: o.drain, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.engine.SetFaults(o.begun, o.seen)
	if o.disk != nil {
		p.engine.SetAssembleWithin(500 * time.Millisecond)
	}
	cmds.SetStarter(p.engine)
	if err := p.engine.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop()
		cmds.Close()
	})
	return p
}

func testBox(t testing.TB) *seal.Box {
	t.Helper()
	box, err := seal.New([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func (p *process) stop() {
	if p.engine != nil {
		_ = p.engine.Stop(context.Background())
		p.engine = nil
	}
}

// database is a fresh one that belongs to deployment "test".
func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	pool := testkit.Database(t)
	adopt(t, pool)
	return pool
}

func adopt(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	if _, err := attempts.NewDeployment(pool, "test", nil).Adopt(context.Background(), audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
}

// apply applies a profile and waits until every given process knows it.
func (p *process) apply(t testing.TB, source string) upstreams.Upstream {
	t.Helper()
	profile, err := upstreams.Parse("test.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	u, _, err := p.ups.Apply(context.Background(), profile, audit.By{Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// submission is a keyed payment.
func submission(key, operation string) commands.Submission {
	s := commands.Submission{
		Tenant: "default", Key: key, Upstream: "up", Operation: operation, Actor: "test",
		Body: []byte(`{"amount":100}`), HasBody: true,
	}
	switch operation {
	case "rename":
		s.Params = map[string]string{"account": "a1"}
	case "balance":
		s.Params, s.Body, s.HasBody = map[string]string{"account": "a1"}, nil, false
	}
	return s
}

func (p *process) submit(t testing.TB, s commands.Submission) commands.Command {
	t.Helper()
	a, err := p.commands.Submit(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return a.Command
}

// final waits for a command's outcome, and asks again where the database is away.
func (p *process) final(t testing.TB, id uuid.UUID) commands.Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := p.commands.Wait(ctx, "default", id)
	for errors.Is(err, commands.ErrUnavailable) && ctx.Err() == nil {
		c, err = p.commands.Wait(ctx, "default", id)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !c.Final() {
		t.Fatalf("command %s is still %s after %s, waiting %+v", id, c.State, patience, c.Waiting)
	}
	return c
}

func (p *process) attempts(t testing.TB, id uuid.UUID) []commands.Attempt {
	t.Helper()
	list, err := p.commands.Attempts(context.Background(), "default", id)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// eventually waits for a condition that an event elsewhere brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, ok)
}

func evidences(list []commands.Attempt) string {
	var words []string
	for _, a := range list {
		words = append(words, fmt.Sprintf("%s/%s/%s", a.Evidence, a.Category, a.Answer))
	}
	return strings.Join(words, " ")
}
