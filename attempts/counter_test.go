package attempts

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"executor/internal/testkit"
	"executor/outcome"
)

func TestCounterLetsOneRequestThrough(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	w := &wire{Conn: ours}
	c := newCounter(&Conn{wire: w, stream: w}, 10)

	if _, err := c.Write([]byte("12345")); !errors.Is(err, errGateClosed) {
		t.Errorf("before the gate opened: %v", err)
	}
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	if err := c.Open(); !errors.Is(err, errGateUsed) {
		t.Errorf("opened twice: %v", err)
	}
	if n, err := c.Write([]byte("1234567890")); n != 10 || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	if _, err := c.Write([]byte("P")); !errors.Is(err, errGateUsed) {
		t.Errorf("the first byte of a second request: %v", err)
	}
	got := c.seal(func() { _ = w.Close() })
	if got.total != 10 || got.entered != 10 || got.handed != 10 || got.nothing {
		t.Errorf("tally %+v", got)
	}
	if _, err := c.Write([]byte("1")); !errors.Is(err, errSealed) {
		t.Errorf("after the seal: %v", err)
	}
	if w.handed.Load() != 10 {
		t.Errorf("%d bytes passed", w.handed.Load())
	}
}

// A blocked write does not hold up the seal, and what it was given counts as
// perhaps sent although it took nothing.
func TestSealDoesNotWaitForABlockedWrite(t *testing.T) {
	ours, _ := net.Pipe() // nobody reads
	w := &wire{Conn: ours}
	c := newCounter(&Conn{wire: w, stream: w}, 4)
	if err := c.Open(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { _, err := c.Write([]byte("1234")); done <- err }()
	waitFor(t, "the write to enter", func() bool { return c.entered.Load() == 4 })
	got := c.seal(func() { _ = w.Close() })
	if err := <-done; err == nil {
		t.Error("the write succeeded")
	}
	if got.entered != 4 || got.handed != 0 || got.nothing || got.failure != nil {
		t.Errorf("tally %+v: want bytes entered and nothing proven", got)
	}
}

// rationed is a connection that takes so many more bytes and then fails.
type rationed struct {
	net.Conn
	limited bool
	left    int
}

func (r *rationed) Write(p []byte) (int, error) {
	if !r.limited {
		return r.Conn.Write(p)
	}
	n := min(r.left, len(p))
	r.left -= n
	if n < len(p) {
		_, _ = r.Conn.Write(p[:n])
		return n, errors.New("broken")
	}
	return r.Conn.Write(p)
}

// A write that fails by itself and took nothing proves that nothing was sent. With
// TLS, half a record may be on its way: no peer can decrypt it, yet it is not
// claimed that nothing left.
func TestFailedWriteProvesNothingSentOnlyIfNothingLeft(t *testing.T) {
	tests := []struct {
		ration  int // bytes that the socket takes
		nothing bool
		handed  bool
	}{{0, true, false}, {1, false, false}, {100, false, false}, {1000, false, false}, {3000, false, true}}
	for _, tt := range tests {
		socket, w, stream := failing(t)
		c := newCounter(&Conn{wire: w, stream: stream}, 8000)
		if err := c.Open(); err != nil {
			t.Fatal(err)
		}
		socket.limited, socket.left = true, tt.ration
		if n, err := c.Write(make([]byte, 8000)); err == nil || (n > 0) != tt.handed {
			t.Errorf("%d bytes taken: Write = %d, %v", tt.ration, n, err)
		}
		got := c.seal(func() { _ = w.Close() })
		if got.nothing != tt.nothing || (got.handed > 0) != tt.handed || got.failure == nil {
			t.Errorf("%d bytes taken: tally %+v, want nothing %v", tt.ration, got, tt.nothing)
		}
	}
}

// failing is a TLS connection over a socket that can be made to fail.
func failing(t *testing.T) (*rationed, *wire, *tls.Conn) {
	t.Helper()
	tr := transports(t)[1]
	server := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() }, testkit.RawTLS(tr.tls))
	conn, err := net.Dial("tcp", server.Address())
	if err != nil {
		t.Fatal(err)
	}
	socket := &rationed{Conn: conn}
	w := &wire{Conn: socket}
	secure, _, err := handshake(context.Background(), w, secured(tr.true, "127.0.0.1"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return socket, w, secure
}

// lagging holds back the return of a write, as a goroutine that is not scheduled
// does, until the answer to what it wrote has been read.
type lagging struct {
	net.Conn
	once     sync.Once
	answered chan struct{}
	until    func() bool // if not nil, hold it back until this holds
}

func (l *lagging) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	<-l.answered
	for l.until != nil && !l.until() {
		time.Sleep(time.Millisecond)
	}
	return n, err
}

func (l *lagging) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.once.Do(func() { close(l.answered) })
	}
	return n, err
}

// The peer has the request and answers before the write call that carried it has
// returned: the response is not early, and every byte is counted.
func TestResponseBeforeTheWriteReturns(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, numbered)
		s := newSender(t)
		c := dial(t, s, tr.target(server.Address()))
		slow := &lagging{Conn: c.stream, answered: make(chan struct{})}
		c.stream, c.responses = slow, newResponses(slow)
		o := s.Send(context.Background(), c, payment(), open, soon())
		received.check(t, o)
		if o.EarlyResponse || o.BytesHandedOver != o.BytesTotal {
			t.Error(describe(o))
		}
	})
}

// If the write does not return, nobody can say that the request was whole.
func TestResponseAndTheWriteDoesNotReturn(t *testing.T) {
	server := testkit.NewRawServer(t, numbered)
	s := newSender(t)
	c := dial(t, s, transport{}.target(server.Address()))
	closed := func() bool { _, err := peek(c.wire.raw); return err != nil }
	slow := &lagging{Conn: c.stream, answered: make(chan struct{}), until: closed}
	c.stream, c.responses = slow, newResponses(slow)
	o := s.Send(context.Background(), c, payment(), open, soon())
	if !o.EarlyResponse || AnswerOf(o, judged(o)) != outcome.AnswerUnclear {
		t.Error(describe(o))
	}
}

// Many exchanges at once, with a peer that answers as fast as it can: no response
// is early, no byte is missing, none comes to the wrong request.
func TestManyExchanges(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, func(c *testkit.RawConn) {
			c.Serve(func(r testkit.RawRequest) string { return testkit.Reply(200, string(r.Body)) })
		})
		s := newSender(t)
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for n := range 50 {
					r := payment()
					r.Body = []byte{'"', byte('a' + worker), byte('a' + n%26), '"'}
					c, o, ok := s.Dial(context.Background(), tr.shared(server.Address()))
					if ok {
						o = s.Send(context.Background(), c, r, open, soon())
					}
					if o.Evidence != outcome.EvidenceResponseReceived || o.EarlyResponse || string(o.Body) != string(r.Body) || o.BytesHandedOver != o.BytesTotal {
						t.Errorf("sent %s, got %s: %s", r.Body, o.Body, describe(o))
					}
				}
			})
		}
		all.Wait()
		if n := len(server.Requests()); n != 400 {
			t.Errorf("the server saw %d requests, want 400", n)
		}
	})
}
