package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"executor/commands"
	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// looker puts questions to upstreams: one request on a connection of its own,
// checked where it is dialled, never redirected and never repeated.
type looker struct {
	dialer *egress.Dialer
	access *upstreams.Access
	hop    string // of the deployment; "" = it is not told
}

// inquiry is one question to be put.
type inquiry struct {
	upstreamID int64
	profile    *upstreams.Profile   // that the command pinned
	operation  *upstreams.Operation // of it
	limits     upstreams.Limits     // of the newest profile
	request    upstreams.Request
	hold       hold // under which it is asked
}

// reply is what came of a question, and what of it may be kept. Without a status
// there is no answer.
type reply struct {
	request   commands.AttemptRequest // as sent, without the credential
	category  outcome.Category        // CategoryNone where the answer is whole
	detail    string
	status    int
	header    http.Header
	body      []byte
	truncated bool

	credential upstreams.Credential // its secrets are taken out of what is kept
}

// whole reports whether an answer came and can be read to its end.
func (r reply) whole() bool { return r.status != 0 && r.category == outcome.CategoryNone }

const (
	redacted  = "[redacted]"
	userAgent = "executor/1"
)

// ask makes one exchange within the operation's timeouts.
func (l looker) ask(ctx context.Context, q inquiry) reply {
	ctx, cancel := context.WithTimeout(ctx, q.operation.Timeouts.Total)
	defer cancel()
	stage := &stage{}
	r := reply{category: outcome.CategoryNone, request: q.shown()}
	request, client, err := l.prepare(stage.trace(ctx), q, &r)
	if err != nil {
		r.category, r.detail = prepareCategory(err), egress.Line(err.Error())
		return r
	}
	response, err := client.Do(request)
	if err != nil {
		r.category, r.detail = stage.category(ctx, err), egress.Line(stage.unquoted(withoutURL(err).Error()))
		return r
	}
	defer response.Body.Close()
	r.status, r.header = response.StatusCode, response.Header
	if r.status == http.StatusUnauthorized {
		l.access.Refused(r.credential) // the next question comes with another token
	}
	r.read(ctx, response, q.limits.ResponseBytes)
	return r
}

// prepare makes the request with its credential, and a client for it.
func (l looker) prepare(ctx context.Context, q inquiry, r *reply) (*http.Request, *egress.Client, error) {
	credential, err := l.access.Credential(ctx, q.profile, q.upstreamID, false)
	r.credential = credential
	for _, h := range credential.Headers {
		r.request.Headers = append(r.request.Headers, upstreams.Header{Name: h.Name, Value: redacted})
	}
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, q.request.Method, r.request.URL, nil)
	if err != nil {
		return nil, nil, &invalidRequest{withoutURL(err)}
	}
	request.Header.Set("User-Agent", userAgent)
	if l.hop != "" {
		request.Header.Set(egress.HopHeader, l.hop)
	}
	for _, h := range append(q.request.Headers, credential.Headers...) {
		request.Header.Set(h.Name, h.Value)
	}
	client, err := l.client(q)
	return request, client, err
}

func (l looker) client(q inquiry) (*egress.Client, error) {
	p, t := q.profile, q.operation.Timeouts
	config := egress.ClientConfig{
		Dialer: l.dialer, Allow: p.Egress.Allow, Connect: t.Connect, Handshake: t.TLS, Header: t.ResponseHeader,
		HeaderBytes: q.limits.HeaderBytes, Admit: q.admit,
	}
	var err error
	if config.TLS, err = l.access.TLS(p); err != nil {
		return nil, err
	}
	if p.Egress.Proxy != "" {
		if config.Proxy, err = url.Parse(p.Egress.Proxy); err != nil {
			return nil, &invalidRequest{errors.New("egress.proxy is not a URL")}
		}
	}
	return egress.NewClient(config), nil
}

// admit is the last look at the clock, on the connection that was made: a process
// that was paused meanwhile does not ask beside another.
func (q inquiry) admit(net.Conn) error {
	if !q.hold.covers(0) {
		return errLost
	}
	return nil
}

// shown is the request as it may be put on record.
func (q inquiry) shown() commands.AttemptRequest {
	return commands.AttemptRequest{
		Method: q.request.Method, URL: q.profile.Base.Scheme + "://" + q.profile.Base.Host + q.request.Path,
		Headers: append([]upstreams.Header{}, q.operation.Redact(q.request.Headers)...),
	}
}

// read takes the body. We ask for no encoding: what comes encoded all the same is
// not read.
func (r *reply) read(ctx context.Context, response *http.Response, limit int64) {
	body, err := egress.ReadBody(response.Body, limit)
	r.body = body
	encoding := strings.Join(response.Header.Values("Content-Encoding"), ", ")
	switch {
	case errors.Is(err, egress.ErrTooLarge):
		r.truncated = true
		r.category, r.detail = outcome.CategoryBodyTruncated, fmt.Sprintf("the response body is larger than %d bytes", limit)
	case err != nil && ctx.Err() != nil:
		r.truncated = true
		r.category, r.detail = outcome.CategoryBodyTimeout, "the time was over within the response body"
	case err != nil:
		r.truncated = true
		r.category, r.detail = outcome.CategoryBodyTruncated, egress.Line("the response body broke off: "+ended(err).Error())
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		r.category, r.detail = outcome.CategoryBodyUndecodable, egress.Line("the body is encoded ("+encoding+"), which was not asked for")
	}
}

// stage follows how far an exchange got. It is a hint for people, no evidence.
type stage struct{ reached atomic.Int32 }

const (
	stageDial int32 = iota
	stageTLS
	stageWrite
	stageHeaders
)

func (s *stage) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeStart: func() { s.reached.Store(stageTLS) },
		GotConn:           func(httptrace.GotConnInfo) { s.reached.Store(stageWrite) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				s.reached.Store(stageHeaders)
			}
		},
	})
}

// unquoted leaves out what an error quotes of an answer: it may echo a credential.
func (s *stage) unquoted(text string) string {
	if s.reached.Load() < stageWrite {
		return text
	}
	what, _, _ := strings.Cut(text, `"`)
	return strings.TrimRight(what, " :")
}

// ended gives the end of a stream a name.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the peer closed the connection")
	}
	return err
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
