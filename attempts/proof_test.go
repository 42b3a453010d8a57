package attempts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"executor/internal/testkit"
	"executor/outcome"
	"executor/upstreams"
)

// TestProofTable goes through the stages at which an attempt can fail and holds
// the evidence against what can be proven there: that nothing was sent, that
// nothing is known, or what the answer was. Waiting for a permit (row 2) never
// reaches the wire; rows 26 to 32 are HTTP/2's; 33 and 34 are about processes.
func TestProofTable(t *testing.T) {
	for _, row := range []struct {
		name string
		test func(*testing.T)
	}{
		{"row_01_invalid_request", row01InvalidRequest},
		{"row_03_dns", row03DNS},
		{"row_04_address_policy", row04AddressPolicy},
		{"row_05_connect_refused", row05ConnectRefused},
		{"row_06_connect_timeout", row06ConnectTimeout},
		{"row_07_cancelled_while_dialling", row07CancelledWhileDialling},
		{"row_08_proxy_connect", row08Proxy},
		{"row_09_tls_handshake", row09Handshake},
		{"row_10_client_certificate_refused_after_send", row10ClientCertificate},
		{"row_11_peer_closed_before_first_write", row11ClosedBefore},
		{"row_12_write_took_nothing", row12WriteTookNothing},
		{"row_13_reset_within_the_request", row13ResetMidWrite},
		{"row_14_end_after_the_request", row14EndAfter},
		{"row_15_reset_after_the_request", row15ResetAfter},
		{"row_16_header_timeout", row16HeaderTimeout},
		{"row_17_deadline_while_waiting", row17Deadline},
		{"row_18_head_cut_or_malformed", row18Head},
		{"row_19_interim_then_death", row19Interim},
		{"row_20_final_status_without_the_body", row20EarlyRefusal},
		{"row_21_framed_body_cut", row21BodyCut},
		{"row_22_body_that_ends_with_the_connection", row22OpenEnd},
		{"row_23_response_before_the_whole_request", row23Early},
		{"row_24_leftover_response", row24Leftover},
		{"row_25_statuses_made_on_the_way", row25Statuses},
	} {
		t.Run(row.name, row.test)
	}
}

func row01InvalidRequest(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, func(c *testkit.RawConn) { c.Drain() })
		s := newSender(t)
		for name, spoil := range map[string]func(*WireRequest){
			"method":    func(r *WireRequest) { r.Method = "PO ST" },
			"tunnel":    func(r *WireRequest) { r.Method = "CONNECT" },
			"path":      func(r *WireRequest) { r.Path = "/a b" },
			"injection": func(r *WireRequest) { r.Path = "/a HTTP/1.1\r\nX: y" },
			"name":      func(r *WireRequest) { r.Headers = append(r.Headers, upstreams.Header{Name: "X Y", Value: "1"}) },
			"value":     func(r *WireRequest) { r.Headers = append(r.Headers, upstreams.Header{Name: "X", Value: "1\r\nY: 2"}) },
			"framing": func(r *WireRequest) {
				r.Headers = append(r.Headers, upstreams.Header{Name: "transfer-encoding", Value: "chunked"})
			},
			"expect": func(r *WireRequest) {
				r.Headers = append(r.Headers, upstreams.Header{Name: "Expect", Value: "100-continue"})
			},
			"hop": func(r *WireRequest) {
				r.Headers = append(r.Headers, upstreams.Header{Name: "Proxy-Authorization", Value: "x"})
			},
			"host": func(r *WireRequest) { r.Host = "a/b" },
		} {
			r := payment()
			spoil(&r)
			o := s.Send(context.Background(), dial(t, s, tr.target(server.Address())), r, open, soon())
			want{outcome.EvidenceNotSent, outcome.StageAdmission, outcome.CategoryRequestInvalid, 0}.check(t, o)
			if _, err := Encode(r, tr.target(server.Address())); !errors.Is(err, ErrRequestInvalid) {
				t.Errorf("%s: Encode = %v, want ErrRequestInvalid", name, err)
			}
		}
		server.Close()
		if server.Received() != 0 {
			t.Errorf("the server got %d bytes", server.Received())
		}
	})
}

func row03DNS(t *testing.T) {
	s := NewSender(SenderConfig{Guard: newSender(t).guard, Resolver: names{"silent.test": nil, "empty.test": {}}})
	for _, host := range []string{"unknown.test", "silent.test", "empty.test"} {
		target := transport{}.target(host + ":80")
		target.Timeouts.Connect = 50 * time.Millisecond
		_, o, ok := s.Dial(context.Background(), target)
		if ok {
			t.Fatalf("%s: dialled", host)
		}
		want{outcome.EvidenceNotSent, outcome.StageDNS, outcome.CategoryDNSFailure, 0}.check(t, o)
	}
}

func row04AddressPolicy(t *testing.T) {
	trap := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() })
	port := fmt.Sprint(trap.Port())
	resolver := names{"mixed.test": {"127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1"}, "inside.test": {"10.0.0.1"}}
	s := NewSender(SenderConfig{Guard: newSender(t).guard, Resolver: resolver})
	forbidden := want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryAddressForbidden, 0}
	for host, listed := range map[string]int{"mixed.test": 2, "inside.test": 1, "169.254.169.254": 1, "[::1]": 1, "[::ffff:10.1.1.1]": 1, "0.0.0.0": 1} {
		_, o, ok := s.Dial(context.Background(), transport{}.target(host+":"+port))
		if ok {
			t.Fatalf("%s: dialled", host)
		}
		forbidden.check(t, o)
		if len(o.Addresses) != listed || !o.Category.Permanent() {
			t.Errorf("%s: addresses %v, want %d", host, o.Addresses, listed)
		}
	}
	if _, o, ok := NewSender(SenderConfig{}).Dial(context.Background(), transport{}.target(trap.Address())); ok || o.Category != outcome.CategoryAddressForbidden {
		t.Errorf("without a guard: dialled %v, %s", ok, describe(o))
	}
	if trap.Connections() != 0 {
		t.Errorf("the trap saw %d connections", trap.Connections())
	}
}

func refusedAddress(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func row05ConnectRefused(t *testing.T) {
	address := refusedAddress(t, "127.0.0.1")
	_, o, ok := newSender(t).Dial(context.Background(), transport{}.target(address))
	if ok {
		t.Fatal("dialled")
	}
	want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryConnectRefused, 0}.check(t, o)
	if len(o.Addresses) != 1 || o.Addresses[0].Address != address || o.Addresses[0].Category != outcome.CategoryConnectRefused {
		t.Errorf("addresses %v", o.Addresses)
	}
}

func row06ConnectTimeout(t *testing.T) {
	target := transport{}.target(testkit.BlackHole(t))
	target.Timeouts.Connect = 100 * time.Millisecond
	_, o, ok := newSender(t).Dial(context.Background(), target)
	if ok {
		t.Fatal("dialled")
	}
	want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryConnectTimeout, 0}.check(t, o)
}

func row07CancelledWhileDialling(t *testing.T) {
	target := transport{}.target(testkit.BlackHole(t))
	for _, end := range []func() (context.Context, context.CancelFunc){
		func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 50*time.Millisecond)
		},
		func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		},
	} {
		ctx, cancel := end()
		_, o, ok := newSender(t).Dial(ctx, target)
		cancel()
		if ok {
			t.Fatal("dialled")
		}
		want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryConnectTimeout, 0}.check(t, o)
	}
}

func row08Proxy(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		origin := tr.server(t, func(c *testkit.RawConn) {
			c.Serve(func(testkit.RawRequest) string { return testkit.Reply(200, `{}`) })
		})
		scripts := map[string]func(*testkit.RawConn){
			"refuses":      func(c *testkit.RawConn) { c.ReadRequest(); c.Send("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n") },
			"bad gateway":  func(c *testkit.RawConn) { c.ReadRequest(); c.Send(testkit.Reply(502, `{}`)) },
			"resets":       func(c *testkit.RawConn) { c.ReadRequest(); c.Reset() },
			"talks on":     func(c *testkit.RawConn) { c.ReadRequest(); c.Send("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n") },
			"is no proxy":  func(c *testkit.RawConn) { c.ReadRequest(); c.Send("SSH-2.0-OpenSSH\r\n") },
			"says nothing": func(c *testkit.RawConn) { c.Drain() },
		}
		for name, script := range scripts {
			proxy := testkit.NewRawServer(t, script)
			target := tr.target(origin.Address())
			target.Proxy = "http://" + proxy.Address()
			if name == "says nothing" {
				target.Timeouts.Connect = 300 * time.Millisecond
			}
			_, o, ok := newSender(t).Dial(context.Background(), target)
			if ok {
				t.Fatalf("%s: dialled", name)
			}
			want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryConnectFailure, 0}.check(t, o)
		}
		if origin.Connections() != 0 {
			t.Errorf("the origin saw %d connections", origin.Connections())
		}

		ca := testkit.NewAuthority(t)
		proxies := map[string]*testkit.RawServer{
			"http://":  testkit.NewRawServer(t, relay),
			"https://": testkit.NewRawServer(t, relay, testkit.RawTLS(&tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1")}})),
		}
		for scheme, proxy := range proxies {
			target := tr.shared(origin.Address())
			target.Proxy, target.TLS = scheme+proxy.Address(), bothTrusted(tr, ca)
			s, before := newSender(t), len(origin.Requests())
			for n := range 2 {
				o := attempt(t, s, target, payment())
				received.check(t, o)
				if o.Remote != proxy.Address() || o.Reused != (n == 1) {
					t.Errorf("%s remote %s, reused %v", scheme, o.Remote, o.Reused)
				}
			}
			if got := proxy.Requests(); len(got) != 1 || got[0].Method != "CONNECT" || got[0].Target != origin.Address() || got[0].Header.Get("Idempotency-Key") != "" {
				t.Errorf("%s the proxy got %+v", scheme, got)
			}
			if n := len(origin.Requests()) - before; n != 2 {
				t.Errorf("%s the origin saw %d requests, want 2", scheme, n)
			}
		}
		target := tr.target(origin.Address())
		target.Proxy = "https://" + proxies["https://"].Address()
		_, o, _ := newSender(t).Dial(context.Background(), target)
		want{outcome.EvidenceNotSent, outcome.StageTLS, outcome.CategoryCertificateInvalid, 0}.check(t, o)
	})
	t.Run("a profile that names nonsense", func(t *testing.T) {
		for _, text := range []string{"ftp://p:1", "http://u:p@h:1", "p:1", "http://h/x"} {
			target := transport{}.target("127.0.0.1:1")
			target.Proxy = text
			_, o, _ := newSender(t).Dial(context.Background(), target)
			want{outcome.EvidenceNotSent, outcome.StageAdmission, outcome.CategoryProfileRejected, 0}.check(t, o)
		}
	})
	t.Run("a forbidden target behind a proxy", func(t *testing.T) {
		proxy := testkit.NewRawServer(t, relay)
		target := transport{}.target("169.254.169.254:80")
		target.Proxy = "http://" + proxy.Address()
		_, o, _ := newSender(t).Dial(context.Background(), target)
		want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryAddressForbidden, 0}.check(t, o)
		if proxy.Connections() != 0 {
			t.Error("the proxy was asked")
		}
	})
}

// bothTrusted is a client's TLS for an origin and a proxy of two authorities.
func bothTrusted(tr transport, proxy *testkit.Authority) *tls.Config {
	config := &tls.Config{RootCAs: proxy.Pool}
	if tr.true != nil {
		config.RootCAs = tr.true.RootCAs.Clone()
		config.RootCAs.AppendCertsFromPEM(proxy.PEM)
	}
	return config
}

// relay is an honest proxy.
func relay(c *testkit.RawConn) {
	req, ok := c.ReadRequest()
	if !ok {
		return
	}
	out, err := net.Dial("tcp", req.Target)
	if err != nil {
		return
	}
	c.Send("HTTP/1.1 200 Connected\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(out, c); _ = out.(*net.TCPConn).CloseWrite() })
	_, _ = io.Copy(c.Conn, out)
	_ = c.TCP.CloseWrite()
	both.Wait()
	_ = out.Close()
}

func row09Handshake(t *testing.T) {
	ca, stranger := testkit.NewAuthority(t), testkit.NewAuthority(t)
	good := ca.Issue("127.0.0.1")
	tests := []struct {
		name     string
		config   *tls.Config
		plain    func(*testkit.RawConn) // instead of TLS
		category outcome.Category
	}{
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{stranger.Issue("127.0.0.1")}}, nil, outcome.CategoryCertificateInvalid},
		{"other name", &tls.Config{Certificates: []tls.Certificate{ca.Issue("other.test")}}, nil, outcome.CategoryCertificateInvalid},
		{"expired", &tls.Config{Certificates: []tls.Certificate{ca.IssueUntil(time.Now().Add(-time.Minute), "127.0.0.1")}}, nil, outcome.CategoryCertificateInvalid},
		{"old version", &tls.Config{Certificates: []tls.Certificate{good}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, nil, outcome.CategoryTLSFailure},
		{"no HTTP/1.1", &tls.Config{Certificates: []tls.Certificate{good}, NextProtos: []string{"imap"}}, nil, outcome.CategoryTLSFailure},
		{"client certificate, TLS 1.2", &tls.Config{Certificates: []tls.Certificate{good}, MaxVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}, nil, outcome.CategoryTLSFailure},
		{"no TLS at all", nil, func(c *testkit.RawConn) { c.Send(testkit.Reply(400, `{}`)); c.Drain() }, outcome.CategoryTLSFailure},
		{"end", nil, func(*testkit.RawConn) {}, outcome.CategoryTLSFailure},
		{"reset", nil, func(c *testkit.RawConn) { c.ReadN(1); c.Reset() }, outcome.CategoryTLSFailure},
		{"silence", nil, func(c *testkit.RawConn) { c.Drain() }, outcome.CategoryTLSFailure},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := transport{tls: &tls.Config{}, true: &tls.Config{RootCAs: ca.Pool}}
			script, options := tt.plain, []testkit.RawOption(nil)
			if tt.config != nil {
				script, options = func(*testkit.RawConn) { t.Error("the server completed the handshake") }, []testkit.RawOption{testkit.RawTLS(tt.config)}
			}
			server := testkit.NewRawServer(t, script, options...)
			target := tr.target(server.Address())
			if tt.name == "silence" {
				target.Timeouts.TLS = 50 * time.Millisecond
			}
			_, o, ok := newSender(t).Dial(context.Background(), target)
			if ok {
				t.Fatal("dialled")
			}
			want{outcome.EvidenceNotSent, outcome.StageTLS, tt.category, 0}.check(t, o)
			if len(o.Addresses) != 1 || o.Addresses[0].Category != tt.category {
				t.Errorf("addresses %v", o.Addresses)
			}
		})
	}
}
