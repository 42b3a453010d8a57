package upstreams_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/upstreams"
)

// credentialed is a profile of a tenant that goes to base with auth.
func credentialed(t *testing.T, tenant, base, auth string) *upstreams.Profile {
	t.Helper()
	p, err := upstreams.Parse("ledger.yaml", fmt.Appendf(nil, `version: 1
upstream: ledger
tenant: %s
base_url: %s
auth: %s
operations: {pay: {method: POST, path: /payments}}
`, tenant, base, auth))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCredentialsAreBoundToTheirOrigin: versions are applied one after the other,
// to one upstream.
func TestCredentialsAreBoundToTheirOrigin(t *testing.T) {
	t.Parallel()
	const (
		bearer = "{type: bearer, token: env:EXECUTOR_SECRET_A%s}"
		oauth  = "{type: oauth2_client_credentials, client_id: me, client_secret: env:EXECUTOR_SECRET_O, token_url: '%s'%s}"
	)
	type version struct {
		base, auth string
		applied    bool
	}
	for name, versions := range map[string][]version{
		"a new origin has to be named": {
			{"https://a.example", fmt.Sprintf(bearer, ""), true},
			{"https://a.example/v2", fmt.Sprintf(bearer, ""), true}, // another path
			{"https://b.example", fmt.Sprintf(bearer, ""), false},
			{"https://b.example", fmt.Sprintf(bearer, ", origins: [https://b.example]"), true},
			{"https://b.example/v3", fmt.Sprintf(bearer, ""), true}, // it was named
			{"https://a.example", fmt.Sprintf(bearer, ""), true},    // it was there before
		},
		"scheme and port are part of it": {
			{"https://a.example", fmt.Sprintf(bearer, ""), true},
			{"https://a.example:8443", fmt.Sprintf(bearer, ""), false},
			{"https://a.example:443", fmt.Sprintf(bearer, ""), true},
			{"https://sub.a.example", fmt.Sprintf(bearer, ""), false},
		},
		"another reference names it": {
			{"https://a.example", fmt.Sprintf(bearer, ""), true},
			{"https://b.example", "{type: bearer, token: env:EXECUTOR_SECRET_B}", true},
			{"https://b.example", fmt.Sprintf(bearer, ""), false}, // that one was for a.example
			{"https://b.example", "{type: header, name: X-Key, value: env:EXECUTOR_SECRET_A}", false},
			{"https://b.example", "{type: basic, username: me, password: env:EXECUTOR_SECRET_A}", false},
		},
		"without a credential": {
			{"https://a.example", fmt.Sprintf(bearer, ""), true},
			{"https://b.example", "{type: none}", true},
			{"https://b.example", fmt.Sprintf(bearer, ""), false},
		},
		"tokens": {
			{"https://a.example", fmt.Sprintf(oauth, "https://login.example/token", ""), true},
			{"https://a.example", fmt.Sprintf(oauth, "https://login.example/token2", ""), true},
			{"https://a.example", fmt.Sprintf(oauth, "https://evil.example/token", ""), false},
			{"https://b.example", fmt.Sprintf(oauth, "https://login.example/token", ""), false}, // the token would go there
			{"https://b.example", fmt.Sprintf(oauth, "https://login.example/token", ", origins: [https://b.example, https://login.example]"), true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstreams.NewStore(testkit.Database(t))
			number := 0
			for i, v := range versions {
				_, _, err := s.Apply(t.Context(), credentialed(t, "acme", v.base, v.auth), audit.By{Actor: "ann"})
				var elsewhere *upstreams.CredentialError
				switch {
				case v.applied && err != nil, !v.applied && !errors.As(err, &elsewhere):
					t.Fatalf("version %d, %s %s: %v", i, v.base, v.auth, err)
				case v.applied:
					number++
				case !strings.Contains(err.Error(), "origins: [https://"):
					t.Errorf("version %d: %v does not say what to do", i, err)
				}
				if u, err := s.Get(t.Context(), "acme", "ledger"); err != nil || u.Version != number {
					t.Fatalf("after version %d: version %d, want %d (%v)", i, u.Version, number, err)
				}
			}
		})
	}
}

// TestCredentialsHaveMoreThanOneWayOut: a secret goes to whom TLS takes for the host,
// and one that only notices were signed with goes nowhere, however it is spelled.
func TestCredentialsHaveMoreThanOneWayOut(t *testing.T) {
	t.Parallel()
	const (
		notices = "notices: {verify: {scheme: standard-webhooks, secret: %s}, command: json.data.id, findings: [{when: 'true', finding: applied}]}"
		evil    = "egress: {proxy: 'http://proxy.evil.example:3128'}"
		bearer  = "auth: {type: bearer, token: env:EXECUTOR_SECRET_A}"
	)
	for name, v := range map[string]struct {
		first, then string
		tenant      string
	}{
		"another name in TLS":            {bearer, bearer + "\ntls: {server_name: evil.example}\n" + evil, "acme"},
		"signed notices until now":       {fmt.Sprintf(notices, "env:EXECUTOR_SECRET_A"), bearer, "acme"},
		"signs another tenant's notices": {fmt.Sprintf(notices, "[env:EXECUTOR_SECRET_N, env:EXECUTOR_SECRET_A]"), bearer, "other"},
		"another tenant's, escaped":      {`auth: {type: bearer, token: "env:EXECUTOR_SECRET\x5fA"}`, bearer, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := upstreams.NewStore(testkit.Database(t))
			if _, _, err := s.Apply(t.Context(), described(t, "acme", v.first), audit.By{Actor: "ann"}); err != nil {
				t.Fatal(err)
			}
			var elsewhere *upstreams.CredentialError
			if _, _, err := s.Apply(t.Context(), described(t, v.tenant, v.then), audit.By{Actor: "eve"}); !errors.As(err, &elsewhere) {
				t.Errorf("it was applied: %v", err)
			}
			if _, _, err := s.Apply(t.Context(), described(t, "acme", v.first), audit.By{Actor: "ann"}); err != nil {
				t.Errorf("the same once more: %v", err)
			}
		})
	}
}

// TestAnOlderVersionKeepsItsCredential while commands without an outcome are bound to it.
func TestAnOlderVersionKeepsItsCredential(t *testing.T) {
	t.Parallel()
	pool := testkit.Database(t)
	s := upstreams.NewStore(pool)
	apply := func(tenant, secret string) error {
		_, _, err := s.Apply(t.Context(), described(t, tenant, "auth: {type: bearer, token: "+secret+"}"), audit.By{Actor: "ann"})
		return err
	}
	if err := errors.Join(apply("acme", "env:EXECUTOR_SECRET_A"), apply("acme", "env:EXECUTOR_SECRET_B")); err != nil {
		t.Fatal(err)
	}
	_, err := pool.Exec(t.Context(), `
		INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, created_at, deadline, next_attempt_at)
		SELECT gen_random_uuid(), 'acme', 'k', id, 'pay', 1, 'pending', now(), now(), now() FROM upstreams`)
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []string{
		`state = state`, `state = 'executing', next_attempt_at = NULL`, `state = 'unresolved', outcome = '{}', phase = 'review'`, `state = 'success', phase = NULL`,
	} {
		if _, err := pool.Exec(t.Context(), `UPDATE commands SET `+now); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(now, "executing") {
			_, err := pool.Exec(t.Context(), `
				INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end,
					request, bytes_total, body_sha256)
				SELECT id, 1, tenant, upstream_id, 1, 'one', 1, now(), now(), now(), '{}', 0, '' FROM commands`)
			if err != nil {
				t.Fatal(err)
			}
		} else if _, err := pool.Exec(t.Context(), `DELETE FROM attempts`); err != nil {
			t.Fatal(err)
		}
		var elsewhere *upstreams.CredentialError
		if err := apply("other", "env:EXECUTOR_SECRET_A"); errors.As(err, &elsewhere) == strings.Contains(now, "success") {
			t.Errorf("%s: %v", now, err)
		}
	}
}

// TestOneSenderOfNoticesForTwoTenants: to verify by the same secret sends it nowhere.
func TestOneSenderOfNoticesForTwoTenants(t *testing.T) {
	const notices = "notices: {verify: {scheme: standard-webhooks, secret: env:EXECUTOR_SECRET_N}, command: json.data.id, findings: [{when: 'true', finding: applied}]}"
	s := upstreams.NewStore(testkit.Database(t))
	for _, tenant := range []string{"acme", "other"} {
		if _, _, err := s.Apply(t.Context(), described(t, tenant, notices), audit.By{Actor: "ann"}); err != nil {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}

// described is a profile of a tenant with lines of its own.
func described(t *testing.T, tenant, lines string) *upstreams.Profile {
	t.Helper()
	p, err := upstreams.Parse("ledger.yaml", fmt.Appendf(nil, `version: 1
upstream: ledger
tenant: %s
base_url: https://a.example
%s
operations: {pay: {method: POST, path: /payments}}
`, tenant, lines))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOriginsHaveToCoverTheProfile: whoever names origins names all.
func TestOriginsHaveToCoverTheProfile(t *testing.T) {
	for text, good := range map[string]bool{
		"base_url: https://a.example/v1\nauth: {type: bearer, token: env:EXECUTOR_SECRET_A, origins: [https://a.example]}":                     true,
		"base_url: https://a.example/v1\nauth: {type: bearer, token: env:EXECUTOR_SECRET_A, origins: [https://b.example]}":                     false,
		"base_url: https://a.example:8443\nauth: {type: bearer, token: env:EXECUTOR_SECRET_A, origins: [https://a.example]}":                   false,
		"base_url: https://a.example\nauth: {type: bearer, token: env:EXECUTOR_SECRET_A, origins: [https://a.example/v1]}":                     false,
		"base_url: https://a.example\nauth: {type: none, origins: [https://a.example]}":                                                        false,
		"base_url: https://a.example\nauth: {type: bearer, token: env:EXECUTOR_SECRET_A, origins: ['https://a.example@b.example']}":            false,
		"base_url: https://a.example\nauth: {type: bearer, token: env:EXECUTOR_SECRET_A, origins: ['https://b.example', 'https://a.example']}": true,
	} {
		_, err := upstreams.Parse("test.yaml", []byte("version: 1\nupstream: up\n"+text+"\noperations: {pay: {method: POST, path: /p}}\n"))
		if (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestACredentialBelongsToOneTenant, of two that name it at once too.
func TestACredentialBelongsToOneTenant(t *testing.T) {
	t.Parallel()
	s := upstreams.NewStore(testkit.Database(t))
	var (
		applied atomic.Int32
		trying  sync.WaitGroup
	)
	for i := range 6 {
		p := credentialed(t, fmt.Sprintf("tenant-%d", i), "https://a.example", "{type: bearer, token: env:EXECUTOR_SECRET_A, origins: [https://a.example]}")
		trying.Go(func() {
			_, _, err := s.Apply(context.Background(), p, audit.By{Actor: "ann"})
			var elsewhere *upstreams.CredentialError
			if err == nil {
				applied.Add(1)
			} else if !errors.As(err, &elsewhere) {
				t.Error(err)
			}
		})
	}
	trying.Wait()
	if n := applied.Load(); n != 1 {
		t.Errorf("%d tenants have the credential", n)
	}
	for _, auth := range []string{"{type: bearer, token: env:EXECUTOR_SECRET_AA}", "{type: none}"} { // a longer name is another one
		if _, _, err := s.Apply(t.Context(), credentialed(t, "somebody", "https://a.example", auth), audit.By{Actor: "ann"}); err != nil {
			t.Errorf("%s: %v", auth, err)
		}
	}
}
