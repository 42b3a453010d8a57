package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds waits for what takes moments.
const patience = 30 * time.Second

// rig is a server over HTTP whose every answer is held against openapi.yaml.
type rig struct {
	t          *testing.T
	server     *Server
	http       *httptest.Server
	commands   *fakeCommands
	upstreams  *fakeUpstreams
	reviews    *fakeReviews
	lookups    *fakeLookups
	notices    *fakeNotices
	reports    *fakeReports
	webhooks   *fakeWebhooks
	audit      *fakeAudit
	deployment *fakeDeployment
	health     *fakeHealth
	keys       fakeKeys
	log        *logBuffer
	spec       *specification
}

// newRig serves fakes that know nothing; a test teaches them what it needs.
func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	g := &rig{
		t: t, commands: &fakeCommands{}, upstreams: &fakeUpstreams{}, reviews: &fakeReviews{bulk: someBulk()}, lookups: &fakeLookups{}, notices: &fakeNotices{},
		reports: &fakeReports{report: someReport()}, webhooks: &fakeWebhooks{endpoint: someEndpoint(), account: someAccount()}, audit: &fakeAudit{},
		deployment: &fakeDeployment{}, health: &fakeHealth{}, log: &logBuffer{},
		keys: fakeKeys{
			"exk_admin": {Tenant: "default", Name: "boss", Scopes: []string{"admin"}},
			"exk_write": {Tenant: "default", Name: "shop", Scopes: []string{"commands:write"}},
			"exk_read":  {Tenant: "default", Name: "eyes", Scopes: []string{"commands:read"}},
			"exk_judge": {Tenant: "default", Name: "ann", Scopes: []string{"reviews:write"}},
		},
		spec: loadSpecification(t),
	}
	config := Config{
		Commands: g.commands, Upstreams: g.upstreams, Reviews: g.reviews, Lookups: g.lookups, Notices: g.notices,
		Reports: g.reports, Webhooks: g.webhooks, Audit: g.audit, Keys: g.keys, Deployment: g.deployment, Health: g.health,
		Log: slog.New(slog.NewTextHandler(g.log, nil)),
	}
	for _, f := range change {
		f(&config)
	}
	g.server = NewServer(config)
	g.server.poll = 5 * time.Millisecond
	g.http = httptest.NewServer(g.server.Routes())
	t.Cleanup(func() {
		g.server.Drain()
		g.http.Close()
	})
	return g
}

// ask is a request under construction.
type ask struct {
	method, path string
	header       http.Header
	body         string
}

type askOption func(*ask)

func with(name, value string) askOption { return func(a *ask) { a.header.Add(name, value) } }
func without(name string) askOption     { return func(a *ask) { a.header.Del(name) } }

// as asks with another API key.
func as(secret string) askOption {
	return func(a *ask) { a.header.Set("Authorization", "Bearer "+secret) }
}

// sending gives a JSON body.
func sending(body string) askOption {
	return func(a *ask) { a.body = body; a.header.Set("Content-Type", "application/json") }
}

// reply is an answer, read whole.
type reply struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	body   []byte
}

// do asks as the admin, unless told otherwise.
func (g *rig) do(method, path string, options ...askOption) *reply {
	g.t.Helper()
	a := &ask{method: method, path: path, header: http.Header{"Authorization": {"Bearer exk_admin"}}}
	for _, option := range options {
		option(a)
	}
	req, err := http.NewRequest(a.method, g.http.URL+a.path, strings.NewReader(a.body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header = a.header
	resp, err := g.http.Client().Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	r := &reply{t: g.t, what: method + " " + path, status: resp.StatusCode, header: resp.Header, body: body}
	g.spec.check(g.t, req, r)
	return r
}

// submit posts a command under a key.
func (g *rig) submit(key, body string, options ...askOption) *reply {
	g.t.Helper()
	return g.do("POST", "/v1/commands", append([]askOption{with(keyHeader, key), sending(body)}, options...)...)
}

func (r *reply) want(status int) *reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("%s: status %d, want %d: %s", r.what, r.status, status, r.body)
	}
	return r
}

func (r *reply) decode(v any) {
	r.t.Helper()
	if err := json.Unmarshal(r.body, v); err != nil {
		r.t.Fatalf("%s: %v in %s", r.what, err, r.body)
	}
}

// problem expects a problem of a code.
func (r *reply) problem(code ProblemCode) Problem {
	r.t.Helper()
	var p Problem
	r.decode(&p)
	if p.Code != code {
		r.t.Fatalf("%s: problem %s, want %s: %s", r.what, p.Code, code, r.body)
	}
	if p.Status != r.status || p.Type != "/problems/"+string(code) || p.Title == "" || p.Detail == "" || p.RequestID != r.header.Get("X-Request-Id") {
		r.t.Errorf("%s: the problem is not whole: %s", r.what, r.body)
	}
	coverProblem(code)
	return p
}

func (r *reply) command() Command {
	r.t.Helper()
	var c Command
	r.decode(&c)
	return c
}

// logBuffer is a log that a test can read while it is written.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newLines reads a stream line by line.
func newLines(r io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(r)
		for lines.Scan() && yield(lines.Text()) {
		}
	}
}

func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Add(pairs[i], pairs[i+1])
	}
	return "?" + q.Encode()
}

// quoted is a version as its ETag.
func quoted(version int) string { return strconv.Quote(strconv.Itoa(version)) }
