package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
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
	detail     string
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
	res, err := s.do(timed, j, saw.at)
	saw.duration = time.Since(saw.at)
	switch {
	case err != nil && ctx.Err() != nil:
		saw.failure, saw.detail = FailureInterrupted, "the process stopped meanwhile"
	case err != nil:
		saw.failure, saw.detail = byError(err)
	default:
		saw.status, saw.failure = res.StatusCode, byStatus(res.StatusCode)
		saw.retryAfter = askedFor(res, time.Now())
		saw.excerpt = excerpt(res, cancel)
		if saw.failure != FailureNone {
			saw.detail = describe(res)
		}
	}
	return saw
}

func (s *sender) do(ctx context.Context, j *job, at time.Time) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.URL, bytes.NewReader(j.Payload))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Webhook-Id", j.EventID.String())
	req.Header.Set("Webhook-Timestamp", stamp(at))
	req.Header.Set("Webhook-Signature", sign(j.signer.keys, j.EventID.String(), at, j.Payload))
	if req.URL.Scheme != "https" { // as it was parsed: a URL may spell it HTTP
		return s.plain.Do(req)
	}
	return s.secure.Do(req)
}

// excerpt reads a bounded part of the body for a bounded time and keeps its
// beginning. What goes wrong there changes nothing.
func excerpt(res *http.Response, cancel context.CancelFunc) string {
	stop := time.AfterFunc(bodyPatience, cancel)
	defer stop.Stop()
	defer res.Body.Close()
	body, _ := egress.ReadBody(res.Body, maxBody)
	return printable(string(body[:min(len(body), 4*maxExcerpt)]), maxExcerpt)
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
