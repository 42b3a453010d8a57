package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
)

// TestNothingSecretLeaks runs a whole deployment in which every secret can be told
// from all others, against an upstream that repeats what it gets in every way it can
// think of, and with faults of every kind. Afterwards each secret is looked for
// everywhere but where it belongs.
func TestNothingSecretLeaks(t *testing.T) {
	c := newCanaryRun(t)
	c.start()
	c.applyProfiles()
	c.openReceivers()
	c.signIn()
	c.sendAll()
	c.notify()
	c.outage()
	c.mistakes()
	c.follow()
	c.collect()
	c.process.Signal(syscall.SIGTERM)
	c.second.Signal(syscall.SIGTERM)
	c.process.Wait()
	c.second.Wait()
	c.keep("log of the first process", c.process.stderr.String(), c.process.stdout.String())
	c.keep("log of the second process", c.second.stderr.String(), c.second.stdout.String())
	c.keepRows()
	c.search(t, c.places)
	c.reached()
}

// canaryRun is the deployment, and what has been seen of it.
type canaryRun struct {
	*deployment
	canaries
	t       *testing.T
	parrot  *parrot
	address string // of the parrot
	tls     *httptest.Server
	wire    *testkit.Proxy // between the processes and the database
	direct  string         // the database's URL
	process *Process
	second  *Process // writes its log as text
	cookie  string   // of the one who is signed in
	list    []client.Command
	mu      sync.Mutex
	places  []place
}

func (c *canaryRun) keep(name string, texts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range texts {
		c.places = append(c.places, place{name, []byte(text)})
	}
}

// newCanaryRun makes the secrets and where they are given from: variables, files,
// the database's URL.
func newCanaryRun(t *testing.T) *canaryRun {
	t.Helper()
	c := &canaryRun{t: t, deployment: newDeployment(t)}
	c.know("API key", c.env["EXECUTOR_API_KEY"])
	c.parrot = &parrot{token: strings.ReplaceAll(c.make("access token"), " ", ""), secret: c.make("upstream's own secret")}
	c.address = listenParrot(t, c.parrot).Addr
	for _, name := range []string{"BEARER", "USER", "PASSWORD", "HEADER", "CLIENT_ID", "CLIENT_SECRET", "NOTICES"} {
		c.env["EXECUTOR_SECRET_"+name] = c.make(name)
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	c.env["EXECUTOR_ENCRYPTION_KEY"] = c.know("encryption key", base64.StdEncoding.EncodeToString(key))
	c.secretFiles()
	c.databasePassword()
	return c
}

// secretFiles puts the credentials of the TLS upstream into files, and starts it.
func (c *canaryRun) secretFiles() {
	dir, authority := c.t.TempDir(), testkit.NewAuthority(c.t)
	cert, key := testkit.Pair(c.t, authority.Issue("us"))
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	write("ca", authority.PEM)
	write("cert", cert)
	write("key", key)
	c.know("client key", strings.Split(string(key), "\n")[1])
	c.env["EXECUTOR_SECRETS_DIR"] = dir
	c.tls = httptest.NewUnstartedServer(c.parrot)
	c.tls.TLS = demanding(authority)
	c.tls.StartTLS()
	c.t.Cleanup(c.tls.Close)
}

// databasePassword puts a password into the URL, if the server wants none, and a
// proxy in between, to take the database away.
func (c *canaryRun) databasePassword() {
	u, err := url.Parse(c.env["EXECUTOR_DATABASE_URL"])
	if err != nil {
		c.t.Fatal(err)
	}
	password, given := u.User.Password()
	if !given {
		password = c.make("database password")
		u.User = url.UserPassword(u.User.Username(), password)
	} else {
		c.know("database password", password)
	}
	c.direct = u.String()
	c.wire = testkit.NewProxy(c.t, c.direct)
	c.env["EXECUTOR_DATABASE_URL"] = c.wire.URL
}

func (c *canaryRun) start() {
	c.process = c.serve("--log-level", "debug", "--log-format", "json", "--webhook-allow", "127.0.0.0/8")
	c.second = c.deployment.start("--log-level", "debug", "--log-format", "text", "--webhook-allow", "127.0.0.0/8", "--roles", "worker")
	if !c.second.stderr.await(func(text string) bool { return strings.Contains(text, "msg=serving") }) {
		c.t.Fatal("the second process does not serve")
	}
}

// canaryProfile redacts on top of what is redacted anyway.
const canaryProfile = `version: 1
upstream: %s
base_url: %s
egress: {allow: [127.0.0.0/8]}
auth: %s
timeouts: {connect: 2s, tls: 2s, response_header: 2s, total: 3s}
limits: {max_in_flight: 8, response_bytes: %d, stored_response_bytes: %d}
retry: {max_attempts: 2, min_attempt_window: 50ms, backoff: {initial: 10ms, max: 20ms}, budget: {ratio: 1, floor_per_second: 50, burst: 500}, throttle_pauses_upstream: false}
operations:
  call:
    method: POST
    path: /calls/{way}
    body: json
    caller_headers: [X-Pan]
    answers:
      - {when: status == 422, answer: refused}
    result: {reference: json.id, headers: [X-Said, X-Late, Location]}
    rejection: {code: json.code, message: json.message}
    redact: {headers: [X-Pan], request: [/card], response: [/client_secret]}
    lookup:
      method: GET
      path: /lookups/{way}
      findings:
        - {when: status == 422, finding: refused, code: json.code, message: json.message}
        - {when: status == 201, finding: applied, reference: json.id}
      schedule: {first_after: 50ms, factor: 2, max_interval: 1h, give_up_after: 24h}
notices:
  verify: {scheme: hmac-sha256, header: X-Signature, secret: env:EXECUTOR_SECRET_NOTICES}
  event_id: json.event
  command: json.key
  findings:
    - {when: json.type == "done", finding: applied, reference: json.reference}
  weight: conclusive
%s`

// applyProfiles makes an upstream for each kind of credential, and some whose
// credential leads nowhere.
func (c *canaryRun) applyProfiles() {
	plain := "http://" + c.address
	token := "{type: oauth2_client_credentials, token_url: '" + plain + "/token/%s', client_id: env:EXECUTOR_SECRET_CLIENT_ID, client_secret: env:EXECUTOR_SECRET_CLIENT_SECRET}"
	bearer := "{type: bearer, token: env:EXECUTOR_SECRET_BEARER}"
	for _, u := range []struct{ name, base, auth, more string }{
		{"bearer", plain, bearer, ""},
		{"basic", plain, "{type: basic, username: env:EXECUTOR_SECRET_USER, password: env:EXECUTOR_SECRET_PASSWORD}", ""},
		{"header", plain, "{type: header, name: X-Api-Key, value: env:EXECUTOR_SECRET_HEADER}", ""},
		{"oauth", plain, fmt.Sprintf(token, "ok"), ""},
		{"refused", plain, fmt.Sprintf(token, "refused"), ""},
		{"mistyped", plain, fmt.Sprintf(token, "type"), ""},
		{"garbled", plain, fmt.Sprintf(token, "malformed"), ""},
		{"moved", plain, fmt.Sprintf(token, "moved"), ""},
		{"broken", plain, fmt.Sprintf(token, "broken"), ""},
		{"mutual", c.tls.URL, bearer, "tls: {ca_file: 'file:ca', cert_file: 'file:cert', key_file: 'file:key'}\n"},
		{"untrusted", c.tls.URL, bearer, "tls: {cert_file: 'file:cert', key_file: 'file:key'}\n"},
		{"no-tls", "https://" + c.address, bearer, ""},
		{"badkey", c.tls.URL, bearer, "tls: {cert_file: 'file:cert', key_file: 'file:ca'}\n"},
		{"closed", "http://127.0.0.1:1025", bearer, ""},
	} {
		text := fmt.Sprintf(canaryProfile, u.name, u.base, u.auth, parrotLimit, parrotLimit/2, u.more)
		if _, err := c.client().PutUpstream(bounded(c.t), u.name, []byte(text)); err != nil {
			c.t.Fatalf("%s: %v", u.name, err)
		}
	}
}

// openReceivers has two webhooks: one takes what comes, the other repeats it, with
// its own secret. Both prove first that they want any.
func (c *canaryRun) openReceivers() {
	c.receiver("taking", func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusNoContent) })
	c.receiver("repeating", func(w http.ResponseWriter, r *http.Request, secret string) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, "cannot verify %s with %s", r.Header.Get("Webhook-Signature"), secret)
	})
}

func (c *canaryRun) receiver(name string, answer func(http.ResponseWriter, *http.Request, string)) {
	var (
		secret string
		prove  http.Handler
		known  = make(chan struct{})
	)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-known
		body, _ := io.ReadAll(r.Body)
		c.keep("webhook to the "+name+" receiver", string(body), fmt.Sprint(r.Header))
		if !bytes.Contains(body, []byte(`"command.`)) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			prove.ServeHTTP(w, r)
			return
		}
		answer(w, r, secret)
	}))
	c.t.Cleanup(server.Close)
	made, err := c.client().CreateWebhook(bounded(c.t), client.WebhookSettings{URL: server.URL})
	if err != nil {
		c.t.Fatal(err)
	}
	secret = c.know("secret of the "+name+" webhook", strings.TrimPrefix(made.Secret, "whsec_"))
	if prove, err = client.WebhookHandler([]string{made.Secret}, func(context.Context, client.WebhookEvent) error { return nil }); err != nil {
		c.t.Fatal(err)
	}
	close(known)
	for made.Verified == nil {
		time.Sleep(10 * time.Millisecond)
		if made, err = c.client().Webhook(bounded(c.t), made.ID); err != nil {
			c.t.Fatal(err)
		}
	}
}

// sendAll sends a command in every way under every kind of credential, and one under
// each that leads nowhere. Both processes work on them.
func (c *canaryRun) sendAll() {
	c.make("redacted request header")
	c.make("redacted request member")
	for _, way := range ways() {
		c.submit("basic", way)
	}
	for _, upstream := range []string{"bearer", "header", "oauth", "mutual"} {
		for _, way := range []string{"raw", "base64-500", "refusal", "reference", "torn", "cut", "malformed", "silent"} {
			c.submit(upstream, way)
		}
	}
	for _, upstream := range []string{"refused", "mistyped", "garbled", "moved", "broken", "untrusted", "no-tls", "badkey", "closed"} {
		c.submit(upstream, "raw")
	}
	for i, command := range c.list {
		ctx := bounded(c.t)
		var err error
		if c.list[i], err = c.client().Wait(ctx, command.ID); err != nil {
			c.t.Fatalf("command %s: %v", command.Key, err)
		}
	}
}

func (c *canaryRun) submit(upstream, way string) {
	patience := time.Minute
	if upstream == "badkey" { // waits for a better one
		patience = 2 * time.Second
	}
	accepted, err := c.client().Submit(bounded(c.t), client.Submission{
		Key: upstream + "-" + way, Upstream: upstream, Operation: "call", Params: map[string]string{"way": way}, Timeout: patience,
		Headers: map[string]string{"X-Pan": c.value("redacted request header")},
		Body:    fmt.Appendf(nil, `{"amount": 1, "card": %s}`, spellings["json"](c.value("redacted request member"))),
	})
	if err != nil {
		c.t.Fatalf("%s, %s: %v", upstream, way, err)
	}
	c.list = append(c.list, accepted.Command)
}

// notify has notices come: good ones that hold what they must not, and forged ones.
func (c *canaryRun) notify() {
	secret := c.env["EXECUTOR_SECRET_NOTICES"]
	for _, body := range []string{
		`{"type":"done","key":"bearer-silent","reference":"r1","client_secret":` + spellings["json"](c.parrot.secret) + `}`,
		`{"type":"done","key":"bearer-torn","reference":` + spellings["json"](secret) + `,"signed_with":` + spellings["json"](secret) + `}`,
		`{"type":` + spellings["json"](secret) + `,"key":"nobody"}`,
	} {
		for _, signing := range []string{secret, "wrong"} {
			req, err := http.NewRequest(http.MethodPost, c.process.URL()+"/v1/notices/bearer", strings.NewReader(body))
			if err != nil {
				c.t.Fatal(err)
			}
			mac := hmac.New(sha256.New, []byte(signing))
			mac.Write([]byte(body))
			req.Header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
			req.Header.Set("X-Secret-Of-Notice", secret)
			c.keepAnswer("answer to a notice", req)
		}
	}
}

// outage takes the database away for a moment, while everybody wants something.
func (c *canaryRun) outage() {
	c.wire.Cut()
	for _, path := range []string{"/readyz", "/v1/commands", "/", "/v1/upstreams/bearer"} {
		c.page(path)
	}
	c.cli("doctor")
	c.wire.Mend()
	for {
		if status, _ := get(c.t, c.process.URL()+"/readyz"); status == http.StatusOK {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reached checks that the secrets were used at all.
func (c *canaryRun) reached() {
	for _, name := range []string{"BEARER", "HEADER"} {
		if !c.parrot.got(c.env["EXECUTOR_SECRET_"+name]) {
			c.t.Errorf("the upstream never got %s", name)
		}
	}
	if !slices.ContainsFunc(c.places, func(p place) bool {
		return p.name == "webhook to the repeating receiver" && bytes.Contains(p.text, []byte(`"command.`))
	}) {
		c.t.Error("the receiver that repeats never got an event")
	}
	if !c.parrot.got("Bearer "+c.parrot.token) || !c.parrot.got(c.value("redacted request header")) {
		c.t.Error("the upstream never got the access token or the caller's header")
	}
}
