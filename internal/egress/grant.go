package egress

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	grantBytes = 64 << 10 // a token answer larger than this is refused
	// unstatedLife is how long a token without expires_in is used. A 401 of the
	// upstream ends it earlier.
	unstatedLife = 10 * time.Minute
	longestLife  = 24 * time.Hour
)

// grant is the answer of a token endpoint, successful or not (RFC 6749, 5.1, 5.2).
type grant struct {
	AccessToken string          `json:"access_token"`
	TokenType   string          `json:"token_type"`
	ExpiresIn   json.RawMessage `json:"expires_in"` // seconds; some send a string
	Error       string          `json:"error"`
	Description any             `json:"error_description"` // a text; what else some send is not told
}

// exchange asks for a token with the credentials in the Authorization header,
// which every server must accept (RFC 6749, 2.3.1), and in the body if this one
// does not.
func (t *Tokens) exchange(ctx context.Context, r TokenRequest) (Secret, time.Duration, error) {
	client, err := t.client(r)
	if err != nil {
		return Secret{}, 0, err
	}
	inBody := t.takesBody(r.URL)
	token, life, err := ask(ctx, client, r, inBody)
	if inBody || !refusedClient(err) {
		return token, life, err
	}
	if token, life, again := ask(ctx, client, r, true); again == nil {
		t.rememberBody(r.URL)
		return token, life, nil
	}
	return Secret{}, 0, err
}

func refusedClient(err error) bool {
	var refused *TokenError
	return errors.As(err, &refused) && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusBadRequest)
}

// client has the upstream's proxy, follows nothing, and dials only what the guard
// permits.
func (t *Tokens) client(r TokenRequest) (*Client, error) {
	endpoint, err := url.Parse(r.URL)
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "https" && endpoint.Scheme != "http") {
		return nil, &TokenError{Detail: "token_url is not an http(s) URL"}
	}
	var proxy *url.URL
	if r.Proxy != "" {
		if proxy, err = url.Parse(r.Proxy); err != nil {
			return nil, &TokenError{Detail: "egress.proxy is not a URL"}
		}
	}
	return NewClient(ClientConfig{
		Dialer: t.dialer, Proxy: proxy, Connect: t.cfg.Timeout, Allow: r.Allow, TLS: r.TLS, HeaderBytes: grantBytes,
		Admit: func(conn net.Conn) error {
			if endpoint.Scheme == "http" && (proxy != nil || !dialledWithin(conn, r.Allow)) {
				return errors.New("credentials go over plain http only to an address that egress.allow names, and through no proxy")
			}
			return nil
		},
	}), nil
}

func dialledWithin(conn net.Conn, allow []netip.Prefix) bool {
	addr, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	return err == nil && containsAny(allow, addr.Addr().Unmap())
}

func ask(ctx context.Context, client *Client, r TokenRequest, inBody bool) (Secret, time.Duration, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(r.Scopes) > 0 {
		form.Set("scope", strings.Join(r.Scopes, " "))
	}
	if inBody {
		form.Set("client_id", r.ClientID.Reveal())
		form.Set("client_secret", r.ClientSecret.Reveal())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return Secret{}, 0, &TokenError{Detail: "token_url is not a URL"}
	}
	if !inBody {
		req.SetBasicAuth(url.QueryEscape(r.ClientID.Reveal()), url.QueryEscape(r.ClientSecret.Reveal()))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return Secret{}, 0, unreachable(err, r)
	}
	defer res.Body.Close()
	return read(res, r)
}

// unreachable drops the URL that net/http puts into its errors.
func unreachable(err error, r TokenRequest) error {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &TokenError{Detail: "the token endpoint did not answer in time", cause: err}
	}
	return &TokenError{Detail: printable(err.Error(), r), cause: err}
}

func read(res *http.Response, r TokenRequest) (Secret, time.Duration, error) {
	fail := func(format string, args ...any) (Secret, time.Duration, error) {
		return Secret{}, 0, &TokenError{Status: res.StatusCode, RetryAfter: retryAfter(res, r), Detail: printable(fmt.Sprintf(format, args...), r)}
	}
	body, err := ReadBody(res.Body, grantBytes)
	switch {
	case errors.Is(err, ErrTooLarge):
		return fail("its answer is larger than %d bytes", grantBytes)
	case err != nil:
		return fail("its answer broke off")
	}
	var g grant
	parsed := json.Unmarshal(body, &g) == nil
	switch media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fail("redirects are not followed; set token_url to the final address")
	case parsed && g.Error != "": // with 200 too
		description, _ := g.Description.(string)
		return fail("%s", strings.TrimSuffix(g.Error+": "+description, ": "))
	case res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated:
		return fail("no OAuth 2.0 error in it (%s)", media)
	case !parsed:
		return fail("not a JSON token answer (%s)", media)
	case g.AccessToken == "":
		return fail("no access_token in it")
	case g.TokenType != "" && !strings.EqualFold(g.TokenType, "bearer"):
		return fail("token_type %q is not bearer", g.TokenType)
	case strings.ContainsFunc(g.AccessToken, func(c rune) bool { return c <= ' ' || c > '~' }):
		return fail("the access_token holds characters that no header can carry")
	}
	return NewSecret(g.AccessToken), lifetime(g.ExpiresIn), nil
}

func retryAfter(res *http.Response, r TokenRequest) string {
	if res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusServiceUnavailable {
		return ""
	}
	return printable(res.Header.Get("Retry-After"), r)
}

func lifetime(seconds json.RawMessage) time.Duration {
	n, err := strconv.ParseFloat(strings.Trim(string(seconds), `"`), 64)
	if err != nil || !(n >= 0) {
		return unstatedLife
	}
	return time.Duration(min(n, longestLife.Seconds()) * float64(time.Second))
}

// secrets are what must not be told of a request: the credentials, and how
// Authorization carries them.
func (r TokenRequest) secrets() []Secret {
	pair := url.QueryEscape(r.ClientID.Reveal()) + ":" + url.QueryEscape(r.ClientSecret.Reveal())
	return []Secret{r.ClientSecret, r.ClientID, NewSecret(pair), NewSecret(base64.StdEncoding.EncodeToString([]byte(pair)))}
}

// printable makes text from the endpoint fit for a log line: bounded, without
// control characters and without the credentials that were sent.
func printable(text string, r TokenRequest) string {
	text = string(MaskCut([]byte(text), r.secrets()...))
	if secret := r.ClientSecret.Reveal(); secret != "" && strings.Contains(text, secret) {
		return "its error text repeats the credential" // too short to be masked
	}
	return Line(text)
}
