package upstreams

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"executor/internal/egress"
	"executor/internal/testkit"
)

func TestTLSConfig(t *testing.T) {
	dir, ca := t.TempDir(), testkit.NewAuthority(t)
	cert, key := testkit.Pair(t, ca.Issue("client.test"))
	for name, content := range map[string][]byte{"ca.pem": ca.PEM, "cert.pem": cert, "key.pem": key, "no.pem": []byte("hello")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	access := NewAccess(egress.NewSecrets(os.Getenv, dir), nil)
	profile := func(scheme string, files TLS) *Profile {
		return &Profile{Base: &url.URL{Scheme: scheme, Host: "upstream.test"}, TLS: files}
	}
	if config, err := access.TLS(profile("http", TLS{})); config != nil || err != nil {
		t.Errorf("http: %v, %v", config, err)
	}
	config, err := access.TLS(profile("https", TLS{CAFile: filepath.Join(dir, "ca.pem"), CertFile: "file:cert.pem", KeyFile: "file:key.pem", ServerName: "other.test"}))
	if err != nil || config.ServerName != "other.test" || config.RootCAs == nil || len(config.Certificates) != 1 {
		t.Errorf("all: %+v, %v", config, err)
	}
	if tokens := tokenTLS(config); tokens.ServerName != "" || tokens.RootCAs == nil || config.ServerName != "other.test" {
		t.Errorf("for tokens: %+v", tokens)
	}
	for _, files := range []TLS{
		{CAFile: "file:none.pem"}, {CAFile: "file:no.pem"}, {CertFile: "file:cert.pem"},
		{CertFile: "file:cert.pem", KeyFile: "file:no.pem"}, {KeyFile: "file:key.pem"}, {CAFile: "file:../ca.pem"},
	} {
		if _, err := access.TLS(profile("https", files)); !errors.Is(err, egress.ErrMissing) {
			t.Errorf("%+v: %v", files, err)
		}
	}
}

func TestCredential(t *testing.T) {
	env := map[string]string{"EXECUTOR_SECRET_A": "alpha", "EXECUTOR_SECRET_LINES": "al\npha", "EXECUTOR_SECRET_U": "user"}
	access := NewAccess(egress.NewSecrets(func(name string) string { return env[name] }, ""), nil)
	tests := []struct {
		auth        Auth
		name, value string
		missing     bool
	}{
		{Auth{Type: AuthNone}, "", "", false},
		{Auth{Type: AuthBearer, Token: "env:EXECUTOR_SECRET_A"}, "Authorization", "Bearer alpha", false},
		{Auth{Type: AuthBasic, Username: "me", Password: "env:EXECUTOR_SECRET_A"}, "Authorization", "Basic bWU6YWxwaGE=", false},
		{Auth{Type: AuthBasic, Username: "env:EXECUTOR_SECRET_U", Password: "env:EXECUTOR_SECRET_A"}, "Authorization", "Basic dXNlcjphbHBoYQ==", false},
		{Auth{Type: AuthHeader, Name: "X-Api-Key", Value: "env:EXECUTOR_SECRET_A"}, "X-Api-Key", "alpha", false},
		{Auth{Type: AuthBearer, Token: "env:EXECUTOR_SECRET_NONE"}, "", "", true},
		{Auth{Type: AuthBasic, Username: "me", Password: "env:EXECUTOR_SECRET_NONE"}, "", "", true},
		{Auth{Type: AuthBasic, Username: "env:EXECUTOR_SECRET_NONE", Password: "env:EXECUTOR_SECRET_A"}, "", "", true},
		{Auth{Type: AuthHeader, Name: "X-Api-Key", Value: "env:EXECUTOR_SECRET_NONE"}, "", "", true},
		{Auth{Type: AuthBearer, Token: "env:EXECUTOR_SECRET_LINES"}, "", "", true},
		{Auth{Type: AuthHeader, Name: "X-Api-Key", Value: "env:EXECUTOR_SECRET_LINES"}, "", "", true},
		{Auth{Type: AuthBasic, Username: "me", Password: "env:EXECUTOR_SECRET_LINES"}, "Authorization", "Basic bWU6YWwKcGhh", false},
		{Auth{Type: AuthOAuth2, ClientID: "me", ClientSecret: "env:EXECUTOR_SECRET_NONE"}, "", "", true},
	}
	for _, tt := range tests {
		c, err := access.Credential(context.Background(), &Profile{Auth: tt.auth}, 1, false)
		if errors.Is(err, egress.ErrMissing) != tt.missing || c.IsToken() {
			t.Errorf("%+v: %v", tt.auth, err)
		}
		if tt.name == "" {
			same(t, "headers", len(c.Headers), 0)
			continue
		}
		same(t, "headers", c.Headers, []Header{{tt.name, tt.value}})
		if len(c.Secrets) == 0 {
			t.Errorf("%+v: nothing to mask", tt.auth)
		}
	}
}
