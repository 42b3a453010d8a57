package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the service is and who calls. URL and APIKey are required.
type Config struct {
	URL    string // such as https://executor.example; a path in it is kept
	APIKey string
	// HTTP is used as it is; nil is a client of its own that follows no redirects.
	HTTP *http.Client
	// Timeout bounds each single try, beyond what the service is asked to wait; 30 s.
	Timeout time.Duration
	// Retries is how often a request is repeated that failed in passing, where that
	// is safe: reads, submits (with the same key), cancels, bulk actions (with the
	// same id) and applying reports; 5. Negative: never.
	Retries   int
	UserAgent string
}

// Client calls one service. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	http      *http.Client
	timeout   time.Duration
	retries   int
	authorize func(http.Header) // a closure, so that printing the client does not print the key
	agent     string
	backoff   func(n int, asked time.Duration) time.Duration
}

// New checks the configuration; it does not connect.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.URL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		if strings.Contains(cfg.URL, "@") { // a password may stand in it
			return nil, errors.New("the URL is not that of a service, such as http://127.0.0.1:8080")
		}
		return nil, fmt.Errorf("%q is not the URL of a service, such as http://127.0.0.1:8080", cfg.URL)
	}
	if cfg.APIKey == "" {
		return nil, errors.New("an API key is required; `executor keys create` makes one")
	}
	if strings.ContainsFunc(cfg.APIKey, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errors.New("the API key holds spaces or characters that no header can carry")
	}
	c := &Client{base: base, http: cfg.HTTP, timeout: cfg.Timeout, retries: cfg.Retries, agent: cfg.UserAgent, backoff: backoff}
	c.authorize = func(h http.Header) { h.Set("Authorization", "Bearer "+cfg.APIKey) }
	if c.http == nil {
		c.http = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if c.timeout == 0 {
		c.timeout = 30 * time.Second
	}
	if c.retries == 0 {
		c.retries = 5
	}
	if c.agent == "" {
		c.agent = "executor-client"
	}
	return c, nil
}

// responseBytes bounds an answer; the largest are pages of commands with bodies.
const responseBytes = 256 << 20

// call is one request to the API.
type call struct {
	method  string
	path    string // below the base URL, escaped
	query   url.Values
	headers map[string]string
	body    []byte
	stream  io.Reader     // instead of body, sent as it is read; a call that has it cannot be repeated
	media   string        // of the body; application/json if empty
	accept  string        // application/json if empty
	empty   bool          // a success has no content
	wait    time.Duration // how long the service may take by intention
	repeat  bool          // the same request again is safe
}

// reply is an answer with a status of success.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// errUncertain marks an error after which the service may have done what it was
// asked.
type errUncertain struct{ error }

func (e errUncertain) Unwrap() error { return e.error }

// do sends the call, again where that is safe, until it has an answer that will
// not change. Once a try may have been carried out, every later error is
// uncertain too.
func (c *Client) do(ctx context.Context, r call) (reply, error) {
	if strings.Contains(r.path+"/", "//") {
		return reply{}, &Invalid{Detail: "the id or the name is empty"}
	}
	var doubt bool
	for n := 1; ; n++ {
		res, err := c.try(ctx, r)
		if err == nil {
			return res, nil
		}
		uncertain := errors.As(err, new(errUncertain))
		if doubt && !uncertain {
			err = errUncertain{err}
		}
		doubt = doubt || uncertain
		if !r.repeat || n > c.retries || !passing(err) || sleep(ctx, c.backoff(n, askedWait(err))) != nil {
			return reply{}, err
		}
	}
}

// passing says whether another try may do better.
func passing(err error) bool {
	var p *Problem
	var certificate *tls.CertificateVerificationError
	var foreign *foreignAnswer
	switch {
	case errors.As(err, &p):
		return p.passing() || p.Status == http.StatusTooManyRequests
	case errors.As(err, &certificate), errors.As(err, &foreign):
		return false
	default:
		return true // the network's
	}
}

func (c *Client) try(ctx context.Context, r call) (reply, error) {
	ctx, cancel := r.bound(ctx, c.timeout)
	defer cancel()
	res, err := c.send(ctx, r)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, responseBytes+1))
	if err != nil {
		return reply{}, errUncertain{fmt.Errorf("read the answer to %s %s: %w", r.method, r.path, err)}
	}
	if len(body) > responseBytes {
		return reply{}, errUncertain{fmt.Errorf("the answer to %s %s is larger than %d bytes", r.method, r.path, responseBytes)}
	}
	if res.StatusCode >= 300 {
		return reply{}, refusal(problemOf(res, body))
	}
	if err := r.accepts(res); err != nil {
		return reply{}, errUncertain{err}
	}
	return reply{res.StatusCode, res.Header, body}, nil
}

// send returns when the answer's header is there.
func (c *Client) send(ctx context.Context, r call) (*http.Response, error) {
	target := *c.base
	target.RawQuery = r.query.Encode()
	address := target.JoinPath(r.path)
	var content io.Reader = bytes.NewReader(r.body)
	if r.stream != nil {
		content = r.stream
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), content)
	if err != nil {
		return nil, err
	}
	c.authorize(req.Header)
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept", r.wanted())
	if r.body != nil || r.stream != nil {
		req.Header.Set("Content-Type", orDefault(r.media, "application/json"))
	}
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	res, err := c.http.Do(req)
	switch {
	case err == nil:
		return res, nil
	case neverSent(err):
		return nil, err
	default:
		return nil, errUncertain{err}
	}
}

// neverSent recognises the failures that come before the first byte.
func neverSent(err error) bool {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || (errors.As(err, &network) && network.Op == "dial")
}

func (r call) wanted() string { return orDefault(r.accept, "application/json") }

func orDefault(value, standard string) string {
	if value == "" {
		return standard
	}
	return value
}

// refusal keeps apart what was certainly not done (a client error of the service
// itself, or a submit that it has no room for now) from what may have been.
func refusal(p *Problem) error {
	if p.Code != "" && p.Status < http.StatusInternalServerError || p.Code == "backlog_full" || p.Code == "not_accepted" {
		return p
	}
	return errUncertain{p}
}

// foreignAnswer is a success that does not come from this API.
type foreignAnswer struct{ text string }

func (f *foreignAnswer) Error() string { return f.text }

func (r call) accepts(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if media == r.wanted() || (r.empty && res.StatusCode == http.StatusNoContent) {
		return nil
	}
	return &foreignAnswer{fmt.Sprintf("%s %s was answered with %d and %s instead of %s; is the URL right, or is a proxy between?",
		r.method, r.path, res.StatusCode, orUntyped(media), r.wanted())}
}

// path joins segments below /v1, each escaped as one.
func path(segments ...string) string {
	for i, s := range segments {
		if s = url.PathEscape(s); s == "." || s == ".." {
			s = strings.ReplaceAll(s, ".", "%2E")
		}
		segments[i] = s
	}
	return "/v1/" + strings.Join(segments, "/")
}

// read sends the call and decodes the answer.
func read[T any](ctx context.Context, c *Client, r call) (T, reply, error) {
	var v T
	res, err := c.do(ctx, r)
	if err != nil {
		return v, reply{}, plain(err)
	}
	if err := json.Unmarshal(res.body, &v); err != nil {
		return v, res, fmt.Errorf("read the answer to %s %s: %w", r.method, r.path, err)
	}
	if k, ok := any(&v).(interface{ keep([]byte) }); ok {
		k.keep(res.body)
	}
	return v, res, nil
}

// document is what a value was read from.
type document struct{ text json.RawMessage }

// JSON is the answer as the service wrote it, with members that this client does
// not know.
func (d document) JSON() json.RawMessage { return d.text }

func (d *document) keep(b []byte) { d.text = b }

// plain takes the mark of uncertainty off, where it says nothing to the caller.
func plain(err error) error {
	var u errUncertain
	if errors.As(err, &u) {
		return u.error
	}
	return err
}
