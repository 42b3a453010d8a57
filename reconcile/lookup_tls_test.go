//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package reconcile

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"executor/internal/egress"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/upstreams"
)

// secretFiles is a folder with an authority, and a certificate of ours with its key.
func secretFiles(t *testing.T, ca *testkit.Authority) string {
	t.Helper()
	dir := t.TempDir()
	cert, key := testkit.Pair(t, ca.Issue("client.test"))
	for name, content := range map[string][]byte{"ca.pem": ca.PEM, "cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestLookupsAndTokensShowTheUpstreamsCertificate, and trust whom its profile
// trusts: the server is upstream and token endpoint in one and wants to see it.
func TestLookupsAndTokensShowTheUpstreamsCertificate(t *testing.T) {
	ca, stranger := testkit.NewAuthority(t), testkit.NewAuthority(t)
	dir := secretFiles(t, ca)
	const (
		bearer = "{type: bearer, token: env:EXECUTOR_SECRET_A}"
		oauth  = "{type: oauth2_client_credentials, token_url: 'https://%s/token', client_id: me, client_secret: env:EXECUTOR_SECRET_A}"
		full   = "{ca_file: file:ca.pem, cert_file: file:cert.pem, key_file: file:key.pem}"
	)
	wants := func(from *testkit.Authority, newest uint16) *tls.Config {
		return &tls.Config{
			Certificates: []tls.Certificate{from.Issue("127.0.0.1")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool,
			MinVersion: tls.VersionTLS10, MaxVersion: newest,
		}
	}
	for _, tt := range []struct {
		name, auth, tls string
		server          *tls.Config
		category        outcome.Category
		requests        int
	}{
		{"a lookup", bearer, full, wants(ca, 0), outcome.CategoryNone, 1},
		{"a lookup with a token", oauth, full, wants(ca, 0), outcome.CategoryNone, 2},
		{"without our certificate", bearer, "{ca_file: file:ca.pem}", wants(ca, tls.VersionTLS12), outcome.CategoryTLSFailure, 0},
		{"a token without our certificate", oauth, "{ca_file: file:ca.pem}", wants(ca, tls.VersionTLS12), outcome.CategoryAuthFailure, 0},
		{"another authority", bearer, full, wants(stranger, 0), outcome.CategoryCertificateInvalid, 0},
		{"a token from another authority", oauth, full, wants(stranger, 0), outcome.CategoryAuthFailure, 0},
		{"no authority named", bearer, "{cert_file: file:cert.pem, key_file: file:key.pem}", wants(ca, 0), outcome.CategoryCertificateInvalid, 0},
		{"another name", bearer, "{ca_file: file:ca.pem, cert_file: file:cert.pem, key_file: file:key.pem, server_name: other.test}", wants(ca, 0), outcome.CategoryCertificateInvalid, 0},
		{"TLS 1.1", bearer, full, wants(ca, tls.VersionTLS11), outcome.CategoryTLSFailure, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
				c.Serve(func(testkit.RawRequest) string { return testkit.Reply(200, `{"access_token": "t0ken"}`) })
			}, testkit.RawTLS(tt.server))
			auth := tt.auth
			if auth == oauth {
				auth = fmt.Sprintf(oauth, server.Address())
			}
			q, access := secureInquiry(t, dir, server.Address(), auth, tt.tls)
			r := looker{dialer: egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), nil), access: access, hop: "0123abc"}.ask(t.Context(), q)
			if r.category != tt.category {
				t.Errorf("%s: %s", r.category, r.detail)
			}
			got := server.Requests()
			if len(got) != tt.requests {
				t.Fatalf("%d requests: %+v", len(got), got)
			}
			if n := tt.requests; n > 0 && (got[n-1].Header.Get("Authorization") == "" || got[n-1].Header.Get(egress.HopHeader) != "0123abc") {
				t.Errorf("the question was %+v", got[n-1])
			}
		})
	}
}

func secureInquiry(t *testing.T, dir, address, auth, tls string) (inquiry, *upstreams.Access) {
	t.Helper()
	p, err := upstreams.Parse("test.yaml", fmt.Appendf(nil, `version: 1
upstream: up
base_url: https://%s
egress: {allow: [127.0.0.0/8]}
auth: %s
tls: %s
timeouts: {connect: 5s, tls: 5s, response_header: 5s, total: 10s}
operations: {pay: {method: POST, path: /payments}}
`, address, auth, tls))
	if err != nil {
		t.Fatal(err)
	}
	guard := egress.NewGuard(egress.GuardConfig{})
	access := upstreams.NewAccess(egress.NewSecrets(func(string) string { return "the-secret-of-lookups" }, dir), egress.NewTokens(egress.TokensConfig{Guard: guard}))
	o, _ := p.Operation("pay")
	return inquiry{
		upstreamID: 1, profile: p, operation: o, limits: p.Limits, hold: hold{until: time.Now().Add(time.Hour)},
		request: upstreams.Request{Method: "GET", Path: "/payments"},
	}, access
}
