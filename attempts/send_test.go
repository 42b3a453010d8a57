package attempts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"executor/internal/egress"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/upstreams"
)

// transport is how a test's upstream is reached.
type transport struct {
	name string
	tls  *tls.Config // of the server
	true *tls.Config // of the client
}

// transports are plain TCP and TLS, for behaviour that must not differ.
func transports(t *testing.T) []transport {
	t.Helper()
	ca := testkit.NewAuthority(t)
	server := &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1", "upstream.test")}}
	return []transport{
		{name: "plain"},
		{name: "tls", tls: server, true: &tls.Config{RootCAs: ca.Pool}},
	}
}

// each runs a test over plain TCP and over TLS.
func each(t *testing.T, run func(t *testing.T, tr transport)) {
	t.Helper()
	for _, tr := range transports(t) {
		t.Run(tr.name, func(t *testing.T) { run(t, tr) })
	}
}

func (tr transport) server(t *testing.T, script func(*testkit.RawConn), options ...testkit.RawOption) *testkit.RawServer {
	t.Helper()
	if tr.tls != nil {
		options = append(options, testkit.RawTLS(tr.tls))
	}
	return testkit.NewRawServer(t, script, options...)
}

// target points at address, under limits that a test can wait for. Fresh is what
// operations of kind none use.
func (tr transport) target(address string) Target {
	scheme := "http"
	if tr.tls != nil {
		scheme = "https"
	}
	return Target{
		UpstreamID: 1, Version: 1, Base: &url.URL{Scheme: scheme, Host: address},
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, TLS: tr.true, Fresh: true,
		Timeouts: upstreams.Timeouts{Connect: 5 * time.Second, TLS: 5 * time.Second, ResponseHeader: 5 * time.Second, Total: 20 * time.Second},
		Limits:   upstreams.Limits{ResponseBytes: 1 << 20, HeaderBytes: 64 << 10},
	}
}

func newSender(t *testing.T) *Sender {
	t.Helper()
	s := NewSender(SenderConfig{Guard: egress.NewGuard(egress.GuardConfig{})})
	t.Cleanup(s.Close)
	return s
}

// names is a resolver that knows a few names. A list of nil never answers.
type names map[string][]string

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	list, known := n[host]
	if !known {
		return nil, fmt.Errorf("no such host: %s", host)
	}
	if list == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	var addrs []netip.Addr
	for _, text := range list {
		addrs = append(addrs, netip.MustParseAddr(text))
	}
	return addrs, nil
}

// payment is a small request with everything that would make net/http send it
// twice.
func payment() WireRequest {
	return WireRequest{
		Method: "POST", Path: "/payments?x=1",
		Headers: []upstreams.Header{{Name: "Content-Type", Value: "application/json"}, {Name: "Idempotency-Key", Value: "key-1"}},
		Body:    []byte(`{"amount":100}`),
	}
}

func large() WireRequest {
	r := payment()
	r.Body = []byte(`"` + strings.Repeat("x", 16<<20) + `"`)
	return r
}

func open() error { return nil }

func soon() time.Time { return time.Now().Add(20 * time.Second) }

func dial(t *testing.T, s *Sender, target Target) *Conn {
	t.Helper()
	c, o, ok := s.Dial(context.Background(), target)
	if !ok {
		t.Fatalf("Dial: %s", describe(o))
	}
	return c
}

// attempt dials and sends.
func attempt(t *testing.T, s *Sender, target Target, r WireRequest) Observation {
	t.Helper()
	return s.Send(context.Background(), dial(t, s, target), r, open, soon())
}

func describe(o Observation) string {
	return fmt.Sprintf("%s, stage %s, category %s, status %d, handed %d of %d, early %v, reused %v, complete %v: %s %v",
		o.Evidence, o.Stage, o.Category, o.Status, o.BytesHandedOver, o.BytesTotal, o.EarlyResponse, o.Reused, o.BodyComplete, o.Detail, o.Addresses)
}

// want is what a test expects of an observation. A zero status expects none.
type want struct {
	evidence outcome.Evidence
	stage    outcome.Stage
	category outcome.Category
	status   int
}

func (w want) check(t *testing.T, o Observation) {
	t.Helper()
	if got := (want{o.Evidence, o.Stage, o.Category, o.Status}); got != w {
		t.Errorf("got %s\nwant %s, stage %s, category %s, status %d", describe(o), w.evidence, w.stage, w.category, w.status)
	}
	if o.Evidence == outcome.EvidenceNotSent && o.BytesHandedOver != 0 {
		t.Errorf("not_sent with %d bytes handed over", o.BytesHandedOver)
	}
	if len(o.Detail) > 310 || (o.Category != outcome.CategoryNone) != (o.Detail != "") && !o.Truncated {
		t.Errorf("detail %q does not fit category %s", o.Detail, o.Category)
	}
}

var (
	received  = want{outcome.EvidenceResponseReceived, outcome.StageDone, outcome.CategoryNone, 200}
	cutOff    = want{outcome.EvidenceSentNoResponse, outcome.StageHeaders, outcome.CategoryConnectionReset, 0}
	unwritten = want{outcome.EvidenceSentNoResponse, outcome.StageWrite, outcome.CategoryWriteFailure, 0}
	truncated = want{outcome.EvidencePartialResponse, outcome.StageBody, outcome.CategoryBodyTruncated, 200}
)

// waitFor waits until a condition holds that other goroutines or the kernel bring
// about.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestSendReceivesTheResponse(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, func(c *testkit.RawConn) {
			c.Serve(func(testkit.RawRequest) string { return testkit.Reply(201, `{"id":"p1"}`) })
		})
		o := attempt(t, newSender(t), tr.target(server.Address()), payment())
		want{outcome.EvidenceResponseReceived, outcome.StageDone, outcome.CategoryNone, 201}.check(t, o)
		if string(o.Body) != `{"id":"p1"}` || !o.BodyComplete || o.BodyBytes != 11 || len(o.BodySHA256) != 32 {
			t.Errorf("body %q, complete %v, %d bytes", o.Body, o.BodyComplete, o.BodyBytes)
		}
		if o.BytesHandedOver != o.BytesTotal || o.BytesTotal != server.Received() {
			t.Errorf("handed over %d of %d, the server got %d", o.BytesHandedOver, o.BytesTotal, server.Received())
		}
		if o.Remote != server.Address() || o.Reused || !strings.HasPrefix(o.Protocol, "HTTP/1.1") || o.Header.Get("Content-Type") != "application/json" {
			t.Errorf("remote %s, reused %v, protocol %s, header %v", o.Remote, o.Reused, o.Protocol, o.Header)
		}
		got := server.Requests()
		if len(got) != 1 || got[0].Target != "/payments?x=1" || string(got[0].Body) != `{"amount":100}` || got[0].Header.Get("Host") != server.Address() {
			t.Errorf("the server got %+v", got)
		}
		if ms := o.Timings.Milliseconds(); ms["connect"] <= 0 || (ms["tls"] > 0) != (tr.tls != nil) {
			t.Errorf("timings %v", ms)
		}
	})
}

// Redirects are answers, not instructions (REDIR-02, REDIR-03).
func TestSendFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
			c.Serve(func(testkit.RawRequest) string {
				return fmt.Sprintf("HTTP/1.1 %d Elsewhere\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", status)
			})
		})
		o := attempt(t, newSender(t), transport{}.target(server.Address()), payment())
		want{outcome.EvidenceResponseReceived, outcome.StageDone, outcome.CategoryNone, status}.check(t, o)
		if n := len(server.Requests()); n != 1 {
			t.Errorf("%d: the server saw %d requests, want 1", status, n)
		}
	}
}

// A proxy in the environment is not one that the profile names (EGRESS-08).
func TestSendIgnoresTheEnvironmentsProxy(t *testing.T) {
	proxy := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://"+proxy.Address())
	}
	server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		c.Serve(func(testkit.RawRequest) string { return testkit.Reply(200, `{}`) })
	}, testkit.RawAddress("127.0.0.9:0"))
	received.check(t, attempt(t, newSender(t), transport{}.target(server.Address()), payment()))
	if proxy.Connections() != 0 {
		t.Errorf("the proxy saw %d connections", proxy.Connections())
	}
}

func TestGate(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		each(t, func(t *testing.T, tr transport) {
			server := tr.server(t, func(c *testkit.RawConn) { c.Drain() })
			s := newSender(t)
			asked := 0
			o := s.Send(context.Background(), dial(t, s, tr.target(server.Address())), payment(), func() error {
				asked++
				return errors.New("the lease has lapsed")
			}, soon())
			want{outcome.EvidenceNotSent, outcome.StageWrite, outcome.CategoryExecutorLost, 0}.check(t, o)
			server.Close()
			if asked != 1 || server.Received() != 0 || o.BytesTotal == 0 {
				t.Errorf("asked %d times, the server got %d bytes, total %d", asked, server.Received(), o.BytesTotal)
			}
		})
	})
	t.Run("asked after the deadline: not at all", func(t *testing.T) {
		server := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() })
		s := newSender(t)
		gate := func() error { t.Error("the gate was asked"); return nil }
		o := s.Send(context.Background(), dial(t, s, transport{}.target(server.Address())), payment(), gate, time.Now())
		want{outcome.EvidenceNotSent, outcome.StageWrite, outcome.CategoryAttemptTimeout, 0}.check(t, o)
	})
	t.Run("panics", func(t *testing.T) {
		ended := make(chan struct{})
		server := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain(); close(ended) })
		s := newSender(t)
		func() {
			defer func() { _ = recover() }()
			s.Send(context.Background(), dial(t, s, transport{}.target(server.Address())), payment(), func() error { panic("broken") }, soon())
			t.Error("Send returned")
		}()
		<-ended
		if server.Received() != 0 {
			t.Errorf("the server got %d bytes", server.Received())
		}
	})
	t.Run("opened once", func(t *testing.T) {
		server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
			c.Serve(func(testkit.RawRequest) string { return testkit.Reply(200, `{}`) })
		})
		s := newSender(t)
		asked := 0
		o := s.Send(context.Background(), dial(t, s, transport{}.target(server.Address())), payment(), func() error { asked++; return nil }, soon())
		received.check(t, o)
		if asked != 1 {
			t.Errorf("asked %d times, want once", asked)
		}
	})
}

func TestAnswerOf(t *testing.T) {
	full := outcome.EvidenceResponseReceived
	tests := []struct {
		name     string
		o        Observation
		judged   outcome.Answer
		expected outcome.Answer
	}{
		{"nothing sent", Observation{Evidence: outcome.EvidenceNotSent}, outcome.AnswerApplied, outcome.AnswerNone},
		{"no response", Observation{Evidence: outcome.EvidenceSentNoResponse}, outcome.AnswerApplied, outcome.AnswerNone},
		{"whole", Observation{Evidence: full, Status: 200}, outcome.AnswerApplied, outcome.AnswerApplied},
		{"partial", Observation{Evidence: outcome.EvidencePartialResponse, Status: 200}, outcome.AnswerApplied, outcome.AnswerApplied},
		{"early 200", Observation{Evidence: full, Status: 200, EarlyResponse: true}, outcome.AnswerApplied, outcome.AnswerUnclear},
		{"early 202", Observation{Evidence: full, Status: 202, EarlyResponse: true}, outcome.AnswerPending, outcome.AnswerUnclear},
		{"early 413 on a new connection", Observation{Evidence: full, Status: 413, EarlyResponse: true}, outcome.AnswerRefused, outcome.AnswerRefused},
		{"early 429 on a new connection", Observation{Evidence: full, Status: 429, EarlyResponse: true}, outcome.AnswerDeclined, outcome.AnswerDeclined},
		{"early 413 on a reused connection", Observation{Evidence: full, Status: 413, EarlyResponse: true, Reused: true}, outcome.AnswerRefused, outcome.AnswerUnclear},
		{"408 on a new connection", Observation{Evidence: full, Status: 408}, outcome.AnswerDeclined, outcome.AnswerDeclined},
		{"408 on a reused connection", Observation{Evidence: full, Status: 408, Reused: true}, outcome.AnswerDeclined, outcome.AnswerUnclear},
		{"422 on a reused connection", Observation{Evidence: full, Status: 422, Reused: true}, outcome.AnswerRefused, outcome.AnswerRefused},
		{"101", Observation{Evidence: full, Status: 101}, outcome.AnswerApplied, outcome.AnswerUnclear},
		{"unclear stays", Observation{Evidence: full, Status: 500}, outcome.AnswerUnclear, outcome.AnswerUnclear},
	}
	for _, tt := range tests {
		if got := AnswerOf(tt.o, upstreams.Judgement{Answer: tt.judged}); got != tt.expected {
			t.Errorf("%s: AnswerOf = %q, want %q", tt.name, got, tt.expected)
		}
	}
}
