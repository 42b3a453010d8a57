package attempts

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"executor/internal/testkit"
	"executor/upstreams"
)

func TestEncode(t *testing.T) {
	base := &url.URL{Scheme: "https", Host: "upstream.test:8443"}
	tests := []struct {
		name   string
		r      WireRequest
		target Target
		want   string
	}{
		{"post, fresh", payment(), Target{Base: base, Fresh: true},
			"POST /payments?x=1 HTTP/1.1\r\nHost: upstream.test:8443\r\nUser-Agent: executor/1\r\nContent-Type: application/json\r\n" +
				"Idempotency-Key: key-1\r\nAccept-Encoding: identity\r\nContent-Length: 14\r\nConnection: close\r\n\r\n"},
		{"get", WireRequest{Method: "GET", Path: "/"}, Target{Base: base},
			"GET / HTTP/1.1\r\nHost: upstream.test:8443\r\nUser-Agent: executor/1\r\nAccept-Encoding: identity\r\n\r\n"},
		{"empty put", WireRequest{Method: "PUT", Path: "/a"}, Target{Base: base},
			"PUT /a HTTP/1.1\r\nHost: upstream.test:8443\r\nUser-Agent: executor/1\r\nAccept-Encoding: identity\r\nContent-Length: 0\r\n\r\n"},
		{"own names and host", WireRequest{Method: "GET", Path: "/a", Host: "h", Headers: []upstreams.Header{
			{Name: "user-agent", Value: "mine"}, {Name: "accept-encoding", Value: "gzip"}, {Name: "X", Value: "a\tb\xc3\xa9"}}}, Target{Base: base},
			"GET /a HTTP/1.1\r\nHost: h\r\nuser-agent: mine\r\naccept-encoding: gzip\r\nX: a\tb\xc3\xa9\r\n\r\n"},
	}
	for _, tt := range tests {
		got, err := Encode(tt.r, tt.target)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: Encode = %q, %v\nwant %q", tt.name, got, err, tt.want)
		}
	}
}

func TestTLSConfig(t *testing.T) {
	dir, ca := t.TempDir(), testkit.NewAuthority(t)
	cert, key := testkit.Pair(t, ca.Issue("client.test"))
	for name, content := range map[string][]byte{"ca.pem": ca.PEM, "cert.pem": cert, "key.pem": key, "no.pem": []byte("hello")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) }
	profile := func(scheme string, files upstreams.TLS) *upstreams.Profile {
		return &upstreams.Profile{Base: &url.URL{Scheme: scheme, Host: "upstream.test"}, TLS: files}
	}
	if config, err := TLSConfig(profile("http", upstreams.TLS{}), read); config != nil || err != nil {
		t.Errorf("http: %v, %v", config, err)
	}
	config, err := TLSConfig(profile("https", upstreams.TLS{CAFile: "ca.pem", CertFile: "cert.pem", KeyFile: "key.pem", ServerName: "other.test"}), read)
	if err != nil || config.ServerName != "other.test" || config.RootCAs == nil || len(config.Certificates) != 1 {
		t.Errorf("all: %+v, %v", config, err)
	}
	for _, files := range []upstreams.TLS{{CAFile: "none.pem"}, {CAFile: "no.pem"}, {CertFile: "cert.pem"}, {CertFile: "cert.pem", KeyFile: "no.pem"}, {KeyFile: "key.pem"}} {
		if _, err := TLSConfig(profile("https", files), read); err == nil {
			t.Errorf("%+v: no error", files)
		}
	}
	strict := secured(nil, "upstream.test.")
	if strict.ServerName != "upstream.test" || len(strict.NextProtos) != 1 || strict.NextProtos[0] != "http/1.1" || strict.InsecureSkipVerify {
		t.Errorf("secured: %+v", strict)
	}
}
