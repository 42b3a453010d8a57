package simulator

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"time"
)

const (
	headBytes    = 1 << 20  // longest request head
	bodyBytes    = 16 << 20 // longest request body
	writeTimeout = 30 * time.Second
)

// conn is one connection and the request being read from it.
type conn struct {
	net.Conn
	sim    *Simulator
	number int64
	meter  *meter
	r      *bufio.Reader
}

func (s *Simulator) newConn(c net.Conn, unread io.Reader, number int64) *conn {
	m := &meter{r: io.MultiReader(unread, c)}
	return &conn{Conn: c, sim: s, number: number, meter: m, r: bufio.NewReader(m)}
}

// serve handles requests until one of them, or the client, ends the connection.
func (c *conn) serve() {
	defer c.Close()
	for c.serveOne() {
	}
}

func (c *conn) serveOne() (keep bool) {
	buffered, _ := c.r.Peek(c.r.Buffered())
	c.meter.begin(buffered, headBytes)
	head, err := http.ReadRequest(c.r)
	if err != nil {
		c.brokenHead(err)
		return false
	}
	c.meter.limit = c.meter.seen + bodyBytes
	if strings.HasPrefix(head.URL.Path, "/_") && !isDelivery(head) || (head.URL.Path == "/" && head.Method == http.MethodGet) {
		return c.serveAdmin(head)
	}
	return newExchange(c, head).run()
}

// brokenHead records a head that never became whole, as far as it came.
func (c *conn) brokenHead(err error) {
	if len(c.meter.head) == 0 {
		return // the client went between two requests
	}
	line, headers := partialHead(c.meter.head)
	method, rest, _ := strings.Cut(line, " ")
	path, _, _ := strings.Cut(rest, " ")
	now := time.Now()
	rec := &Request{Kind: KindCommand, Time: now, Connection: c.number, Method: method, Path: path, Headers: withoutCredentials(headers), Key: keyOf(headers), EndedAt: &now}
	if c.meter.err == nil { // the client waits for an answer to what it sent wrong
		wire := problem(http.StatusBadRequest, "malformed_request", err.Error()).encode(true)
		rec.Status, rec.AnswerBytes = http.StatusBadRequest, int64(len(wire))
		c.sim.record(rec)
		_, _ = c.send(wire)
		return
	}
	c.sim.record(rec)
}

// partialHead reads the whole lines of an incomplete head.
func partialHead(raw []byte) (line string, headers http.Header) {
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	r := textproto.NewReader(bufio.NewReader(bytes.NewReader(raw)))
	line, _ = r.ReadLine()
	fields, _ := r.ReadMIMEHeader()
	return line, http.Header(fields)
}

// send writes bytes and says how many the network took.
func (c *conn) send(b []byte) (int64, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Write(b)
	return int64(n), err
}

// abort closes with a reset instead of an orderly end.
func (c *conn) abort() {
	inner := c.Conn
	if t, ok := inner.(*tls.Conn); ok {
		inner = t.NetConn()
	}
	if t, ok := inner.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = inner.Close()
}

// watch calls gone when the client ends the connection. It swallows whatever
// still comes, so the connection is of no more use; stop ends the watch.
func (c *conn) watch(gone func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, c.r)
		gone()
	}()
	return func() {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
		<-done
	}
}

// meter counts what is read, keeps the head of it, and ends a request that is
// too large.
type meter struct {
	r     io.Reader
	seen  int64
	limit int64
	head  []byte
	err   error // of the connection: its end, mostly
}

func (m *meter) begin(buffered []byte, limit int64) {
	m.seen, m.limit = int64(len(buffered)), limit
	m.head = append(m.head[:0], buffered...)
}

func (m *meter) Read(p []byte) (int, error) {
	if m.seen >= m.limit {
		return 0, errors.New("the request is too large")
	}
	n, err := m.r.Read(p)
	m.seen += int64(n)
	m.err = err
	if room := 16<<10 - len(m.head); room > 0 {
		m.head = append(m.head, p[:min(n, room)]...)
	}
	return n, err
}
