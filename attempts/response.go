package attempts

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxInterim is how many 1xx responses may come before the final one: some upstreams
// send one every few seconds while they work (102 of RFC 2518).
const maxInterim = 200

var (
	errHeadTooLarge   = errors.New("response headers too large")
	errTooManyInterim = errors.New("too many interim responses")
	errMalformed      = errors.New("malformed response")
)

// source is what responses are read from: the connection, with a count of the
// bytes of heads. It belongs to the connection and is set anew for each exchange.
type source struct {
	r     io.Reader
	limit int    // bytes that the heads of one exchange may have; below 0: not counting
	head  []byte // what was read while counting
	err   error  // of the last read, to tell a broken connection from broken syntax
}

func (s *source) Read(p []byte) (int, error) {
	if s.limit < 0 {
		n, err := s.r.Read(p)
		s.err = err
		return n, err
	}
	room := s.limit - len(s.head)
	if room <= 0 {
		s.err = errHeadTooLarge
		return 0, s.err
	}
	n, err := s.r.Read(p[:min(len(p), room)])
	s.head, s.err = append(s.head, p[:n]...), err
	return n, err
}

// responses reads the responses on one connection.
type responses struct {
	source *source
	buf    *bufio.Reader
}

func newResponses(r io.Reader) *responses {
	s := &source{r: r, limit: -1}
	return &responses{source: s, buf: bufio.NewReader(s)}
}

// reply is one final response.
type reply struct {
	status   int
	header   http.Header
	keep     bool // the connection may carry another request (RFC 9112, section 9.3)
	twice    bool // both a Content-Length and a Transfer-Encoding framed it
	openEnd  bool // the body ends with the connection (RFC 9112, section 6.3, case 8)
	headedAt time.Time

	raw       []byte // the body as it came, at most the cap
	truncated bool   // there was more than the cap
	bodyErr   error  // why the body is not whole
}

// head reads interim responses (RFC 9110, section 15.2) up to the final one and
// returns it with its body unread. first is called with the first byte of each
// head. All heads together may have limit bytes. 101 is final: it answers an
// Upgrade that was never asked for.
func (r *responses) head(method string, limit int64, first func()) (res *http.Response, interim int, err error) {
	r.source.limit, r.source.head, r.source.err = int(limit), r.source.head[:0], nil
	defer func() { r.source.limit = -1 }()
	for ; ; interim++ {
		if interim > maxInterim {
			return nil, interim, errTooManyInterim
		}
		if _, err := r.buf.Peek(1); err != nil {
			return nil, interim, r.explain(err)
		}
		first()
		res, err := http.ReadResponse(r.buf, &http.Request{Method: method})
		if err != nil {
			return nil, interim, r.explain(err)
		}
		if res.ProtoMajor != 1 || res.StatusCode < 100 {
			return nil, interim, fmt.Errorf("%w: not an HTTP/1 status line", errMalformed)
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			return res, interim, nil
		}
	}
}

// explain separates a connection that failed from a peer that does not speak
// HTTP: a head that breaks off looks malformed, too. Of the peer's text nothing is
// repeated: it may echo a credential.
func (r *responses) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case r.source.err != nil:
		return r.source.err
	}
	what, _, _ := strings.Cut(err.Error(), `"`)
	return fmt.Errorf("%w: %s", errMalformed, strings.TrimRight(what, " :;[&"))
}

// framedTwice says that a head had both a Content-Length and a
// Transfer-Encoding, which may be a sign of smuggling (RFC 9112, section 6.3): the
// response is read by the latter, and the connection is not used again. What of the
// body was read along with the head is none of it.
func (r *responses) framedTwice(res *http.Response) bool {
	head := r.source.head[:max(0, len(r.source.head)-r.buf.Buffered())]
	return len(res.TransferEncoding) > 0 && bytes.Contains(bytes.ToLower(head), []byte("\ncontent-length"))
}

// body reads the body up to max bytes.
func (r *responses) body(res *http.Response, max int64) *reply {
	out := &reply{
		status: res.StatusCode, header: res.Header, headedAt: time.Now(), twice: r.framedTwice(res),
		openEnd: res.ContentLength < 0 && len(res.TransferEncoding) == 0 && res.Body != http.NoBody,
	}
	out.keep = res.ProtoAtLeast(1, 1) && !res.Close && res.StatusCode != http.StatusSwitchingProtocols && !out.twice
	raw, err := io.ReadAll(io.LimitReader(res.Body, max+1))
	if int64(len(raw)) > max {
		raw, out.truncated, err = raw[:max], true, nil
	}
	out.raw, out.bodyErr = raw, r.explain(err)
	return out
}
