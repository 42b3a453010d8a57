package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"time"

	"executor/internal/egress"
)

const (
	userAgent    = "executor-webhooks/1"
	maxBody      = 64 << 10 // bytes of a response that are read
	maxHeader    = 64 << 10 // bytes
	bodyPatience = time.Second
)

// client makes one exchange; *egress.Client is one.
type client interface {
	Do(*http.Request) (*http.Response, error)
}

// sender makes single requests to endpoints.
type sender struct {
	secure, plain client
	timeout       time.Duration // to the response's header
	hop           string        // of the deployment; "" = it is not told
}

func newSender(dialer *egress.Dialer, allow []netip.Prefix, timeout time.Duration, config *tls.Config) *sender {
	c := egress.ClientConfig{
		Dialer: dialer, Allow: allow, TLS: config, Connect: timeout, Handshake: timeout, HeaderBytes: maxHeader,
	}
	s := &sender{secure: egress.NewClient(c), timeout: timeout}
	c.Admit = func(conn net.Conn) error {
		addr, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil || !within(allow, addr.Addr()) {
			return &plainHTTP{conn.RemoteAddr().String()}
		}
		return nil
	}
	s.plain = egress.NewClient(c)
	return s
}

// seen is what a try saw.
type seen struct {
	at         time.Time
	duration   time.Duration // to the response's header, or to the failure
	status     int           // 0: no response
	failure    Failure
	detail     string // for our log; a tenant sees what told makes of it
	words      string // of a TLS failure, for the tenant
	excerpt    string
	retryAfter time.Duration
}

// send makes one request, signed for this moment. The status decides as soon as
// it is there; of the body only a little is read, for people.
func (s *sender) send(ctx context.Context, j *job) seen {
	saw := seen{at: time.Now()}
	if j.signer.err != nil || len(j.signer.keys) == 0 {
		saw.failure, saw.detail = FailureSecretUnreadable, "the endpoint has no secret that can be read here"
		if j.signer.err != nil {
			saw.detail = "a secret of the endpoint cannot be read here: " + j.signer.err.Error()
		}
		return saw
	}
	timed, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var connected atomic.Bool
	res, err := s.do(watched(timed, &connected), j, saw.at)
	saw.duration = time.Since(saw.at)
	switch {
	case err != nil && ctx.Err() != nil:
		saw.failure, saw.detail = FailureInterrupted, "the process stopped meanwhile"
	case err != nil:
		saw.failure, saw.detail = byError(err, connected.Load())
		saw.words = tlsWords(err)
	default:
		saw.read(j, res, cancel)
	}
	saw.hush(j.signer.keys)
	return saw
}

// watched notes on connected when a connection has come about, before TLS.
func watched(ctx context.Context, connected *atomic.Bool) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { connected.Store(true) },
		GotConn:           func(httptrace.GotConnInfo) { connected.Store(true) },
	})
}

// read takes what a response says. Of a challenge the body matters too.
func (saw *seen) read(j *job, res *http.Response, cancel context.CancelFunc) {
	saw.status, saw.failure = res.StatusCode, byStatus(res.StatusCode)
	saw.retryAfter = askedFor(res, time.Now())
	body := beginning(res, cancel)
	saw.excerpt = printable(string(body[:min(len(body), 4*maxExcerpt)]), maxExcerpt)
	switch {
	case saw.failure != FailureNone:
		saw.detail = describe(res)
	case j.Type == TypeChallenge && !proves(j.Payload, res.Header, body):
		saw.failure, saw.detail = FailureUnproven, "the answer does not hold the challenge"
	}
}

// hush takes the endpoint's own secrets out of what its receiver said: receivers
// print them where signatures do not fit.
func (saw *seen) hush(keys []egress.Secret) {
	saw.detail = string(egress.MaskCut([]byte(saw.detail), keys...))
	saw.excerpt = string(egress.MaskCut([]byte(saw.excerpt), keys...))
}

func (s *sender) do(ctx context.Context, j *job, at time.Time) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.URL, bytes.NewReader(j.Payload))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	if s.hop != "" {
		req.Header.Set(egress.HopHeader, s.hop)
	}
	req.Header.Set("Webhook-Id", j.EventID.String())
	req.Header.Set("Webhook-Timestamp", stamp(at))
	req.Header.Set("Webhook-Signature", sign(j.signer.keys, j.EventID.String(), at, j.Payload))
	if req.URL.Scheme != "https" { // as it was parsed: a URL may spell it HTTP
		return s.plain.Do(req)
	}
	return s.secure.Do(req)
}

// beginning reads a bounded part of the body for a bounded time. What goes wrong
// there changes nothing.
func beginning(res *http.Response, cancel context.CancelFunc) []byte {
	stop := time.AfterFunc(bodyPatience, cancel)
	defer stop.Stop()
	defer res.Body.Close()
	body, _ := egress.ReadBody(res.Body, maxBody)
	return body
}

// describe says what a status means for the sender.
func describe(res *http.Response) string {
	switch byStatus(res.StatusCode) {
	case FailureRedirect:
		return "redirects are not followed: set the webhook's URL to the final address"
	case FailureGone:
		return "the receiver wants no more"
	default:
		return printable("answered "+res.Status, maxDetail)
	}
}
