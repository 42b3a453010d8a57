//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"executor/client"
	"executor/internal/testkit"
)

// bytesUpstream is an upstream made of bytes.
type bytesUpstream struct {
	server *testkit.RawServer
	ready  chan struct{} // closed once server is set
	heads  atomic.Int32  // requests of which only the head was read
	over   chan struct{} // closed when all stories are told
}

// peer is its end of one connection.
type peer struct {
	*testkit.RawConn
	of *bytesUpstream
}

// ReadHead reads a request's head and leaves the body unread.
func (p *peer) ReadHead() bool {
	ok := p.RawConn.ReadHead()
	if ok {
		p.of.heads.Add(1)
	}
	return ok
}

// arrival is one request that reached the upstream.
type arrival struct {
	method, target, key, digest string
	whole                       bool
	header                      http.Header
	body                        []byte // as far as it is kept
}

// never is an answer that does not come while the client waits.
const never = "\x00never"

// answers gives each request its answer in the order of their arrival, the last one
// to all that follow. The empty answer ends the connection without a word. Connections
// do not count: one over which nothing was sent is no request.
func answers(texts ...string) func(*peer) {
	var arrived atomic.Int32
	return func(p *peer) {
		if _, ok := p.ReadRequest(); !ok {
			return
		}
		switch text := texts[min(int(arrived.Add(1)), len(texts))-1]; text {
		case never:
			p.Drain()
		default:
			p.Send(text)
		}
	}
}

// response is one with headers of its own, each with its line end.
func response(status, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, headers, len(body), body)
}

// early answers a large request once its head is there, and reads no more of it.
func early(text string) func(*peer) {
	return func(p *peer) {
		p.ReadHead()
		p.Send(text)
		<-p.of.over
	}
}

// tight are the buffers in which a large request does not vanish.
func tight() []testkit.RawOption { return []testkit.RawOption{testkit.RawReadBuffer(4 << 10)} }

// largeBody is more than the buffers between two ends take in.
func largeBody(sub *client.Submission) {
	sub.Body = fmt.Appendf(nil, `{"of":%q,"pad":"%s"}`, sub.Key, bytes.Repeat([]byte("x"), 900<<10))
}

// padded is a JSON object of about that many bytes, with an id.
func padded(size int) string {
	return `{"id":"p1","pad":"` + strings.Repeat("x", size) + `"}`
}

// zipped is the text in gzip.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// nested is a JSON list in a list in a list.
func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

// holding is an upstream that keeps each request until it is told what to answer.
type holding struct{ answer chan string }

func newHolding() holding { return holding{make(chan string)} }

func (h holding) script(p *peer) {
	if _, ok := p.ReadRequest(); !ok {
		return
	}
	select {
	case text := <-h.answer:
		p.Send(text)
	case <-p.of.over:
	}
}
