package attempts

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"executor/internal/testkit"
	"executor/outcome"
	"executor/upstreams"
)

// judged reads a response by the default table.
func judged(o Observation) upstreams.Judgement {
	return upstreams.Judgement{Answer: outcome.DefaultAnswer(o.Status)}
}

// shared is a target whose connections are used again.
func (tr transport) shared(address string) Target {
	target := tr.target(address)
	target.Fresh, target.Idle = false, time.Minute
	return target
}

// numbered answers each request with its number on the connection.
func numbered(c *testkit.RawConn) {
	n := 0
	c.Serve(func(testkit.RawRequest) string {
		n++
		return testkit.Reply(200, fmt.Sprintf(`{"conn":%d,"n":%d}`, c.Number, n))
	})
}

func TestReuse(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, numbered)
		s := newSender(t)
		for n := 1; n <= 3; n++ {
			o := attempt(t, s, tr.shared(server.Address()), payment())
			received.check(t, o)
			if body := fmt.Sprintf(`{"conn":1,"n":%d}`, n); string(o.Body) != body || o.Reused != (n > 1) {
				t.Errorf("body %s, want %s; reused %v", o.Body, body, o.Reused)
			}
		}
		o := attempt(t, s, tr.target(server.Address()), payment())
		if o.Reused || string(o.Body) != `{"conn":2,"n":1}` {
			t.Errorf("a fresh target got %s, reused %v", o.Body, o.Reused)
		}
		if got := server.Requests()[3].Header.Get("Connection"); got != "close" {
			t.Errorf("Connection: %q, want close", got)
		}
		other := tr.shared(server.Address())
		other.Version = 2
		if o := attempt(t, s, other, payment()); o.Reused {
			t.Error("another version of the profile got the connection")
		}
	})
}

// What the peer closed while it was idle is replaced before anything is sent.
func TestClosedIdleConnectionIsReplaced(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		for _, end := range []func(*testkit.RawConn){func(*testkit.RawConn) {}, (*testkit.RawConn).Reset} {
			closing := make(chan struct{})
			server := tr.server(t, func(c *testkit.RawConn) {
				c.ReadRequest()
				c.Send(testkit.Reply(200, `{}`))
				<-closing
				end(c)
			})
			s := newSender(t)
			received.check(t, attempt(t, s, tr.shared(server.Address()), payment()))
			close(closing)
			waitForNoise(t, s)
			o := attempt(t, s, tr.shared(server.Address()), payment())
			received.check(t, o)
			if o.Reused || len(server.Requests()) != 2 {
				t.Errorf("reused %v, %d requests", o.Reused, len(server.Requests()))
			}
		}
	})
}

// net/http repeats a POST with an Idempotency-Key on a connection that dies, as
// often as it has idle ones. Here the upstream sees it once.
func TestNoSilentResend(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		for name, die := range map[string]func(*testkit.RawConn){"end": func(*testkit.RawConn) {}, "reset": (*testkit.RawConn).Reset} {
			t.Run(name, func(t *testing.T) {
				var dying atomic.Bool
				server := tr.server(t, func(c *testkit.RawConn) {
					for {
						if _, ok := c.ReadRequest(); !ok {
							return
						}
						if dying.Load() {
							die(c)
							return
						}
						c.Send(testkit.Reply(200, `{}`))
					}
				})
				s := newSender(t)
				const warm = 5
				var conns []*Conn
				for range warm {
					conns = append(conns, dial(t, s, tr.shared(server.Address())))
				}
				for _, c := range conns {
					received.check(t, s.Send(context.Background(), c, payment(), open, soon()))
				}
				dying.Store(true)
				o := attempt(t, s, tr.shared(server.Address()), payment())
				cutOff.check(t, o)
				if !o.Reused || len(server.Requests()) != warm+1 || server.Connections() != warm {
					t.Errorf("reused %v; the server saw %d requests on %d connections, want %d on %d",
						o.Reused, len(server.Requests()), server.Connections(), warm+1, warm)
				}
			})
		}
	})
}

// A response that nobody asked for must never become the answer to the next
// command, whenever it arrives and wherever it waits.
func row24Leftover(t *testing.T) {
	const leftover = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":666}"
	// next makes the second command's exchange and checks that its answer is its own.
	next := func(t *testing.T, s *Sender, tr transport, server *testkit.RawServer) {
		t.Helper()
		o := attempt(t, s, tr.shared(server.Address()), payment())
		received.check(t, o)
		if o.Reused || !strings.Contains(string(o.Body), `"conn":2`) || server.Connections() != 2 {
			t.Errorf("the second command got %s, reused %v, on %d connections", o.Body, o.Reused, server.Connections())
		}
	}
	each(t, func(t *testing.T, tr transport) {
		t.Run("with the first answer", func(t *testing.T) {
			for _, extra := range []string{leftover, "x", "\r\n"} {
				server := tr.server(t, func(c *testkit.RawConn) {
					c.Serve(func(testkit.RawRequest) string {
						return testkit.Reply(200, fmt.Sprintf(`{"conn":%d}`, c.Number)) + extra
					})
				})
				s := newSender(t)
				first := attempt(t, s, tr.shared(server.Address()), payment())
				received.check(t, first)
				if len(first.Notes) != 1 {
					t.Errorf("notes %q, want one on %q", first.Notes, extra)
				}
				next(t, s, tr, server)
			}
		})
		t.Run("in a piece of its own", func(t *testing.T) {
			server := tr.server(t, func(c *testkit.RawConn) {
				c.Serve(func(testkit.RawRequest) string {
					c.Send(testkit.Reply(200, fmt.Sprintf(`{"conn":%d}`, c.Number)))
					if c.Number == 1 {
						return leftover
					}
					return ""
				})
			})
			s := newSender(t)
			received.check(t, attempt(t, s, tr.shared(server.Address()), payment()))
			waitForNoise(t, s)
			next(t, s, tr, server)
		})
		t.Run("between put-back and reuse", func(t *testing.T) {
			late := make(chan struct{})
			server := tr.server(t, func(c *testkit.RawConn) {
				c.Serve(func(testkit.RawRequest) string {
					c.Send(testkit.Reply(200, fmt.Sprintf(`{"conn":%d}`, c.Number)))
					if c.Number == 1 {
						<-late
						return leftover
					}
					return ""
				})
			})
			s := newSender(t)
			received.check(t, attempt(t, s, tr.shared(server.Address()), payment()))
			if idle(s) != 1 {
				t.Fatalf("%d idle connections, want 1", idle(s))
			}
			close(late)
			waitForNoise(t, s)
			next(t, s, tr, server)
		})
		t.Run("between dial and gate", func(t *testing.T) {
			leftoverAfterDial(t, tr, leftover, func(t *testing.T, c *Conn, say func()) Gate {
				say()
				waitFor(t, "the leftover", func() bool { readable, _ := peek(c.wire.raw); return readable })
				return func() error { t.Error("the gate was asked"); return nil }
			})
		})
		t.Run("within the gate", func(t *testing.T) {
			leftoverAfterDial(t, tr, leftover, func(t *testing.T, c *Conn, say func()) Gate {
				return func() error {
					say()
					waitFor(t, "the leftover", func() bool { readable, _ := peek(c.wire.raw); return readable })
					return nil
				}
			})
		})
		t.Run("408 to an idle connection", func(t *testing.T) {
			server := tr.server(t, func(c *testkit.RawConn) {
				c.Serve(func(testkit.RawRequest) string {
					c.Send(testkit.Reply(200, fmt.Sprintf(`{"conn":%d}`, c.Number)))
					if c.Number == 1 {
						c.Send("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
					}
					return ""
				})
			})
			s := newSender(t)
			received.check(t, attempt(t, s, tr.shared(server.Address()), payment()))
			waitForNoise(t, s)
			next(t, s, tr, server)
		})
	})
	t.Run("half a TLS record", halfRecord)
}

// leftoverAfterDial lets the leftover arrive after a reused connection was handed
// out. The request is then provably not sent.
func leftoverAfterDial(t *testing.T, tr transport, leftover string, arrange func(*testing.T, *Conn, func()) Gate) {
	t.Helper()
	late := make(chan struct{})
	server := tr.server(t, func(c *testkit.RawConn) {
		c.ReadRequest()
		c.Send(testkit.Reply(200, `{}`))
		<-late
		c.Send(leftover)
		c.Drain()
	})
	s := newSender(t)
	received.check(t, attempt(t, s, tr.shared(server.Address()), payment()))
	c := dial(t, s, tr.shared(server.Address()))
	if !c.Reused() {
		t.Fatal("not a reused connection")
	}
	o := s.Send(context.Background(), c, payment(), arrange(t, c, func() { close(late) }), soon())
	want{outcome.EvidenceNotSent, outcome.StageWrite, outcome.CategoryConnectFailure, 0}.check(t, o)
	server.Close()
	if n := len(server.Requests()); n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
}

// halfRecord has the server begin a TLS record behind its answer: the second half
// would complete a response in the middle of the next exchange.
func halfRecord(t *testing.T) {
	tr := transports(t)[1]
	server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		cutter := &cutWrites{Conn: c.TCP}
		secure := tls.Server(cutter, tr.tls)
		req, err := http.ReadRequest(bufio.NewReader(secure))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		cutter.hold = true // collect the records, send all but the last ten bytes
		_, _ = secure.Write([]byte(testkit.Reply(200, fmt.Sprintf(`{"conn":%d}`, c.Number))))
		if c.Number == 1 {
			_, _ = secure.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
			cutter.flush(10)
		} else {
			cutter.flush(0)
		}
		_, _ = c.TCP.Read(make([]byte, 1))
	})
	s := newSender(t)
	received.check(t, attempt(t, s, tr.shared(server.Address()), payment()))
	if idle(s) != 0 {
		t.Error("the connection was kept with half a record on it")
	}
	received.check(t, attempt(t, s, tr.shared(server.Address()), payment()))
	if server.Connections() != 2 {
		t.Errorf("%d connections, want 2", server.Connections())
	}
}

// cutWrites holds back what is written until it is told how much to send.
type cutWrites struct {
	net.Conn
	hold bool
	held []byte
}

func (w *cutWrites) Write(p []byte) (int, error) {
	if !w.hold {
		return w.Conn.Write(p)
	}
	w.held = append(w.held, p...)
	return len(p), nil
}

// flush sends all but the last bytes.
func (w *cutWrites) flush(butLast int) { _, _ = w.Conn.Write(w.held[:len(w.held)-butLast]) }

// idle counts what the pool holds.
func idle(s *Sender) int {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	n := 0
	for _, list := range s.pool.idle {
		n += len(list)
	}
	return n
}

// waitForNoise waits until no idle connection is silent. What was not put back in
// the first place is not.
func waitForNoise(t *testing.T, s *Sender) {
	t.Helper()
	waitFor(t, "the leftover", func() bool {
		s.pool.mu.Lock()
		defer s.pool.mu.Unlock()
		for _, list := range s.pool.idle {
			for _, c := range list {
				if readable, err := peek(c.wire.raw); !readable && err == nil {
					return false
				}
			}
		}
		return true
	})
}

// A status may have been made on the way, by something that knows nothing of the
// origin's doing. The exchange reports it and the default table draws no
// conclusion from it.
func row25Statuses(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		for _, status := range []int{499, 500, 502, 503, 504, 520, 599, 999} {
			server := tr.server(t, func(c *testkit.RawConn) {
				c.Serve(func(testkit.RawRequest) string {
					return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}", status)
				})
			})
			o := attempt(t, newSender(t), tr.target(server.Address()), payment())
			want{outcome.EvidenceResponseReceived, outcome.StageDone, outcome.CategoryNone, status}.check(t, o)
			if got := AnswerOf(o, judged(o)); status >= 500 && got != outcome.AnswerUnclear {
				t.Errorf("%d: answer %q, want unclear", status, got)
			}
		}
		for _, reused := range []bool{false, true} {
			statuses := []int{408}
			if reused {
				statuses = []int{200, 408}
			}
			n := 0
			server := tr.server(t, func(c *testkit.RawConn) {
				c.Serve(func(testkit.RawRequest) string { n++; return testkit.Reply(statuses[n-1], `{}`) })
			})
			s := newSender(t)
			var o Observation
			for range statuses {
				o = attempt(t, s, tr.shared(server.Address()), payment())
			}
			expected := outcome.AnswerDeclined
			if reused {
				expected = outcome.AnswerUnclear
			}
			if got := AnswerOf(o, judged(o)); got != expected || o.Status != 408 || o.Reused != reused {
				t.Errorf("%s: answer %q, want %q", describe(o), got, expected)
			}
		}
	})
}

func TestNotPutBack(t *testing.T) {
	tests := map[string]string{
		"close asked":        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.0":           "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.0 keeps":     "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
		"101":                "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		"length and chunked": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"204 with a body":    "HTTP/1.1 204 OK\r\nContent-Length: 2\r\n\r\n{}",
		"too large":          "HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n" + strings.Repeat("x", 2<<20),
	}
	each(t, func(t *testing.T, tr transport) {
		for name, response := range tests {
			server := tr.server(t, func(c *testkit.RawConn) { c.Serve(func(testkit.RawRequest) string { return response }) })
			s := newSender(t)
			o := attempt(t, s, tr.shared(server.Address()), payment())
			if o.Evidence != outcome.EvidenceResponseReceived {
				t.Errorf("%s: %s", name, describe(o))
			}
			if idle(s) != 0 {
				t.Errorf("%s: the connection was put back", name)
			}
		}
	})
}

// A body may hold what looks like a header.
func TestABodyIsNotItsHead(t *testing.T) {
	tr := transports(t)[0]
	server := tr.server(t, func(c *testkit.RawConn) {
		c.Serve(func(testkit.RawRequest) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n\ncontent-length: 2\r\n0\r\n\r\n"
		})
	})
	s := newSender(t)
	if o := attempt(t, s, tr.shared(server.Address()), payment()); !o.BodyComplete || len(o.Notes) > 0 || idle(s) != 1 {
		t.Errorf("%s, notes %q, %d idle connections", describe(o), o.Notes, idle(s))
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		ended := make(chan bool, 4)
		server := tr.server(t, func(c *testkit.RawConn) { numbered(c); ended <- c.Drain() })
		s := newSender(t)
		target := tr.shared(server.Address())
		target.Idle = 20 * time.Millisecond
		received.check(t, attempt(t, s, target, payment()))
		<-ended // after its time
		if idle(s) != 0 {
			t.Error("an expired connection is still in the pool")
		}
		target.Idle = time.Minute
		received.check(t, attempt(t, s, target, payment()))
		s.Close()
		<-ended // with the sender
		received.check(t, attempt(t, s, target, payment()))
		<-ended // a closed sender keeps none
	})
}

func TestRelease(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, numbered)
		s := newSender(t)
		s.Release(dial(t, s, tr.shared(server.Address())))
		if idle(s) != 1 {
			t.Fatalf("%d idle connections, want 1", idle(s))
		}
		o := attempt(t, s, tr.shared(server.Address()), payment())
		if o.Reused || server.Connections() != 1 {
			t.Errorf("reused %v on %d connections: a connection without an exchange is new", o.Reused, server.Connections())
		}
		s.Release(dial(t, s, tr.target(server.Address())))
		if idle(s) != 1 {
			t.Errorf("%d idle connections, want 1: a fresh one is not kept", idle(s))
		}
	})
}

func TestPoolKeepsAtMostMaxInFlight(t *testing.T) {
	server := testkit.NewRawServer(t, numbered)
	s := newSender(t)
	target := transport{}.shared(server.Address())
	target.Limits.MaxInFlight = 2
	var conns []*Conn
	for range 4 {
		conns = append(conns, dial(t, s, target))
	}
	for _, c := range conns {
		received.check(t, s.Send(context.Background(), c, payment(), open, soon()))
	}
	if idle(s) != 2 {
		t.Errorf("%d idle connections, want 2", idle(s))
	}
}
