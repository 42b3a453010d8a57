package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"executor/internal/testkit"
)

// house serves a handler behind so many doors.
func house(t *testing.T, connections int, handler http.HandlerFunc, change ...func(*http.Server)) *httpServer {
	t.Helper()
	s, err := listen("test", "TEST", "127.0.0.1:0", connections, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(s.server)
	}
	failed := make(chan error, 1)
	s.serve(handler, failed)
	t.Cleanup(func() {
		_ = s.server.Close()
		s.shut()
	})
	return s
}

// caller is a connection that is kept.
type caller struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (s *httpServer) call(t *testing.T) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", s.address().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &caller{t, conn, bufio.NewReader(conn)}
}

func (c *caller) ask(path string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		c.t.Fatal(err)
	}
}

// idles waits until so many connections are idle: the server says so after the
// answer is on its way.
func (s *httpServer) idles(t *testing.T, n int) {
	t.Helper()
	d := s.listener.(*doors)
	testkit.Eventually(t, patience, "a connection is idle", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.idle.Len() == n
	})
}

// answer reads the next answer to its end; 0 if the connection ended first.
func (c *caller) answer() int {
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestIdleConnectionsGiveWay: who holds connections without using them keeps nobody
// out.
func TestIdleConnectionsGiveWay(t *testing.T) {
	s := house(t, 3, func(http.ResponseWriter, *http.Request) {})
	var held []*caller
	use := func(c *caller) {
		t.Helper()
		c.ask("/")
		if c.answer() != 200 {
			t.Fatal("no answer")
		}
		s.idles(t, len(held))
	}
	for range 3 {
		held = append(held, s.call(t))
		use(held[len(held)-1])
	}
	use(held[0]) // not the longest idle one any more
	fresh := s.call(t)
	fresh.ask("/")
	if status := fresh.answer(); status != 200 {
		t.Fatalf("a fourth of three connections is answered %d", status)
	}
	if _, err := held[1].r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the one that was idle longest is not closed: %v", err)
	}
	for _, i := range []int{0, 2} {
		if held[i].ask("/"); held[i].answer() != 200 {
			t.Errorf("connection %d was closed too", i)
		}
	}
}

// TestAClosedConnectionGivesNoWay: one that was closed while its last answer was on
// its way is not idle afterwards; whoever waits gets the door of one that is.
func TestAClosedConnectionGivesNoWay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := newDoors(l, 2)
	defer d.Close()
	enter := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		in, err := d.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	closed := enter()
	_ = closed.Close()
	d.state(closed, http.StateIdle)
	d.state(enter(), http.StateIdle)
	busy := enter()
	d.state(busy, http.StateActive)
	entered := make(chan struct{})
	waiting, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	go func() {
		if _, err := d.Accept(); err == nil {
			close(entered)
		}
	}()
	select {
	case <-entered:
	case <-time.After(patience):
		t.Fatal("nobody gives way")
	}
}

// TestBusyConnectionsAreWaitedFor: a connection above the bound is served when one
// ends, and a stop does not hang on it.
func TestBusyConnectionsAreWaitedFor(t *testing.T) {
	let, inside := make(chan struct{}), make(chan string, 8)
	s := house(t, 2, func(_ http.ResponseWriter, r *http.Request) {
		inside <- r.URL.Path
		<-let
	})
	first, second, third := s.call(t), s.call(t), s.call(t)
	first.ask("/1")
	second.ask("/2")
	third.ask("/3")
	for range 2 {
		<-inside
	}
	select {
	case path := <-inside:
		t.Fatalf("%s came in through a third of two doors", path)
	default:
	}
	let <- struct{}{} // one of the two ends, and is idle: it gives way
	<-inside
	close(let)
	answered := 0
	for _, c := range []*caller{first, second, third} {
		if c.answer() == 200 {
			answered++
		}
	}
	if answered != 3 {
		t.Errorf("%d of three were answered", answered)
	}
}

// TestAStopEndsTheWaitForADoor: nobody is left behind in Accept.
func TestAStopEndsTheWaitForADoor(t *testing.T) {
	inside := make(chan struct{}, 1)
	s := house(t, 1, func(_ http.ResponseWriter, r *http.Request) {
		inside <- struct{}{}
		<-r.Context().Done()
	})
	busy := s.call(t)
	busy.ask("/")
	<-inside
	waiting := s.call(t)
	waiting.ask("/")
	stopped := make(chan error, 1)
	go func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		stopped <- s.stop(ended)
	}()
	select {
	case err := <-stopped:
		if err == nil {
			t.Error("a request that was cut off is not told of")
		}
	case <-time.After(patience):
		t.Fatal("the stop hangs")
	}
	if status := waiting.answer(); status != 0 {
		t.Errorf("after the stop somebody was answered %d", status)
	}
}

// hasty shortens every patience that the server has with clients.
func hasty(s *http.Server) {
	s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 150*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
}

// TestSlowClientsAreCut: whoever drips, or stands still, at whatever place, loses the
// connection; others are served meanwhile.
func TestSlowClientsAreCut(t *testing.T) {
	body := make(chan error, 8)
	s := house(t, 100, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, err := io.Copy(w, endless{})
			body <- err
			return
		}
		_, err := io.Copy(io.Discard, r.Body)
		body <- err
	}, hasty)
	slow := map[string]*caller{}
	for name, begin := range map[string]string{
		"nothing": "", "half a request line": "GET /", "half a header": "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"half a body":  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
		"half a chunk": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nha",
		"no reading":   "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c := s.call(t)
		if _, err := io.WriteString(c, begin); err != nil {
			t.Fatal(err)
		}
		slow[name] = c
	}
	go slow["half a header"].drip()
	go slow["half a body"].drip()
	quick := s.call(t)
	quick.ask("/")
	if quick.answer() != 200 {
		t.Error("slow ones hold up a quick one")
	}
	<-body
	for range 3 { // two bodies that never come, an answer that nobody reads
		select {
		case err := <-body:
			if err == nil {
				t.Error("a slow client was waited for to the end")
			}
		case <-time.After(patience):
			t.Fatal("a slow client is still waited for")
		}
	}
	for name, c := range slow {
		if _, err := io.Copy(io.Discard, c.r); timedOut(err) {
			t.Errorf("%s: the connection stays", name)
		}
	}
}

// timedOut reports whether a read of ours waited in vain.
func timedOut(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// drip sends a byte now and then.
func (c *caller) drip() {
	for {
		if _, err := c.Write([]byte("x")); err != nil {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestHeadersAreBounded: large ones, many and malformed ones are refused before any
// handler sees them.
func TestHeadersAreBounded(t *testing.T) {
	s := house(t, 100, func(http.ResponseWriter, *http.Request) { t.Error("a handler ran") })
	for name, tt := range map[string]struct {
		request string
		status  int
	}{
		"one large":        {"GET / HTTP/1.1\r\nHost: x\r\nX-Large: " + strings.Repeat("x", maxHeaderBytes+8192) + "\r\n\r\n", 431},
		"many":             {"GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: b\r\n", 10_000) + "\r\n", 431},
		"a long line":      {"GET /" + strings.Repeat("x", maxHeaderBytes+8192) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
		"no host":          {"GET / HTTP/1.1\r\n\r\n", 400},
		"a folded header":  {"GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n\x00c: d\r\n\r\n", 400},
		"two lengths":      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"an odd encoding":  {"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
		"an odd version":   {"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505},
		"a length below 0": {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
	} {
		c := s.call(t)
		if _, err := io.WriteString(c, tt.request); err != nil && tt.status != 431 {
			t.Fatal(err)
		}
		if status := c.answer(); status != tt.status {
			t.Errorf("%s: answered %d, want %d", name, status, tt.status)
		}
	}
}

// TestTheServersPatience: what operators read of it.
func TestTheServersPatience(t *testing.T) {
	s := house(t, 1, nil).server
	if s.ReadHeaderTimeout != 5*time.Second || s.ReadTimeout != 30*time.Second || s.WriteTimeout != 30*time.Second || s.IdleTimeout != 90*time.Second || s.MaxHeaderBytes != 32<<10 {
		t.Errorf("%+v", s)
	}
}
