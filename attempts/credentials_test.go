package attempts_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/outcome"
)

// vault holds secrets that come and go.
type vault struct {
	mu     sync.Mutex
	values map[string]string
}

func (v *vault) set(name, value string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.values == nil {
		v.values = make(map[string]string)
	}
	v.values[name] = value
}

func (v *vault) getenv(name string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.values[name]
}

// leaks searches every column of every table for a text, the queue's included.
func leaks(t testing.TB, pool *pgxpool.Pool, secrets ...string) {
	t.Helper()
	for _, table := range query[struct{ Name string }](t, pool, `
		SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'`) {
		for _, row := range query[struct{ Text string }](t, pool, `SELECT r::text AS text FROM `+table.Name+` r`) {
			for _, secret := range secrets {
				for _, form := range []string{secret, fmt.Sprintf("%x", secret), base64.StdEncoding.EncodeToString([]byte(secret))} {
					if strings.Contains(row.Text, form) {
						t.Errorf("table %s holds %q: %s", table.Name, secret, row.Text)
					}
				}
			}
		}
	}
}

// journal is a log that is searched afterwards.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// count is how often the log says it.
func (j *journal) count(sign string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), sign)
}

// leaks searches the log for secrets, and for a text that must be there.
func (j *journal) leaks(t testing.TB, sign string, secrets ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	text := j.text.String()
	if !strings.Contains(text, sign) {
		t.Errorf("the log does not say %q", sign)
	}
	for _, secret := range secrets {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("the log holds %q: %s", secret, text[max(0, at-200):at])
		}
	}
}

// TestMissingSecret: a command whose secret is missing waits without an attempt,
// goes on when it is there, and ends at its deadline.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, always(201, paid))
	var (
		secrets vault
		log     journal
		start   = time.Now()
	)
	p := startProcess(t, pool, options{getenv: secrets.getenv, log: &log})
	p.apply(t, brief("up", up.URL, ample, "auth: {type: bearer, token: env:EXECUTOR_SECRET_TOKEN}"))
	patient := p.submit(t, order("patient", "charge")).ID
	hurried := order("hurried", "charge")
	hurried.Timeout = 3 * time.Second
	hasty := p.submit(t, hurried).ID
	p.waitsFor(t, patient, commands.WaitCredential)
	p.waitsFor(t, hasty, commands.WaitCredential)
	c := p.final(t, hasty)
	if c.State != outcome.StateCancelled || c.Outcome.Reason != outcome.OutcomeReasonNeverSent || c.Outcome.DecidedBy != outcome.DecidedByDeadline || c.Attempts != 0 {
		t.Errorf("without a secret it ended after %d attempts: %+v", c.Attempts, c.Outcome)
	}
	const token = "s3cret-bearer-token"
	secrets.set("EXECUTOR_SECRET_TOKEN", token)
	if c := p.final(t, patient); c.State != outcome.StateSuccess || c.Attempts != 1 {
		t.Errorf("with the secret it ended %s after %d attempts", c.State, c.Attempts)
	}
	if list := up.of("patient"); len(list) != 1 || list[0].Authorization != "Bearer "+token {
		t.Errorf("sent: %+v", list)
	}
	leaks(t, pool, token)
	log.leaks(t, "credential missing", token)
	if n, most := log.count("credential missing"), 1+int(time.Since(start)/time.Minute); n > most {
		t.Errorf("two commands that wait for one secret are %d lines in the log, want %d at most", n, most)
	}
	up.verify(t, pool)
}

// TestEchoedCredential: what an upstream echoes of the credential is not kept.
func TestEchoedCredential(t *testing.T) {
	t.Parallel()
	const password, value = "hunter2-but-longer", "header-secret-value"
	for name, auth := range map[string]string{
		"basic":  "auth: {type: basic, username: me, password: env:EXECUTOR_SECRET_PASSWORD}",
		"header": "auth: {type: header, name: X-Api-Key, value: env:EXECUTOR_SECRET_VALUE}",
	} {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
				echo := r.Header.Get("X-Api-Key")
				if _, secret, ok := r.BasicAuth(); ok {
					echo = secret + " " + r.Header.Get("Authorization")
				}
				w.Header().Set("X-Debug", echo)
				reply(w, 422, fmt.Sprintf(`{"code":%q,"message":%q,"id":%q}`, echo, echo, echo))
			})
			var (
				secrets vault
				log     journal
			)
			secrets.set("EXECUTOR_SECRET_PASSWORD", password)
			secrets.set("EXECUTOR_SECRET_VALUE", value)
			p := startProcess(t, pool, options{getenv: secrets.getenv, log: &log})
			p.apply(t, brief("up", up.URL, ample, auth))
			if c := p.final(t, p.submit(t, order("k", "charge")).ID); c.State != outcome.StateRejected {
				t.Errorf("ended %s", c.State)
			}
			leaks(t, pool, password, value, "me:"+password)
			log.leaks(t, "", password, value, base64.StdEncoding.EncodeToString([]byte("me:"+password)))
		})
	}
}

// grants is a token endpoint. Each token that it gives out replaces the last one.
type grants struct {
	*httptest.Server

	mu   sync.Mutex
	n    int
	down int    // how many requests fail first
	asks string // Retry-After of those
}

const clientSecret = "client-secret-of-the-test"

func newGrants(t testing.TB) *grants {
	t.Helper()
	g := &grants{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.down > 0 {
			g.down--
			w.Header().Set("Retry-After", g.asks)
			reply(w, 503, `{}`)
			return
		}
		g.n++
		reply(w, 200, fmt.Sprintf(`{"access_token":"access-token-%d","token_type":"bearer","expires_in":3600}`, g.n))
	}))
	t.Cleanup(g.Close)
	return g
}

// fail lets the next n requests fail.
func (g *grants) fail(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = n
}

func (g *grants) given() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

func (g *grants) auth() string {
	return "auth: {type: oauth2_client_credentials, token_url: " + g.URL + ", client_id: me, client_secret: env:EXECUTOR_SECRET_CLIENT}"
}

// TestRefreshAndReplay: a 401 is answered with a fresh token once, where a repeat
// is safe; the replay is the same request. A second one ends it.
func TestRefreshAndReplay(t *testing.T) {
	t.Parallel()
	pool := database(t)
	tokens := newGrants(t)
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, order string, n int) {
		if n == 1 || order == "stubborn" {
			reply(w, 401, `{"code":"expired"}`)
			return
		}
		reply(w, 201, paid)
	})
	var secrets vault
	secrets.set("EXECUTOR_SECRET_CLIENT", clientSecret)
	p := startProcess(t, pool, options{getenv: secrets.getenv})
	p.apply(t, brief("up", up.URL, ample, tokens.auth()))
	for _, tt := range []struct {
		order, operation string
		state            outcome.State
		wire             int
	}{
		{"refreshed", "pay", outcome.StateSuccess, 2},
		{"stubborn", "pay", outcome.StateRejected, 2},
		{"unkeyed", "charge", outcome.StateRejected, 1},
	} {
		c := p.final(t, p.submit(t, order(tt.order, tt.operation)).ID)
		wire, list := up.of(tt.order), p.attempts(t, c.ID)
		if c.State != tt.state || len(wire) != tt.wire || len(list) != tt.wire {
			t.Errorf("%s ended %s after %d requests: %s", tt.order, c.State, len(wire), evidences(list))
		}
		if tt.wire == 2 && (wire[0].Authorization == wire[1].Authorization || list[0].RefreshedAuth || !list[1].RefreshedAuth) {
			t.Errorf("%s was sent with %s and %s", tt.order, wire[0].Authorization, wire[1].Authorization)
		}
	}
	leaks(t, pool, clientSecret, "access-token-")
	up.verify(t, pool)
}

// TestTokenEndpointDown: without a token there is nothing to send with; each try
// is an attempt that was not sent.
func TestTokenEndpointDown(t *testing.T) {
	t.Parallel()
	pool := database(t)
	tokens := newGrants(t)
	tokens.fail(1000)
	up := newLedger(t, always(201, paid))
	var (
		secrets vault
		log     journal
	)
	secrets.set("EXECUTOR_SECRET_CLIENT", clientSecret)
	p := startProcess(t, pool, options{getenv: secrets.getenv, log: &log})
	p.apply(t, brief("up", up.URL, ample, tokens.auth()))
	c := p.final(t, p.submit(t, order("k", "charge")).ID)
	list := p.attempts(t, c.ID)
	if c.State != outcome.StateCancelled || c.Outcome.Reason != outcome.OutcomeReasonNeverSent || len(list) != 4 {
		t.Errorf("ended %s, %s: %s", c.State, c.Outcome.Reason, evidences(list))
	}
	for _, a := range list {
		if a.Evidence != outcome.EvidenceNotSent || a.Stage != outcome.StageAdmission || a.Category != outcome.CategoryAuthFailure {
			t.Errorf("attempt %d: %s %s %s", a.Number, a.Evidence, a.Stage, a.Category)
		}
	}
	tokens.mu.Lock()
	tokens.asks = "86400"
	tokens.mu.Unlock()
	p.apply(t, brief("patient", up.URL, ample, tokens.auth()))
	late := order("late", "charge")
	late.Upstream = "patient"
	if c = p.final(t, p.submit(t, late).ID); c.State != outcome.StateCancelled || c.Outcome.StoppedBy != outcome.ReasonDeadline || c.Attempts != 1 {
		t.Errorf("told to come back after the deadline it ended %s, %s, after %d attempts", c.State, c.Outcome.StoppedBy, c.Attempts)
	}
	leaks(t, pool, clientSecret)
	log.leaks(t, "", clientSecret)
	up.verify(t, pool)
}

// TestRefreshIsNotSpentUnsent: a replay that could not be sent has not used up the
// refresh, whichever process goes on: a stale token elsewhere does not end the
// command.
func TestRefreshIsNotSpentUnsent(t *testing.T) {
	t.Parallel()
	pool := database(t)
	tokens := newGrants(t)
	revoked := make(chan struct{})
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, order string, _ int) {
		select {
		case <-revoked:
			if n := r.Header.Get("Authorization"); n == "Bearer access-token-1" || n == "Bearer access-token-2" {
				reply(w, 401, `{}`)
				return
			}
		default:
		}
		reply(w, 201, paid)
	})
	var secrets vault
	secrets.set("EXECUTOR_SECRET_CLIENT", clientSecret)
	a := startProcess(t, pool, options{getenv: secrets.getenv})
	slow := strings.Replace(brief("up", up.URL, ample, tokens.auth()), "initial: 20ms, max: 100ms", "initial: 2s, max: 2s", 1)
	a.apply(t, slow) // a failure of the token endpoint counts for a second
	a.final(t, a.submit(t, order("first", "pay")).ID)
	b := startProcess(t, pool, options{getenv: secrets.getenv})
	if err := b.engine.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i := 0; tokens.given() < 2; i++ { // until b has a token of its own
		b.final(t, b.submit(t, order(fmt.Sprintf("second-%d", i), "pay")).ID)
	}
	close(revoked)
	tokens.fail(2) // header and body: one exchange
	id := a.submit(t, order("k", "pay")).ID
	eventually(t, "the replay that is not sent", func() bool { return len(a.attempts(t, id)) >= 2 })
	a.stop()
	c := b.final(t, id)
	if list := b.attempts(t, id); c.State != outcome.StateSuccess || list[1].Category != outcome.CategoryAuthFailure {
		t.Errorf("ended %s: %s", c.State, evidences(list))
	}
	up.verify(t, pool)
}

// TestLostReplayCounts: a replay whose process died has used up the refresh.
func TestLostReplayCounts(t *testing.T) {
	t.Parallel()
	pool := database(t)
	tokens := newGrants(t)
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, n int) {
		if n == 2 {
			hang(r, nil)
			return
		}
		reply(w, 401, `{}`)
	})
	var secrets vault
	secrets.set("EXECUTOR_SECRET_CLIENT", clientSecret)
	a := startMortal(t, pool, options{getenv: secrets.getenv})
	a.apply(t, brief("up", up.URL, short, tokens.auth()))
	id := a.submit(t, order("k", "pay")).ID
	eventually(t, "the replay", func() bool { return len(up.of("k")) == 2 })
	a.proxy.Cut()
	b := startProcess(t, pool, options{leaseTTL: shortLease, getenv: secrets.getenv})
	c := b.final(t, id)
	if c.State != outcome.StateUnresolved || len(up.of("k")) != 3 {
		t.Errorf("ended %s after %d requests: %s", c.State, len(up.of("k")), evidences(b.attempts(t, id)))
	}
	up.verify(t, pool)
}
