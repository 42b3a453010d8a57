package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a time that only the test moves.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.now.Load()) }
func (c *clock) Advance(d time.Duration) { c.now.Add(int64(d)) }

// issuer is a token endpoint that numbers its tokens.
type issuer struct {
	*httptest.Server
	issued atomic.Int64
}

func newIssuer(t *testing.T, answer http.HandlerFunc) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := i.issued.Add(1)
		if answer != nil {
			answer(w, r)
			return
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, n)
	}))
	t.Cleanup(i.Close)
	return i
}

func newTokens(c *clock) *Tokens {
	return NewTokens(TokensConfig{Guard: NewGuard(GuardConfig{}), Now: c.Now})
}

func (i *issuer) request() TokenRequest {
	return TokenRequest{Key: "ledger", URL: i.URL + "/oauth/token", ClientID: NewSecret("id one"), ClientSecret: NewSecret(canary),
		Scopes: []string{"pay", "read"}, Allow: prefixes("127.0.0.0/8")}
}

func wantToken(t *testing.T, tokens *Tokens, r TokenRequest, want string) Secret {
	t.Helper()
	got, err := tokens.Token(context.Background(), r)
	if err != nil || got.Reveal() != want {
		t.Fatalf("token %q, %v; want %q", got.Reveal(), err, want)
	}
	return got
}

func TestTokenIsKeptUntilTheMarginBeforeItExpires(t *testing.T) {
	i, c := newIssuer(t, nil), &clock{}
	tokens := newTokens(c)
	wantToken(t, tokens, i.request(), "token-1")
	c.Advance(3600*time.Second - 30*time.Second - 1)
	wantToken(t, tokens, i.request(), "token-1")
	c.Advance(1)
	wantToken(t, tokens, i.request(), "token-2")
	if n := len(tokens.entries); n != 1 {
		t.Errorf("%d entries are kept", n)
	}
}

func TestTokenLifetimes(t *testing.T) {
	tests := []struct {
		expires string
		good    time.Duration // the last moment of use
	}{
		{`60`, 30 * time.Second}, {`"60"`, 30 * time.Second}, {`20`, 10 * time.Second}, {`90.5`, 60500 * time.Millisecond},
		{`null`, unstatedLife - 30*time.Second}, {`""`, unstatedLife - 30*time.Second}, {`"soon"`, unstatedLife - 30*time.Second},
		{`-5`, unstatedLife - 30*time.Second}, {`1e300`, longestLife - 30*time.Second}, {`"NaN"`, unstatedLife - 30*time.Second},
	}
	for _, tt := range tests {
		n := 0
		i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			fmt.Fprintf(w, `{"access_token":"t%d","expires_in":%s}`, n, tt.expires)
		})
		c := &clock{}
		tokens := newTokens(c)
		wantToken(t, tokens, i.request(), "t1")
		c.Advance(tt.good - 1)
		wantToken(t, tokens, i.request(), "t1")
		c.Advance(1)
		wantToken(t, tokens, i.request(), "t2")
	}
}

func TestTokenRequestOnTheWire(t *testing.T) {
	i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		id, secret, ok := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		if !ok || id != "id+one" || secret != "canary-7f3a%2Fsecret+value" || string(body) != "grant_type=client_credentials&scope=pay+read" {
			t.Errorf("basic %q %q, body %q", id, secret, body)
		}
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s with %v", r.Method, r.Header)
		}
		_, _ = io.WriteString(w, `{"access_token":"t"}`)
	})
	wantToken(t, newTokens(&clock{}), i.request(), "t")
}

func TestCredentialsGoIntoTheBodyWhereTheHeaderIsRefused(t *testing.T) {
	i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("client_id") != "id one" || r.PostFormValue("client_secret") != canary {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":"invalid_client"}`)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"t","expires_in":60}`)
	})
	c := &clock{}
	tokens := newTokens(c)
	wantToken(t, tokens, i.request(), "t")
	c.Advance(time.Hour)
	wantToken(t, tokens, i.request(), "t")
	if got := i.issued.Load(); got != 3 {
		t.Errorf("%d exchanges, want 3: the second token needs one only", got)
	}
}

func TestManyWantingOneTokenShareAnExchange(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-answer
		_, _ = io.WriteString(w, `{"access_token":"shared","expires_in":3600}`)
	})
	tokens := newTokens(&clock{})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if got, err := tokens.Token(context.Background(), i.request()); err != nil || got.Reveal() != "shared" {
				t.Errorf("%q, %v", got.Reveal(), err)
			}
		})
	}
	<-arrived
	// One that gives up does not take the exchange along.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := tokens.Token(ctx, i.request()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller got %v", err)
	}
	close(answer)
	all.Wait()
	if got := i.issued.Load(); got != 1 {
		t.Errorf("%d exchanges", got)
	}
}

func TestInvalidateDropsOnlyTheTokenThatWasUsed(t *testing.T) {
	i := newIssuer(t, nil)
	tokens := newTokens(&clock{})
	first := wantToken(t, tokens, i.request(), "token-1")
	tokens.Invalidate("other", first)
	wantToken(t, tokens, i.request(), "token-1")
	tokens.Invalidate("ledger", first)
	second := wantToken(t, tokens, i.request(), "token-2")
	tokens.Invalidate("ledger", first) // a straggler, refused with the old one
	wantToken(t, tokens, i.request(), "token-2")
	tokens.Invalidate("ledger", second)
	wantToken(t, tokens, i.request(), "token-3")
}

func TestInvalidateUnderRaceCausesOneExchange(t *testing.T) {
	i := newIssuer(t, nil)
	tokens := newTokens(&clock{})
	used := wantToken(t, tokens, i.request(), "token-1")
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			tokens.Invalidate("ledger", used)
			if got, err := tokens.Token(context.Background(), i.request()); err != nil || got.Reveal() != "token-2" {
				t.Errorf("%q, %v", got.Reveal(), err)
			}
		})
	}
	all.Wait()
}

func TestAChangedCredentialIsAnotherToken(t *testing.T) {
	i := newIssuer(t, nil)
	tokens := newTokens(&clock{})
	changed := []func(*TokenRequest){
		func(r *TokenRequest) {},
		func(r *TokenRequest) { r.ClientSecret = NewSecret("rotated secret") },
		func(r *TokenRequest) { r.ClientID = NewSecret("two") },
		func(r *TokenRequest) { r.Scopes = []string{"pay"} },
		func(r *TokenRequest) { r.Key = "other" },
	}
	for n, change := range changed {
		r := i.request()
		change(&r)
		wantToken(t, tokens, r, fmt.Sprintf("token-%d", n+1))
	}
	wantToken(t, tokens, i.request(), "token-1")
}

func TestAFailureAnswersForAMomentAndIsThenForgotten(t *testing.T) {
	down, asks := true, ""
	i := newIssuer(t, func(w http.ResponseWriter, r *http.Request) {
		if down {
			w.Header().Set("Retry-After", asks)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"t"}`)
	})
	c := &clock{}
	tokens := newTokens(c)
	for range 3 {
		var failed *TokenError
		if _, err := tokens.Token(context.Background(), i.request()); !errors.As(err, &failed) || failed.Status != http.StatusServiceUnavailable {
			t.Fatalf("got %v", err)
		}
	}
	if got := i.issued.Load(); got != 1 {
		t.Errorf("%d exchanges while the failure holds", got)
	}
	c.Advance(time.Second)
	asks = "3600" // and a minute is what it gets
	var patient *TokenError
	if _, err := tokens.Token(context.Background(), i.request()); !errors.As(err, &patient) || patient.RetryAfter != asks {
		t.Fatalf("got %v", err)
	}
	down = false
	c.Advance(time.Minute - time.Second)
	if _, err := tokens.Token(context.Background(), i.request()); err == nil || i.issued.Load() != 2 {
		t.Errorf("asked again too early: %v, %d exchanges", err, i.issued.Load())
	}
	c.Advance(time.Second)
	wantToken(t, tokens, i.request(), "t")
}

func TestTokenErrors(t *testing.T) {
	redirected := newIssuer(t, nil)
	tests := []struct {
		name   string
		answer http.HandlerFunc
		status int
		detail string
	}{
		{"refused", reply(401, `{"error":"invalid_client","error_description":"unknown client"}`), 401, "invalid_client: unknown client"},
		{"refused with 200", reply(200, `{"error":"invalid_scope","error_description":"not yours"}`), 200, "invalid_scope: not yours"},
		{"refused in an odd form", reply(401, `{"error":"invalid_client","error_description":{"en":"no"}}`), 401, "invalid_client"},
		{"without description", reply(400, `{"error":"invalid_scope"}`), 400, "invalid_scope"},
		{"echo", reply(403, `{"error":"denied","error_description":"bad secret `+canary+`"}`), 403, "denied: bad secret [redacted]"},
		{"control characters", reply(403, `{"error":"a\u001b[31m\nb"}`), 403, "a [31m b"},
		{"long", reply(403, `{"error":"`+strings.Repeat("é", 4000)+`"}`), 403, "…"},
		{"no JSON", reply(500, `<html>`), 500, "no OAuth 2.0 error in it"},
		{"page", reply(200, `<html>`), 200, "not a JSON token answer (text/html)"},
		{"no token", reply(200, `{}`), 200, "no access_token"},
		{"other type", reply(200, `{"access_token":"t","token_type":"mac"}`), 200, `token_type "mac" is not bearer`},
		{"unsendable", reply(200, `{"access_token":"a\r\nX-Evil: 1"}`), 200, "characters that no header can carry"},
		{"huge", reply(200, `{"access_token":"`+strings.Repeat("x", grantBytes)+`"}`), 200, "larger than 65536 bytes"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"access_token":`)
		}, 200, "broke off"},
		{"redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, redirected.URL, http.StatusTemporaryRedirect)
		}, 307, "redirects are not followed"},
		{"gone", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "EOF"},
	}
	for _, tt := range tests {
		_, err := newTokens(&clock{}).Token(context.Background(), newIssuer(t, tt.answer).request())
		var failed *TokenError
		if !errors.As(err, &failed) || failed.Status != tt.status || !strings.Contains(failed.Detail, tt.detail) || len(failed.Detail) > 310 {
			t.Errorf("%s: %v, want %d %q", tt.name, err, tt.status, tt.detail)
		}
		noCanary(t, err)
	}
	if redirected.issued.Load() != 0 {
		t.Error("a redirect was followed, with the credentials")
	}
}

func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if strings.HasPrefix(body, "<") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func noCanary(t *testing.T, err error) {
	t.Helper()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "err", err)
	out, _ := json.Marshal(err)
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err), log.String(), string(out)} {
		if leaks(text) {
			t.Errorf("the secret is in %s", text)
		}
	}
}

func TestAShortCredentialInAnErrorTextHidesTheText(t *testing.T) {
	r := newIssuer(t, reply(403, `{"error":"denied","error_description":"pw abc is wrong"}`)).request()
	r.ClientSecret = NewSecret("abc")
	if _, err := newTokens(&clock{}).Token(context.Background(), r); strings.Contains(err.Error(), "abc") {
		t.Errorf("the secret is in %v", err)
	}
}

func TestTokenEndpointIsGuarded(t *testing.T) {
	i := newIssuer(t, nil)
	r := i.request()
	r.Allow = nil
	_, err := newTokens(&clock{}).Token(context.Background(), r)
	var forbidden *Forbidden
	var failed *TokenError
	if !errors.As(err, &forbidden) || !errors.As(err, &failed) || forbidden.Class != ClassLoopback {
		t.Errorf("got %v", err)
	}
	for _, endpoint := range []string{"ftp://127.0.0.1/", "https://", "127.0.0.1/oauth", "http://%zz", ""} {
		r := i.request()
		r.URL = endpoint
		if _, err := newTokens(&clock{}).Token(context.Background(), r); !errors.As(err, &failed) {
			t.Errorf("%q gave %v", endpoint, err)
		}
	}
	if i.issued.Load() != 0 {
		t.Error("a forbidden endpoint was asked")
	}
}

func TestProxyVariablesAreIgnored(t *testing.T) {
	trap := newIssuer(t, nil)
	t.Setenv("HTTP_PROXY", trap.URL)
	t.Setenv("http_proxy", trap.URL)
	client, err := newTokens(&clock{}).client(TokenRequest{URL: "http://ledger.example/token"})
	if err != nil {
		t.Fatal(err)
	}
	if client.transport.Proxy != nil {
		t.Error("the client asks the environment for a proxy")
	}
}

func TestPlainHTTPNeedsAnAddressOnTheAllowList(t *testing.T) {
	i := newIssuer(t, nil)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if dialledWithin(here, prefixes("0.0.0.0/0")) {
		t.Error("a connection without an address counts as allowed")
	}
	l := listen(t)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if dialledWithin(conn, prefixes("10.0.0.0/8")) || !dialledWithin(conn, i.request().Allow) {
		t.Error("the allow list is not what decides")
	}
}

func TestTokenOverTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(reply(200, `{"access_token":"t"}`))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	server.StartTLS()
	defer server.Close()
	request := TokenRequest{Key: "k", URL: server.URL, ClientID: NewSecret("id"), ClientSecret: NewSecret(canary), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}

	_, err := newTokens(&clock{}).Token(context.Background(), request)
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("an unknown authority gave %v", err)
	}
	noCanary(t, err)

	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	request.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10}
	wantToken(t, newTokens(&clock{}), request, "t")
	client, err := newTokens(&clock{}).client(request)
	if err != nil || client.transport.TLSClientConfig.MinVersion != tls.VersionTLS12 {
		t.Errorf("TLS below 1.2 is accepted: %v", err)
	}
}

func TestASilentTokenEndpointEndsInAnError(t *testing.T) {
	l := listen(t) // accepts by its backlog and never answers
	tokens := NewTokens(TokensConfig{Guard: NewGuard(GuardConfig{}), Timeout: 50 * time.Millisecond})
	_, err := tokens.Token(context.Background(), TokenRequest{Key: "k", URL: "http://" + l.Addr().String(), Allow: prefixes("127.0.0.1/32")})
	var failed *TokenError
	if !errors.As(err, &failed) || !strings.Contains(failed.Detail, "in time") {
		t.Errorf("got %v", err)
	}
}
