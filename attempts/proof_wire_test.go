package attempts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"executor/internal/testkit"
	"executor/outcome"
)

// readAhead is a server's TCP connection that takes in everything at once, so
// that a test can wait for bytes that TLS has not been asked for yet.
type readAhead struct {
	net.Conn
	mu    sync.Mutex
	more  *sync.Cond
	taken []byte // not yet read
	total int64
	err   error
}

func newReadAhead(conn net.Conn) *readAhead {
	r := &readAhead{Conn: conn}
	r.more = sync.NewCond(&r.mu)
	go func() {
		for p := make([]byte, 4096); r.err == nil; {
			n, err := conn.Read(p)
			r.mu.Lock()
			r.taken, r.total, r.err = append(r.taken, p[:n]...), r.total+int64(n), err
			r.more.Broadcast()
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *readAhead) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.taken) == 0 && r.err == nil {
		r.more.Wait()
	}
	if len(r.taken) == 0 {
		return 0, r.err
	}
	n := copy(p, r.taken)
	r.taken = r.taken[n:]
	return n, nil
}

// beyond waits until more than that many bytes have come.
func (r *readAhead) beyond(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.total <= n && r.err == nil {
		r.more.Wait()
	}
}

// With TLS 1.3 the client's handshake ends before the server has looked at its
// certificate: the refusal comes after the request, which counts as sent. That a
// conforming server cannot have read it is the peer's word, not proof.
func row10ClientCertificate(t *testing.T) {
	ca := testkit.NewAuthority(t)
	own := ca.Issue("127.0.0.1")
	handshake := make(chan int64, 1) // how many bytes the client's handshake took
	server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		ahead := newReadAhead(c.TCP)
		secure := tls.Server(ahead, &tls.Config{
			Certificates: []tls.Certificate{own}, ClientAuth: tls.RequireAnyClientCert,
			VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error {
				ahead.beyond(<-handshake)
				return errors.New("not welcome")
			},
		})
		if err := secure.Handshake(); err == nil {
			t.Error("the server completed the handshake")
		}
		_, _ = io.Copy(io.Discard, ahead)
	})
	tr := transport{tls: &tls.Config{}, true: &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{ca.Issue("client.test")}}}
	s := newSender(t)
	c := dial(t, s, tr.target(server.Address()))
	handshake <- c.wire.handed.Load()
	o := s.Send(context.Background(), c, payment(), open, soon())
	want{outcome.EvidenceSentNoResponse, outcome.StageHeaders, outcome.CategoryTLSFailure, 0}.check(t, o)
	if o.BytesHandedOver != o.BytesTotal {
		t.Errorf("handed over %d of %d", o.BytesHandedOver, o.BytesTotal)
	}
}

func row11ClosedBefore(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		tests := map[string]struct {
			script   func(*testkit.RawConn)
			category outcome.Category
		}{
			"end":    {func(c *testkit.RawConn) {}, outcome.CategoryConnectionReset},
			"reset":  {func(c *testkit.RawConn) { c.Reset() }, outcome.CategoryConnectionReset},
			"speaks": {func(c *testkit.RawConn) { c.Send(testkit.Reply(200, `{}`)); c.Drain() }, outcome.CategoryConnectFailure},
		}
		for name, tt := range tests {
			t.Run(name, func(t *testing.T) {
				dialled := make(chan struct{})
				server := tr.server(t, func(c *testkit.RawConn) { <-dialled; tt.script(c) })
				s := newSender(t)
				c := dial(t, s, tr.target(server.Address()))
				close(dialled)
				waitFor(t, "the peer's move", func() bool { return c.silent() != nil })
				o := s.Send(context.Background(), c, payment(), open, soon())
				want{outcome.EvidenceNotSent, outcome.StageWrite, tt.category, 0}.check(t, o)
				server.Close()
				if server.Received() != 0 {
					t.Errorf("the server got %d bytes", server.Received())
				}
			})
		}
	})
}

// The peer's reset arrives between the last look and the first write: the write
// call takes nothing and says so.
func row12WriteTookNothing(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		reset := make(chan struct{})
		server := tr.server(t, func(c *testkit.RawConn) { <-reset; c.Reset() })
		s := newSender(t)
		c := dial(t, s, tr.target(server.Address()))
		x := newExchange(c, "POST", []byte("POST / HTTP/1.1\r\n\r\n"), nil, soon())
		if o, ok := x.admit(context.Background(), open); !ok {
			t.Fatal(describe(o))
		}
		close(reset)
		waitFor(t, "the reset", func() bool { _, err := peek(c.wire.raw); return err != nil })
		x.write()
		x.read()
		tally, _ := x.finish()
		o := x.conclude(tally, x.classify(tally))
		want{outcome.EvidenceNotSent, outcome.StageWrite, outcome.CategoryWriteFailure, 0}.check(t, o)
		if tally.entered == 0 || !tally.nothing {
			t.Errorf("tally %+v: want bytes that entered a write and were refused", tally)
		}
	})
}

func row13ResetMidWrite(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, func(c *testkit.RawConn) { c.ReadN(64 << 10); c.Reset() }, testkit.RawReadBuffer(16<<10))
		o := attempt(t, newSender(t), tr.target(server.Address()), large())
		unwritten.check(t, o)
		if o.BytesHandedOver == 0 || o.BytesHandedOver >= o.BytesTotal {
			t.Errorf("handed over %d of %d", o.BytesHandedOver, o.BytesTotal)
		}
	})
}

func row14EndAfter(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest() })
		o := attempt(t, newSender(t), tr.target(server.Address()), payment())
		cutOff.check(t, o)
		if o.BytesHandedOver != o.BytesTotal || len(server.Requests()) != 1 {
			t.Errorf("handed over %d of %d, %d requests", o.BytesHandedOver, o.BytesTotal, len(server.Requests()))
		}
	})
}

func row15ResetAfter(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Reset() })
		o := attempt(t, newSender(t), tr.target(server.Address()), payment())
		cutOff.check(t, o)
		if o.BytesHandedOver != o.BytesTotal || len(server.Requests()) != 1 {
			t.Errorf("handed over %d of %d, %d requests", o.BytesHandedOver, o.BytesTotal, len(server.Requests()))
		}
	})
}

func row16HeaderTimeout(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Drain() })
		target := tr.target(server.Address())
		target.Timeouts.ResponseHeader = 50 * time.Millisecond
		o := attempt(t, newSender(t), target, payment())
		want{outcome.EvidenceSentNoResponse, outcome.StageHeaders, outcome.CategoryHeaderTimeout, 0}.check(t, o)
	})
}

func row17Deadline(t *testing.T) {
	late := want{outcome.EvidenceSentNoResponse, outcome.StageHeaders, outcome.CategoryAttemptTimeout, 0}
	each(t, func(t *testing.T, tr transport) {
		t.Run("deadline", func(t *testing.T) {
			server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Drain() })
			s := newSender(t)
			o := s.Send(context.Background(), dial(t, s, tr.target(server.Address())), payment(), open, time.Now().Add(250*time.Millisecond))
			late.check(t, o)
		})
		t.Run("cut off", func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); cancel(); c.Drain() })
			s := newSender(t)
			late.check(t, s.Send(ctx, dial(t, s, tr.target(server.Address())), payment(), open, soon()))
		})
	})
}

func row18Head(t *testing.T) {
	heads := map[string]string{
		"no status line":       "HTTP/1.1 ",
		"half a header":        "HTTP/1.1 200 OK\r\nContent-Le",
		"no empty line":        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
		"another protocol":     "SSH-2.0-OpenSSH_9\r\n\r\n",
		"HTTP/2":               "HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/0.9":             "<html>hello</html>",
		"status of two digits": "HTTP/1.1 20 OK\r\n\r\n",
		"negative status":      "HTTP/1.1 -20 OK\r\n\r\n",
		"signed status":        "HTTP/1.1 +20 OK\r\n\r\n",
		"status below 100":     "HTTP/1.1 042 OK\r\n\r\n",
		"no header":            "HTTP/1.1 200 OK\r\nsecret-token\r\n\r\n",
		"NUL in a header":      "HTTP/1.1 200 OK\r\nA: b\x00c\r\n\r\n",
		"two lengths":          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
		"negative length":      "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"other coding":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: secret-token\r\n\r\n",
	}
	each(t, func(t *testing.T, tr transport) {
		for name, head := range heads {
			server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Send(head) })
			o := attempt(t, newSender(t), tr.target(server.Address()), payment())
			cutOff.check(t, o)
			if strings.Contains(o.Detail, "secret") || o.BytesHandedOver != o.BytesTotal {
				t.Errorf("%s: detail %q, handed over %d of %d", name, o.Detail, o.BytesHandedOver, o.BytesTotal)
			}
		}
	})
}

func row19Interim(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		for _, interim := range []string{"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 102 Processing\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"} {
			server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Send(interim) })
			o := attempt(t, newSender(t), tr.target(server.Address()), payment())
			cutOff.check(t, o)
			if o.Interim != 1 {
				t.Errorf("%d interim responses, want 1", o.Interim)
			}
		}
	})
}

// We never ask with Expect; a server may refuse all the same once it has seen the
// head. The refusal is read although the body cannot be written any more.
func row20EarlyRefusal(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		for _, status := range []int{401, 413} {
			server := tr.server(t, func(c *testkit.RawConn) {
				c.ReadHead()
				c.Send(testkit.Reply(status, `{"error":"no"}`))
				c.ReadN(1 << 20) // lets the answer through before the reset
				c.Reset()
			}, testkit.RawReadBuffer(16<<10))
			o := attempt(t, newSender(t), tr.target(server.Address()), large())
			want{outcome.EvidenceResponseReceived, outcome.StageDone, outcome.CategoryNone, status}.check(t, o)
			if !o.EarlyResponse || o.BytesHandedOver >= o.BytesTotal || string(o.Body) != `{"error":"no"}` {
				t.Errorf("%s, body %q", describe(o), o.Body)
			}
			if got := AnswerOf(o, judged(o)); got != outcome.AnswerRefused {
				t.Errorf("answer %q, want refused", got)
			}
		}
	})
}

func row21BodyCut(t *testing.T) {
	responses := map[string]string{
		"length":          "HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n{\"id\":1}",
		"chunk":           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"id\":1}",
		"between chunks":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"id\":1}\r\n",
		"last chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"id\":1}\r\n0\r\n",
		"malformed chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
	}
	each(t, func(t *testing.T, tr transport) {
		for name, response := range responses {
			for _, end := range []func(*testkit.RawConn){func(*testkit.RawConn) {}, (*testkit.RawConn).Reset} {
				server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Send(response); end(c) })
				o := attempt(t, newSender(t), tr.target(server.Address()), payment())
				truncated.check(t, o)
				if o.BodyComplete {
					t.Errorf("%s: the body counts as complete", name)
				}
			}
		}
	})
}

// Nothing in HTTP tells a whole body without a length from a cut one. JSON that
// closes what it opened does.
func row22OpenEnd(t *testing.T) {
	tests := []struct {
		body  string
		whole bool
	}{
		{`{"id":"p1"}`, true}, {" [1,2]\n", true}, {`"text"`, true}, {`true`, true}, {"\ufeff{}", true},
		{`{"id":"p1"`, false}, {`{"id":"p`, false}, {``, false}, {`12`, false}, {`-1`, false},
		{`<html>ok</html>`, false}, {`{"a":1}{"b":2}`, false},
	}
	each(t, func(t *testing.T, tr transport) {
		for _, tt := range tests {
			server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Send("HTTP/1.1 200 OK\r\n\r\n" + tt.body) })
			o := attempt(t, newSender(t), tr.target(server.Address()), payment())
			expected := truncated
			if tt.whole {
				expected = received
			}
			expected.check(t, o)
			if o.BodyComplete != tt.whole || string(o.Body) != tt.body {
				t.Errorf("%q: body %q, complete %v", tt.body, o.Body, o.BodyComplete)
			}
		}
	})
}

func row23Early(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		over := make(chan struct{})
		for name, end := range map[string]func(*testkit.RawConn){
			"then a reset": func(c *testkit.RawConn) { c.ReadN(1 << 20); c.Reset() },
			"then an end":  func(c *testkit.RawConn) {},
			"then silence": func(c *testkit.RawConn) { <-over },
		} {
			server := tr.server(t, func(c *testkit.RawConn) {
				c.ReadN(64 << 10)
				c.Send(testkit.Reply(200, `{"id":"p1"}`))
				end(c)
			}, testkit.RawReadBuffer(16<<10))
			o := attempt(t, newSender(t), tr.target(server.Address()), large())
			if o.Evidence == outcome.EvidenceResponseReceived {
				received.check(t, o)
				if !o.EarlyResponse {
					t.Errorf("%s: not early", name)
				}
			} else { // the reset overtook the answer
				unwritten.check(t, o)
			}
			if got := AnswerOf(o, judged(o)); got == outcome.AnswerApplied {
				t.Errorf("%s: a 200 to half a request counts as applied", name)
			}
			if o.BytesHandedOver >= o.BytesTotal {
				t.Errorf("%s: handed over %d of %d", name, o.BytesHandedOver, o.BytesTotal)
			}
		}
		close(over)
	})
}
