package webhooks_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/egress"
	"executor/internal/seal"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/webhooks"
)

// TestBadReceiversDelayNobody: many receivers that never answer hold up no
// healthy one, neither with their first deliveries nor when they are known.
func TestBadReceiversDelayNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const bad = 20
	release := make(chan struct{})
	hang := func(_ int, _ got, _ http.ResponseWriter, req *http.Request) {
		select {
		case <-release:
		case <-req.Context().Done():
		}
	}
	stuck := newReceiver(t, hang)
	defer close(release)
	for i := range bad {
		r.endpoint(t, fmt.Sprintf("%s/%d", stuck.URL, i))
	}
	good := newReceiver(t, nil)
	e, _ := r.endpoint(t, good.URL)
	r.engine(t, waits(5, time.Hour), func(c *webhooks.EngineConfig) {
		c.Timeout = time.Hour // a slot that is taken is never given back
		c.Concurrency, c.Total = 2, 2*bad+2
	})
	const n = 15
	for i := range n {
		r.ended(t, fmt.Sprint("k", i), outcome.StateSuccess)
	}
	good.await(t, n)
	await(t, "every bad receiver has no more than its places", func() bool { return len(stuck.all()) == 2*bad })
	r.exec(t, `UPDATE webhook_endpoints SET troubled = true, failing_since = now() WHERE id <> $1`, e.ID)
	for i := range n {
		r.ended(t, fmt.Sprint("later", i), outcome.StateSuccess)
	}
	good.await(t, 2*n)
	await(t, "each has one place in the other line", func() bool { return len(stuck.all()) == 3*bad })
}

// TestEndlessBody: the status decides, and the place is free again.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sent := make(chan int, 2)
	flood := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		if _, ok := c.ReadRequest(); !ok {
			return
		}
		c.Send("HTTP/1.1 200 OK\r\n\r\n")
		n := 0
		for {
			written, err := c.Write([]byte(strings.Repeat("endless ", 1024)))
			if n += written; err != nil {
				sent <- n
				return
			}
		}
	})
	drip := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		if _, ok := c.ReadRequest(); ok {
			c.Send("HTTP/1.1 202 Accepted\r\nContent-Length: 1000\r\n\r\nso far")
			c.Drain()
		}
	})
	r.endpoint(t, "http://"+flood.Address())
	r.endpoint(t, "http://"+drip.Address())
	r.engine(t)
	id := r.ended(t, "k", outcome.StateSuccess)
	await(t, "both delivered", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE command_id = $1 AND state = 'delivered' AND tries = 1`, id) == 2
	})
	if n := <-sent; n > 32<<20 {
		t.Errorf("%d bytes were taken", n)
	}
	if n := r.count(t, `SELECT count(*) FROM webhook_tries WHERE (status = 202 AND excerpt = 'so far') OR (status = 200 AND length(excerpt) BETWEEN 1000 AND 1024)`); n != 2 {
		t.Errorf("%d tries as they should be in the log, want 2", n)
	}
}

// TestRedirectsAreNotFollowed, least of all to an address inside.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	inside := newReceiver(t, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		to := newReceiver(t, func(_ int, _ got, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", inside.URL)
			w.WriteHeader(code)
		})
		r.endpoint(t, to.URL)
	}
	r.engine(t, waits(0, 0))
	id := r.ended(t, "k", outcome.StateSuccess)
	await(t, "all given up", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE command_id = $1 AND state = 'failed' AND failure = 'redirect'`, id) == 5
	})
	if n := len(inside.all()); n != 0 {
		t.Errorf("%d requests followed", n)
	}
}

// TestForbiddenAddresses get no connection, whatever the URL calls them, and whoever
// asks for one learns nothing of what is there: neither from words nor from times.
// Our log knows.
func TestForbiddenAddresses(t *testing.T) {
	t.Parallel()
	names := resolver{"inside.example": "127.0.0.1", "metadata.example": "169.254.169.254", "plain.example": "203.0.114.7"}
	r := newRig(t, func(c *webhooks.Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")} })
	trap := newReceiver(t, nil)
	port := trap.URL[strings.LastIndex(trap.URL, ":"):]
	log := &journal{}
	urls := []string{"https://nowhere.example", "https://inside.example" + port, "http://inside.example" + port, "https://metadata.example", "http://metadata.example", "http://plain.example" + port}
	for _, url := range urls {
		r.endpoint(t, url)
	}
	r.engine(t, waits(0, 0), func(c *webhooks.EngineConfig) {
		c.Dialer = egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), names)
		c.Timeout = 2 * time.Second // the public address of an example leads nowhere
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	id := r.ended(t, "k", outcome.StateSuccess)
	await(t, "all given up", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE command_id = $1 AND state = 'failed'`, id) == len(urls)
	})
	if n := strings.Count(log.String(), "EXECUTOR_WEBHOOK_ALLOW"); n != len(urls)-2 || len(trap.all()) != 0 {
		t.Errorf("%d were refused before they were dialled, want %d; %d requests arrived", n, len(urls)-2, len(trap.all()))
	}
	shown := r.count(t, `
		SELECT count(DISTINCT (d.failure, d.detail, d.status, t.failure, t.detail, t.status, t.duration_ms, t.excerpt))
		FROM webhook_deliveries d JOIN webhook_tries t ON t.delivery_id = d.id WHERE t.failure = 'unreachable' AND t.duration_ms = 0`)
	if n := r.count(t, `SELECT count(*) FROM webhook_tries WHERE failure = 'unreachable'`); shown != 1 || n != len(urls) {
		t.Errorf("%d kinds of answers about %d of %d URLs, want one", shown, n, len(urls))
	}
}

// resolver knows some names.
type resolver map[string]string

func (r resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	addr, err := netip.ParseAddr(r[host])
	if err != nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.0.0.2:53", IsNotFound: true}
	}
	return []netip.Addr{addr}, nil
}

// TestPlainHTTP goes to an address that is allowed, by whatever name.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	r.endpoint(t, "http://elsewhere.example"+to.URL[strings.LastIndex(to.URL, ":"):])
	r.engine(t, waits(0, 0), func(c *webhooks.EngineConfig) {
		c.Dialer = egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), resolver{"elsewhere.example": "127.0.0.1"})
	})
	r.awaitState(t, r.ended(t, "k", outcome.StateSuccess), webhooks.DeliveryDelivered)
}

// TestTLS: a certificate that nobody vouches for delivers nothing.
func TestTLS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := &receiver{}
	server := httptest.NewTLSServer(to.handler(nil))
	t.Cleanup(server.Close)
	e, secret := r.endpoint(t, server.URL)
	strict := r.engine(t, waits(0, 0))
	id := r.ended(t, "k", outcome.StateSuccess)
	if d := r.awaitState(t, id, webhooks.DeliveryFailed); d.Failure != webhooks.FailureTLS || len(to.all()) != 0 {
		t.Errorf("%+v", d)
	}
	strict.Stop(t.Context())
	trust := x509.NewCertPool()
	trust.AddCert(server.Certificate())
	r.engine(t, func(c *webhooks.EngineConfig) { c.TLS = &tls.Config{RootCAs: trust, ServerName: "example.com"} })
	if _, err := r.hooks.Redeliver(t.Context(), by(tenant), r.one(t, id).ID); err != nil {
		t.Fatal(err)
	}
	r.awaitState(t, id, webhooks.DeliveryDelivered)
	if err := verify(t, to.all()[0], secret); err != nil {
		t.Errorf("%s: %v", e.URL, err)
	}
}

// TestKindsOfFailure: what went wrong is told apart.
func TestKindsOfFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	raw := func(script func(*testkit.RawConn)) string {
		return "http://" + testkit.NewRawServer(t, script).Address()
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	want := map[string]webhooks.Failure{
		closed.URL: webhooks.FailureUnreachable,
		raw(func(c *testkit.RawConn) { c.ReadRequest() }):                                              webhooks.FailureConnectionLost,
		raw(func(c *testkit.RawConn) { c.ReadRequest(); c.Reset() }):                                   webhooks.FailureConnectionLost,
		raw(func(c *testkit.RawConn) { c.ReadRequest(); c.Send("SSH-2.0-OpenSSH\r\n\r\n") }):           webhooks.FailureResponseInvalid,
		raw(func(c *testkit.RawConn) { c.ReadRequest(); c.Send("HTTP/1.1 200 OK\r\nX: "); c.Drain() }): webhooks.FailureTimeout,
		raw(func(c *testkit.RawConn) { c.ReadRequest(); c.Drain() }):                                   webhooks.FailureTimeout,
		raw(func(c *testkit.RawConn) { c.ReadRequest(); c.Send(headers(100_000)) }):                    webhooks.FailureResponseInvalid,
		"http://nowhere.invalid": webhooks.FailureUnreachable,
	}
	ids := map[uuid.UUID]webhooks.Failure{}
	for url, failure := range want {
		e, _ := r.endpoint(t, url)
		ids[e.ID] = failure
	}
	r.engine(t, waits(0, 0), func(c *webhooks.EngineConfig) { c.Timeout = 2 * time.Second })
	id := r.ended(t, "k", outcome.StateSuccess)
	await(t, "all given up", func() bool {
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE command_id = $1 AND state = 'failed'`, id) == len(want)
	})
	for _, d := range r.of(t, id) {
		if d.Failure != ids[d.EndpointID] || d.Detail == "" {
			t.Errorf("%s: %q (%s), want %q", r.get(t, d.EndpointID).URL, d.Failure, d.Detail, ids[d.EndpointID])
		}
	}
}

func headers(n int) string {
	return "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", n) + "\r\n\r\n"
}

// TestDeathBeforeTheRecord: what a process had sent and not recorded is sent again
// by another, with the same id.
func TestDeathBeforeTheRecord(t *testing.T) {
	t.Parallel()
	database := testkit.DatabaseURL(t)
	proxy := testkit.NewProxy(t, database)
	box := newBox(t)
	sameKey := func(c *webhooks.Config) { c.Box = box }
	r, dying := newRigOn(t, testkit.Open(t, database), sameKey), newRigOn(t, testkit.Open(t, proxy.URL+"&application_name=dying"), sameKey)
	dead := make(chan struct{})
	to := newReceiver(t, func(n int, _ got, _ http.ResponseWriter, _ *http.Request) {
		if n == 1 {
			proxy.Cut() // as far as the database can see, the process is gone
			close(dead)
		}
	})
	_, secret := r.endpoint(t, to.URL)
	id := r.ended(t, "k", outcome.StateSuccess)
	dying.engine(t)
	<-dead
	await(t, "the server notices", func() bool {
		return r.count(t, `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dying' AND datname = current_database()`) == 0
	})
	survivor := r.engine(t)
	if d := r.one(t, id); d.State != webhooks.DeliveryPending || d.Tries != 0 {
		t.Fatalf("after the death: %+v", d)
	}
	r.exec(t, `UPDATE webhook_deliveries SET claimed_until = now()`) // the claim ends
	d := r.awaitState(t, id, webhooks.DeliveryDelivered)
	list := to.all()
	if len(list) != 2 || list[0].id != list[1].id || verify(t, list[1], secret) != nil || d.Tries != 1 {
		t.Errorf("%d requests, %+v", len(list), d)
	}
	survivor.Stop(t.Context())
	proxy.Mend() // it wakes up and records what somebody else has taken over
	if d := r.one(t, id); d.State != webhooks.DeliveryDelivered || d.Tries != 1 {
		t.Errorf("in the end: %+v", d)
	}
}

// TestARecordWhoseAnswerIsLost is repeated, and nothing is sent again.
func TestARecordWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]testkit.Fate{"committed": {LoseReply: true}, "not committed": {LoseRequest: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := testkit.DatabaseURL(t)
			proxy := testkit.NewProxy(t, database)
			r := newRigOn(t, testkit.Open(t, proxy.URL))
			to := newReceiver(t, nil)
			r.endpoint(t, to.URL)
			lost := make(chan struct{}, 1)
			proxy.OnCommit(func(c testkit.Commit) testkit.Fate {
				if c.Did("webhook_tries") {
					select {
					case lost <- struct{}{}:
						return fate
					default:
					}
				}
				return testkit.Fate{}
			})
			r.engine(t)
			id := r.ended(t, "k", outcome.StateSuccess)
			d := r.awaitState(t, id, webhooks.DeliveryDelivered)
			if n := len(to.all()); n != 1 || d.Tries != 1 || len(r.account(t, d.ID).Log) != 1 || len(lost) != 1 {
				t.Errorf("%d requests, %+v", n, d)
			}
		})
	}
}

// TestStopCutsOff: what is under way when a process has to stop is due elsewhere
// at once, and the try does not count.
func TestStopCutsOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, _ got, _ http.ResponseWriter, req *http.Request) {
		if n == 1 {
			<-req.Context().Done()
		}
	})
	e, _ := r.endpoint(t, to.URL)
	stopping := r.engine(t)
	id := r.ended(t, "k", outcome.StateSuccess)
	to.await(t, 1)
	now, cancel := context.WithCancel(t.Context())
	cancel()
	stopping.Stop(now)
	if d := r.one(t, id); d.State != webhooks.DeliveryPending || d.Failure != webhooks.FailureInterrupted || r.get(t, e.ID).FailingSince != nil {
		t.Errorf("after the stop: %+v", d)
	}
	r.engine(t, waits(0, 0))
	if d := r.awaitState(t, id, webhooks.DeliveryDelivered); d.Tries != 2 || to.all()[0].id != to.all()[1].id {
		t.Errorf("in the end: %+v", d)
	}
}

// TestSecretsOfAnotherKey cannot sign: nothing is sent, and nothing counts.
func TestSecretsOfAnotherKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, nil)
	e, _ := r.endpoint(t, to.URL)
	other := newRigOn(t, r.pool) // has a key of its own
	engine := other.engine(t)
	id := r.ended(t, "k", outcome.StateSuccess)
	await(t, "a try", func() bool { return r.one(t, id).Tries == 1 })
	if d := r.one(t, id); d.State != webhooks.DeliveryPending || d.Failure != webhooks.FailureSecretUnreadable || len(to.all()) != 0 || r.get(t, e.ID).FailingSince != nil {
		t.Errorf("%+v", d)
	}
	engine.Stop(t.Context())
	r.engine(t, waits(0, 0))
	r.exec(t, `UPDATE webhook_deliveries SET next_at = now()`) // minutes pass
	r.awaitState(t, id, webhooks.DeliveryDelivered)
}

// TestOlderKeys: what is sealed under an older key signs, and is sealed anew, so
// that the older key can go.
func TestOlderKeys(t *testing.T) {
	t.Parallel()
	before, after := make([]byte, seal.KeyBytes), make([]byte, seal.KeyBytes)
	before[0], after[0] = 1, 2
	keys := func(current []byte, older ...[]byte) func(*webhooks.Config) {
		box, err := seal.New(current, older...)
		if err != nil {
			t.Fatal(err)
		}
		return func(c *webhooks.Config) { c.Box = box }
	}
	r := newRig(t, keys(before))
	to := newReceiver(t, nil)
	_, secret := r.endpoint(t, to.URL)
	both := newRigOn(t, r.pool, keys(after, before))
	mark := r.text(t, `SELECT encode(substr(sealed, 1, 5), 'hex') FROM webhook_secrets`)
	engine := both.engine(t)
	await(t, "sealed anew", func() bool {
		return r.text(t, `SELECT encode(substr(sealed, 1, 5), 'hex') FROM webhook_secrets`) != mark
	})
	engine.Stop(t.Context())
	newRigOn(t, r.pool, keys(after)).engine(t)
	r.ended(t, "k", outcome.StateSuccess)
	if err := verify(t, to.await(t, 1)[0], secret); err != nil {
		t.Error(err)
	}
}

// TestAForeignDeployment delivers nothing, and neither does one in doubt.
func TestAForeignDeployment(t *testing.T) {
	t.Parallel()
	pool, looked := watch(t, testkit.Database(t))
	r := newRigOn(t, pool)
	to := newReceiver(t, nil)
	r.endpoint(t, to.URL)
	id := r.ended(t, "k", outcome.StateSuccess)
	belongs := func(id string) func(*webhooks.EngineConfig) {
		return func(c *webhooks.EngineConfig) { c.Expected = id }
	}
	r.engine(t, belongs("copy"))
	r.exec(t, `INSERT INTO deployment (id, system_identifier, timeline, doubtful) VALUES ('production', 'x', 1, true)`)
	owner := r.engine(t, belongs("production"))
	looked.pass(t)
	if n := len(to.all()); n != 0 || r.one(t, id).Tries != 0 {
		t.Fatalf("%d requests", n)
	}
	r.exec(t, `UPDATE deployment SET doubtful = false`)
	r.awaitState(t, id, webhooks.DeliveryDelivered)
	owner.Stop(t.Context())
	later := r.ended(t, "later", outcome.StateSuccess)
	looked.pass(t)
	if n := len(to.all()); n != 1 || r.one(t, later).Tries != 0 {
		t.Errorf("%d requests after the owner stopped", n)
	}
}

// looks counts how often engines look for what is due.
type looks struct{ atomic.Int64 }

func (l *looks) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if q.SQL == webhooks.AnythingSQL {
		l.Add(1)
	}
	return ctx
}

func (*looks) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// watch gives a pool like another one, and counts the looks over it.
func watch(t *testing.T, like *pgxpool.Pool) (*pgxpool.Pool, *looks) {
	t.Helper()
	config, counter := like.Config(), &looks{}
	config.ConnConfig.Tracer = counter
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, counter
}

// pass waits until every engine has surely looked again.
func (l *looks) pass(t *testing.T) {
	t.Helper()
	before := l.Load()
	await(t, "looks", func() bool { return l.Load() > before+40 })
}
