//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"executor/internal/testkit"
)

var onLoopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// proxied is a client that goes through a proxy on loopback.
func proxied(scheme string, proxy *testkit.RawServer, config *tls.Config) *Client {
	return NewClient(ClientConfig{
		Dialer: NewDialer(NewGuard(GuardConfig{}), nil), Allow: onLoopback, TLS: config, Connect: time.Second, Handshake: 5 * time.Second,
		Header: 5 * time.Second, HeaderBytes: 64 << 10, Proxy: &url.URL{Scheme: scheme, Host: proxy.Address()},
	})
}

// relaying is an honest proxy; wire gets what passes through it after CONNECT.
func relaying(wire *strings.Builder) func(*testkit.RawConn) {
	return func(c *testkit.RawConn) {
		q, ok := c.ReadRequest()
		if !ok {
			return
		}
		far, err := net.Dial("tcp", q.Target)
		if err != nil {
			return
		}
		defer far.Close()
		c.Send("HTTP/1.1 200 Connected\r\n\r\n")
		go func() { _, _ = io.Copy(c.Conn, far); _ = c.TCP.Close() }()
		_, _ = io.Copy(io.MultiWriter(far, wire), c)
	}
}

// TestAProxyIsAskedForATunnel, for http and https, by http and https, and sees no
// credential of an encrypted request, nor our certificate.
func TestAProxyIsAskedForATunnel(t *testing.T) {
	ca := testkit.NewAuthority(t)
	certificate := ca.Issue("127.0.0.1")
	ours := &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Issue("client.test")}}
	for _, target := range []string{"http", "https"} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(target+" through "+scheme, func(t *testing.T) {
				server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
					c.Serve(func(testkit.RawRequest) string { return testkit.Reply(200, `{}`) })
				}, secure(target, &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert})...)
				var wire strings.Builder
				shown := 0
				proxy := testkit.NewRawServer(t, relaying(&wire), secure(scheme, &tls.Config{
					Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert,
					VerifyConnection: func(s tls.ConnectionState) error { shown += len(s.PeerCertificates); return nil },
				})...)
				r, _ := http.NewRequest("GET", target+"://"+server.Address()+"/payments?x=1", nil)
				r.Header.Set("Authorization", "Bearer the-credential")
				answer, err := proxied(scheme, proxy, ours).Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
				proxy.Close()
				asked, got := proxy.Requests(), server.Requests()
				if len(asked) != 1 || asked[0].Method != "CONNECT" || asked[0].Target != server.Address() || asked[0].Header.Get("Authorization") != "" {
					t.Errorf("the proxy was asked %+v", asked)
				}
				if len(got) != 1 || got[0].Target != "/payments?x=1" || got[0].Header.Get("Authorization") != "Bearer the-credential" {
					t.Errorf("the server got %+v", got)
				}
				if seen := strings.Contains(wire.String(), "the-credential"); seen != (target == "http") || shown != 0 {
					t.Errorf("the proxy saw the credential: %v, certificates of ours: %d", seen, shown)
				}
			})
		}
	}
}

func secure(scheme string, config *tls.Config) []testkit.RawOption {
	if scheme == "http" {
		return nil
	}
	return []testkit.RawOption{testkit.RawTLS(config)}
}

// TestABadProxyEndsTheRequest in time and memory, whatever it answers.
func TestABadProxyEndsTheRequest(t *testing.T) {
	for name, script := range map[string]func(*testkit.RawConn){
		"refuses": func(c *testkit.RawConn) { c.ReadRequest(); c.Send(testkit.Reply(407, `{}`)) },
		"redirects": func(c *testkit.RawConn) {
			c.ReadRequest()
			c.Send("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n\r\n")
		},
		"says more":        func(c *testkit.RawConn) { c.ReadRequest(); c.Send("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n") },
		"is silent":        func(c *testkit.RawConn) { c.Drain() },
		"speaks something": func(c *testkit.RawConn) { c.Send("SSH-2.0-OpenSSH\r\n"); c.Drain() },
		"has an endless head": func(c *testkit.RawConn) {
			c.ReadRequest()
			c.Send("HTTP/1.1 200 OK\r\n")
			endless(c, strings.Repeat("A: b\r\n", 100))
		},
		"has an endless value": func(c *testkit.RawConn) {
			c.ReadRequest()
			c.Send("HTTP/1.1 200 OK\r\nA: ")
			endless(c, strings.Repeat("a", 1000))
		},
		"drips": func(c *testkit.RawConn) {
			c.ReadRequest()
			c.Send("HTTP/1.1 200 OK\r\nA: ")
			for range 100 {
				if _, err := c.Write([]byte("a")); err != nil {
					return
				}
				<-time.After(50 * time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := testkit.NewRawServer(t, script)
			r, _ := http.NewRequest("GET", "http://upstream.example/", nil)
			if answer, err := proxied("http", proxy, nil).Do(r); err == nil {
				t.Errorf("answered %d", answer.StatusCode)
			} else if !strings.HasPrefix(err.Error(), "proxy: ") {
				t.Errorf("%v does not name the proxy", err)
			}
			if proxy.Connections() != 1 {
				t.Errorf("%d connections", proxy.Connections())
			}
		})
	}
}

func endless(c *testkit.RawConn, text string) {
	for range 10_000 {
		if _, err := c.Write([]byte(text)); err != nil {
			return
		}
	}
}

// TestAForbiddenAddressIsForbiddenThroughAProxyToo, as far as we see it.
func TestAForbiddenAddressIsForbiddenThroughAProxyToo(t *testing.T) {
	proxy := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() })
	for _, host := range []string{"169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:10.0.0.1]"} {
		r, _ := http.NewRequest("GET", "http://"+host+"/", nil)
		var forbidden *Forbidden
		if _, err := proxied("http", proxy, nil).Do(r); !errors.As(err, &forbidden) {
			t.Errorf("%s: %v", host, err)
		}
	}
	if proxy.Connections() != 0 {
		t.Errorf("the proxy saw %d connections", proxy.Connections())
	}
}

// TestTokensComeThroughTheProxy of the upstream, and never in clear.
func TestTokensComeThroughTheProxy(t *testing.T) {
	ca := testkit.NewAuthority(t)
	issuer := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		c.Serve(func(testkit.RawRequest) string { return testkit.Reply(200, `{"access_token": "t0ken"}`) })
	}, testkit.RawTLS(&tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1")}}))
	var wire strings.Builder
	proxy := testkit.NewRawServer(t, relaying(&wire))
	tokens := NewTokens(TokensConfig{Guard: NewGuard(GuardConfig{}), FailureHold: -1})
	request := TokenRequest{
		URL: "https://" + issuer.Address() + "/token", ClientID: NewSecret("client"), ClientSecret: NewSecret("the-client-secret"),
		Allow: onLoopback, Proxy: "http://" + proxy.Address(), TLS: &tls.Config{RootCAs: ca.Pool},
	}
	if token, err := tokens.Token(t.Context(), request); err != nil || token.Reveal() != "t0ken" {
		t.Fatalf("%v", err)
	}
	request.URL = "http://" + issuer.Address() + "/token"
	if _, err := tokens.Token(t.Context(), request); err == nil || !strings.Contains(err.Error(), "plain http") {
		t.Errorf("in clear: %v", err)
	}
	proxy.Close()
	if len(proxy.Requests()) != 2 || strings.Contains(wire.String(), "the-client-secret") || strings.Contains(wire.String(), "POST") {
		t.Errorf("the proxy saw %d requests and %q", len(proxy.Requests()), wire.String())
	}
}
