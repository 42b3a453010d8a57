package upstreams

import (
	"strings"
	"testing"
)

func TestBaseURL(t *testing.T) {
	loopback, private := "egress: {allow: [127.0.0.0/8, '::1/128']}", "egress: {allow: [10.0.0.0/8]}"
	accepted := []struct{ raw, egress, want string }{
		{"https://ledger.example/v2", "", "https://ledger.example/v2"},
		{"https://ledger.example/v2/", "", "https://ledger.example/v2"},
		{"https://ledger.example/", "", "https://ledger.example"},
		{"https://ledger.example:443", "", "https://ledger.example"},
		{"https://ledger.example:8443/a%20b", "", "https://ledger.example:8443/a%20b"},
		{"http://10.1.2.3:80/x", private, "http://10.1.2.3/x"},
		{"http://127.0.0.1:8080", loopback, "http://127.0.0.1:8080"},
		{"http://localhost:8080", loopback, "http://localhost:8080"},
		{"http://[::1]:8080", loopback, "http://[::1]:8080"},
		{"https://8.8.8.8", "", "https://8.8.8.8"},
		{"https://169.254.169.254", "egress: {allow: [169.254.169.254/32]}", "https://169.254.169.254"},
		{"https://xn--caf-dma.example", "", "https://xn--caf-dma.example"},
		{"http://ledger_service:8080", private, "http://ledger_service:8080"},
	}
	for _, tt := range accepted {
		p, err := parseBase(tt.raw, tt.egress)
		if err != nil {
			t.Errorf("%s: %v", tt.raw, err)
		} else if p.Base.String() != tt.want {
			t.Errorf("%s became %s, want %s", tt.raw, p.Base, tt.want)
		}
	}
	refused := []struct{ raw, egress string }{
		{"", ""}, {"ledger.example", ""}, {"//ledger.example", ""}, {"/v2", ""}, {"https:ledger.example", ""}, {"https://", ""},
		{"ftp://ledger.example", ""}, {"HTTPS://ledger.example", ""}, {"http://ledger.example", ""}, {"http://8.8.8.8", ""},
		{"https://user@ledger.example", ""}, {"https://user:secret@ledger.example", ""}, {"https://@ledger.example", ""},
		{"https://ledger.example?", ""}, {"https://ledger.example/?a=b", ""}, {"https://ledger.example#", ""}, {"https://ledger.example/#a", ""},
		{"https://Ledger.example", ""}, {"https://ledger.example.", ""}, {"https://ledger..example", ""}, {"https://-ledger.example", ""}, {"https://café.example", ""},
		{"https://ledger.example:22", ""}, {"https://ledger.example:0", ""}, {"https://ledger.example:65536", ""}, {"https://ledger.example:", ""}, {"https://ledger.example:0443", ""}, {"https://ledger.example:x", ""},
		{"https://2130706433", loopback}, {"https://0x7f000001", loopback}, {"https://0177.0.0.1", loopback}, {"https://127.1", loopback}, {"https://0", loopback},
		{"https://127.0.0.1.", loopback}, {"https://localhost.", loopback}, {"https://[::ffff:127.0.0.1]", loopback}, {"https://[::ffff:7f00:1]", loopback},
		{"https://[0:0:0:0:0:0:0:1]", loopback}, {"https://[fe80::1%25eth0]", loopback}, {"https://[::1", loopback},
		{"https://127.0.0.1", ""}, {"https://localhost", ""}, {"https://ledger.localhost", ""}, {"https://[::]", ""}, {"https://[::1]", ""}, {"https://0.0.0.0", ""},
		{"https://169.254.169.254", ""}, {"https://169.254.169.254", "egress: {allow: [169.254.0.0/16]}"}, {"https://[fd00:ec2::254]", "egress: {allow: ['fd00::/8']}"}, {"https://10.0.0.1", ""}, {"https://100.64.0.1", ""}, {"https://224.0.0.1", ""}, {"https://192.168.1.1", private},
		{"https://ledger.example/../x", ""}, {"https://ledger.example//x", ""}, {"https://ledger.example/%2e%2e/x", ""}, {"https://ledger.example/a%2Fb", ""}, {"https://ledger.example/a b", ""}, {"https://ledger.example/\\x", ""}, {"https://ledger.example/{a}", ""}, {"https://ledger.example/%zz", ""},
	}
	for _, tt := range refused {
		if _, err := parseBase(tt.raw, tt.egress); err == nil {
			t.Errorf("%s was accepted", tt.raw)
		} else if strings.Contains(err.Error(), "user:secret") {
			t.Errorf("%s: the error shows the password", tt.raw)
		}
	}
}

func parseBase(raw, egress string) (*Profile, error) {
	return Parse("test.yaml", []byte("version: 1\nupstream: ledger\nbase_url: '"+raw+"'\n"+egress+"\noperations: {pay: {method: POST, path: /p}}\n"))
}

func TestHeadersOfOthers(t *testing.T) {
	refused := []string{
		"Authorization", "authorization", "Proxy-Authorization", "Proxy-Connection", "Cookie", "Set-Cookie", "Host", "Content-Length", "Content-Type",
		"Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Trailer", "Upgrade", "Expect", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via",
		"X-HTTP-Method-Override", "X-Original-URL", "Accept-Encoding", "X-Api-Key", "Api-Key", "Apikey", "X-Auth-Token", "X-Amz-Security-Token", "X-Secret",
		"X-Vault-Token", "Client-Secret", "X-Password", "", "Bad Name", "Bad:Name", "Bad\nName", "Näme",
	}
	for _, name := range refused {
		if refuseHeader(canonicalHeader(name)) == nil {
			t.Errorf("%q may be set", name)
		}
	}
	for _, name := range []string{"Accept", "Accept-Language", "User-Agent", "X-Request-Id", "Traceparent", "Stripe-Account", "Idempotency-Key", "X-Correlation-Id", "Prefer", "If-Match"} {
		if bad := refuseHeader(canonicalHeader(name)); bad != nil {
			t.Errorf("%q may not be set: %v", name, bad)
		}
	}
}
