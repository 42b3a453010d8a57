//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package testkit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// rawPatience bounds every wait of a scripted server, so that a test that goes
// wrong ends.
const rawPatience = 30 * time.Second

// RawServer is an upstream made of bytes: a script handles each connection and
// does what no well-behaved server would. What it received is the truth that
// evidence is compared with.
type RawServer struct {
	listener net.Listener
	config   *tls.Config // nil for plain TCP
	script   func(*RawConn)
	running  sync.WaitGroup

	mu       sync.Mutex
	conns    []*RawConn
	requests []RawRequest
	closed   bool
}

// RawRequest is one complete request as it arrived.
type RawRequest struct {
	Connection int // from 1, in the order of acceptance
	Method     string
	Target     string
	Header     http.Header // with Host
	Body       []byte
}

// RawConn is the server's end of one connection. Its Read and Write are TLS's if
// the server speaks it. The script's return closes it.
type RawConn struct {
	net.Conn
	Number int          // from 1, in the order of acceptance
	TCP    *net.TCPConn // what lies below

	server *RawServer
	buf    *bufio.Reader
	mu     sync.Mutex
	got    int64
}

// RawOption changes a RawServer before it listens.
type RawOption func(*rawOptions)

type rawOptions struct {
	address string
	config  *tls.Config
	buffer  int
}

// RawAddress makes it listen there instead of on a free port of 127.0.0.1.
func RawAddress(address string) RawOption { return func(o *rawOptions) { o.address = address } }

// RawTLS makes it speak TLS.
func RawTLS(config *tls.Config) RawOption { return func(o *rawOptions) { o.config = config } }

// RawReadBuffer bounds the kernel's buffer for what the script does not read.
func RawReadBuffer(bytes int) RawOption { return func(o *rawOptions) { o.buffer = bytes } }

// NewRawServer starts a server that ends with the test.
func NewRawServer(t testing.TB, script func(*RawConn), options ...RawOption) *RawServer {
	t.Helper()
	o := rawOptions{address: "127.0.0.1:0"}
	for _, option := range options {
		option(&o)
	}
	var config net.ListenConfig
	if o.buffer > 0 {
		config.Control = smallBuffer(o.buffer)
	}
	listener, err := config.Listen(context.Background(), "tcp", o.address)
	if err != nil {
		t.Fatalf("raw server: %v", err)
	}
	s := &RawServer{listener: listener, config: o.config, script: script}
	s.running.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and every connection, and waits for the scripts.
func (s *RawServer) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	conns := s.conns
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.TCP.Close()
	}
	s.running.Wait()
}

// Address is where it listens, as host:port.
func (s *RawServer) Address() string { return s.listener.Addr().String() }

// Port is the port it listens on.
func (s *RawServer) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// Connections counts the TCP connections accepted.
func (s *RawServer) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Requests are the complete requests that scripts read.
func (s *RawServer) Requests() []RawRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]RawRequest(nil), s.requests...)
}

// Received counts the bytes that scripts read on all connections, above TLS.
func (s *RawServer) Received() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum int64
	for _, c := range s.conns {
		sum += c.Received()
	}
	return sum
}

func (s *RawServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		if c := s.add(conn.(*net.TCPConn)); c != nil {
			s.running.Go(func() { s.handle(c) })
		}
	}
}

func (s *RawServer) add(tcp *net.TCPConn) *RawConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = tcp.Close()
		return nil
	}
	c := &RawConn{Conn: tcp, Number: len(s.conns) + 1, TCP: tcp, server: s}
	s.conns = append(s.conns, c)
	return c
}

func (s *RawServer) handle(c *RawConn) {
	_ = c.TCP.SetDeadline(time.Now().Add(rawPatience))
	if s.config != nil {
		c.Conn = tls.Server(c.TCP, s.config)
		if err := c.Conn.(*tls.Conn).Handshake(); err != nil {
			_ = c.TCP.Close()
			return
		}
	}
	c.buf = bufio.NewReader(counted{c})
	s.script(c)
	_ = c.Conn.Close()
}

// counted counts what the script's side took out of the connection.
type counted struct{ c *RawConn }

func (r counted) Read(p []byte) (int, error) {
	n, err := r.c.Conn.Read(p)
	r.c.mu.Lock()
	r.c.got += int64(n)
	r.c.mu.Unlock()
	return n, err
}

// Received counts the bytes read from this connection, above TLS.
func (c *RawConn) Received() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got
}

// Read reads what the client sent.
func (c *RawConn) Read(p []byte) (int, error) { return c.buf.Read(p) }

// ReadRequest reads one complete request and records it. It returns false when
// there is none.
func (c *RawConn) ReadRequest() (RawRequest, bool) {
	req, err := http.ReadRequest(c.buf)
	if err != nil {
		return RawRequest{}, false
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return RawRequest{}, false
	}
	header := req.Header.Clone()
	header.Set("Host", req.Host)
	r := RawRequest{Connection: c.Number, Method: req.Method, Target: req.RequestURI, Header: header, Body: body}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.requests = append(c.server.requests, r)
	return r, true
}

// ReadHead reads up to the end of a request's head and leaves its body unread.
func (c *RawConn) ReadHead() bool {
	_, err := http.ReadRequest(c.buf)
	return err == nil
}

// ReadN reads exactly n bytes, fewer only if the client ends.
func (c *RawConn) ReadN(n int) []byte {
	p := make([]byte, n)
	got, _ := io.ReadFull(c.buf, p)
	return p[:got]
}

// Drain reads until the client ends the connection, and says whether it did so
// with an end of stream (false: with a reset or not in time).
func (c *RawConn) Drain() bool {
	_, err := io.Copy(io.Discard, c.buf)
	return err == nil
}

// Send writes text as it is. A failed write is not an error of the test.
func (c *RawConn) Send(text string) { _, _ = io.WriteString(c.Conn, text) }

// Reset ends the connection with a TCP reset.
func (c *RawConn) Reset() {
	_ = c.TCP.SetLinger(0)
	_ = c.TCP.Close()
}

// Serve answers every request on the connection with what answer returns, until
// the client ends it or answer returns "".
func (c *RawConn) Serve(answer func(RawRequest) string) {
	for {
		req, ok := c.ReadRequest()
		if !ok {
			return
		}
		text := answer(req)
		if text == "" {
			return
		}
		c.Send(text)
	}
}

// Reply is a response with a JSON body and a Content-Length.
func Reply(status int, body string) string {
	var b bytes.Buffer
	res := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body)),
	}
	if err := res.Write(&b); err != nil {
		panic(errors.Join(errors.New("testkit.Reply"), err))
	}
	return b.String()
}

// BlackHole is an address of this machine where connecting neither succeeds nor
// fails: a listener whose queue is full.
func BlackHole(t testing.TB) string {
	t.Helper()
	address, fill := fullListener(t)
	for range fill {
		conn, err := net.DialTimeout("tcp", address, 100*time.Millisecond)
		if err != nil {
			return address // it is full
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("black hole: the queue of the listener does not fill")
	return ""
}
