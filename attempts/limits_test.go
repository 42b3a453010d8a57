package attempts

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"executor/internal/testkit"
	"executor/outcome"
)

// rebinder answers the first question with one address and later ones with
// another.
type rebinder struct {
	first, then string
	asked       int
}

func (r *rebinder) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	r.asked++
	if r.asked == 1 {
		return []netip.Addr{netip.MustParseAddr(r.first)}, nil
	}
	return []netip.Addr{netip.MustParseAddr(r.then)}, nil
}

func zipped(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func encoded(coding, body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body)
}

// answering sends one request to a server that answers with these bytes and ends.
func answering(t *testing.T, tr transport, response string, change func(*Target)) Observation {
	t.Helper()
	server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Send(response) })
	target := tr.target(server.Address())
	if change != nil {
		change(&target)
	}
	o := attempt(t, newSender(t), target, payment())
	if n := len(server.Requests()); n != 1 {
		t.Errorf("the server saw %d requests, want 1", n)
	}
	return o
}

func TestContentEncoding(t *testing.T) {
	undecodable := want{outcome.EvidenceResponseReceived, outcome.StageBody, outcome.CategoryBodyUndecodable, 200}
	zip := zipped(t, []byte(`{"id":"p1"}`))
	tests := []struct {
		name, coding, raw, body string
		want                    want
	}{
		{"gzip", "gzip", zip, `{"id":"p1"}`, received},
		{"x-gzip", "X-GZIP", zip, `{"id":"p1"}`, received},
		{"identity", "identity", `{}`, `{}`, received},
		{"says gzip, is plain", "gzip", `{"id":"p1"}`, `{"id":"p1"}`, undecodable},
		{"gzip cut inside", "gzip", zip[:len(zip)-3], zip[:len(zip)-3], undecodable},
		{"gzip with a wrong checksum", "gzip", zip[:len(zip)-8] + "\x00\x00\x00\x00" + zip[len(zip)-4:], zip[:len(zip)-8] + "\x00\x00\x00\x00" + zip[len(zip)-4:], undecodable},
		{"br", "br", "\x0b\x02\x80", "\x0b\x02\x80", undecodable},
		{"twice", "gzip, gzip", zip, zip, undecodable},
		{"empty", "gzip", "", "", received},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := answering(t, transport{}, encoded(tt.coding, tt.raw), nil)
			tt.want.check(t, o)
			sum := sha256.Sum256([]byte(tt.raw))
			if string(o.Body) != tt.body || !bytes.Equal(o.BodySHA256, sum[:]) || o.BodyBytes != int64(len(tt.raw)) {
				t.Errorf("body %q, %d bytes", o.Body, o.BodyBytes)
			}
			if bad := tt.want == undecodable; o.BodyUndecodable != bad || o.BodyComplete == bad {
				t.Errorf("undecodable %v, complete %v", o.BodyUndecodable, o.BodyComplete)
			}
		})
	}
}

func TestResponseCaps(t *testing.T) {
	const limit = 1000
	capped := func(target *Target) { target.Limits.ResponseBytes = limit }
	each(t, func(t *testing.T, tr transport) {
		for name, response := range map[string]string{
			"length":    testkit.Reply(200, strings.Repeat("x", limit+1)),
			"chunked":   fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", limit+1, strings.Repeat("x", limit+1)),
			"open end":  "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 8*limit),
			"gzip bomb": encoded("gzip", zipped(t, make([]byte, 1<<19))),
		} {
			o := answering(t, tr, response, capped)
			received.check(t, o)
			if !o.Truncated || o.BodyComplete || len(o.Body) != limit || o.BodyBytes > limit {
				t.Errorf("%s: truncated %v, complete %v, %d bytes of %d", name, o.Truncated, o.BodyComplete, len(o.Body), o.BodyBytes)
			}
		}
		o := answering(t, tr, testkit.Reply(200, strings.Repeat("x", limit)), capped)
		received.check(t, o)
		if o.Truncated || !o.BodyComplete || len(o.Body) != limit {
			t.Errorf("exactly the limit: truncated %v, complete %v, %d bytes", o.Truncated, o.BodyComplete, len(o.Body))
		}
	})
}

func TestHeaderCaps(t *testing.T) {
	const limit = 1000
	capped := func(target *Target) { target.Limits.HeaderBytes = limit }
	hints := "HTTP/1.1 103 Early Hints\r\nLink: </" + strings.Repeat("a", 200) + ">\r\n\r\n"
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
	exact := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: "
	exact += strings.Repeat("x", limit-len(exact)-4) + "\r\n\r\n"
	each(t, func(t *testing.T, tr transport) {
		for name, response := range map[string]string{
			"one long line":     "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", limit) + "\r\n\r\n",
			"many lines":        "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", limit) + "\r\n",
			"long status line":  "HTTP/1.1 200 " + strings.Repeat("O", limit),
			"interim ones, too": strings.Repeat(hints, 5) + ok,
			"one byte over":     strings.Replace(exact, "X: ", "X: x", 1) + "{}",
		} {
			o := answering(t, tr, response, capped)
			cutOff.check(t, o)
			if !o.HeaderTruncated || !strings.Contains(o.Detail, "exceed 1000 bytes") {
				t.Errorf("%s: %s", name, describe(o))
			}
		}
		received.check(t, answering(t, tr, exact+"{}", capped))
		o := answering(t, tr, strings.Repeat(hints, 3)+ok, capped)
		received.check(t, o)
		if o.Interim != 3 {
			t.Errorf("%d interim responses, want 3", o.Interim)
		}
	})
}

func TestInterimFlood(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		interim := "HTTP/1.1 103 Early Hints\r\n\r\n"
		ok := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
		o := answering(t, tr, strings.Repeat(interim, maxInterim)+ok, nil)
		received.check(t, o)
		if o.Interim != maxInterim {
			t.Errorf("%d interim responses", o.Interim)
		}
		cutOff.check(t, answering(t, tr, strings.Repeat(interim, maxInterim+1)+ok, nil))
	})
}

// drip writes the same piece over and over, until the client has had enough.
func drip(c *testkit.RawConn, piece string) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := c.Conn.Write([]byte(piece)); err != nil {
			return
		}
	}
}

func TestDripsAreBounded(t *testing.T) {
	const never = time.Hour
	tests := []struct {
		name, head, piece string
		headers, total    time.Duration
		want              want
	}{
		{"header, header timeout", "HTTP/1.1 200 OK\r\nX: ", "x", 30 * time.Millisecond, never,
			want{outcome.EvidenceSentNoResponse, outcome.StageHeaders, outcome.CategoryHeaderTimeout, 0}},
		{"header, deadline", "HTTP/1.1 200 OK\r\nX: ", "x", never, 200 * time.Millisecond,
			want{outcome.EvidenceSentNoResponse, outcome.StageHeaders, outcome.CategoryAttemptTimeout, 0}},
		{"interim, header timeout", "", "HTTP/1.1 102 Processing\r\n\r\n", 20 * time.Millisecond, never,
			want{outcome.EvidenceSentNoResponse, outcome.StageHeaders, outcome.CategoryHeaderTimeout, 0}},
		{"body", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nx", "x", never, 400 * time.Millisecond,
			want{outcome.EvidencePartialResponse, outcome.StageBody, outcome.CategoryBodyTimeout, 200}},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", "1\r\nx\r\n", never, 400 * time.Millisecond,
			want{outcome.EvidencePartialResponse, outcome.StageBody, outcome.CategoryBodyTimeout, 200}},
		{"open end", "HTTP/1.1 200 OK\r\n\r\nx", "x", never, 400 * time.Millisecond,
			want{outcome.EvidencePartialResponse, outcome.StageBody, outcome.CategoryBodyTimeout, 200}},
	}
	each(t, func(t *testing.T, tr transport) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				server := tr.server(t, func(c *testkit.RawConn) { c.ReadRequest(); c.Send(tt.head); drip(c, tt.piece) })
				s, target := newSender(t), tr.target(server.Address())
				target.Timeouts.ResponseHeader = tt.headers
				o := s.Send(context.Background(), dial(t, s, target), payment(), open, time.Now().Add(tt.total))
				tt.want.check(t, o)
				if tt.want.status != 0 && (len(o.Body) == 0 || o.BodyComplete) {
					t.Errorf("body %q, complete %v", o.Body, o.BodyComplete)
				}
			})
		}
	})
}

// A peer that takes nothing in holds up neither the deadline nor the seal.
func TestZeroWindow(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		over := make(chan struct{})
		server := tr.server(t, func(*testkit.RawConn) { <-over }, testkit.RawReadBuffer(4<<10))
		s := newSender(t)
		o := s.Send(context.Background(), dial(t, s, tr.target(server.Address())), large(), open, time.Now().Add(400*time.Millisecond))
		close(over)
		want{outcome.EvidenceSentNoResponse, outcome.StageWrite, outcome.CategoryAttemptTimeout, 0}.check(t, o)
		if o.BytesHandedOver == 0 || o.BytesHandedOver >= o.BytesTotal {
			t.Errorf("handed over %d of %d", o.BytesHandedOver, o.BytesTotal)
		}
	})
}

func TestResponsesWithoutABody(t *testing.T) {
	tests := []struct{ name, method, response string }{
		{"HEAD", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"},
		{"HEAD, chunked", "HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"HEAD, no length", "HEAD", "HTTP/1.1 200 OK\r\n\r\n"},
		{"204", "POST", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"},
		{"length 0", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	}
	each(t, func(t *testing.T, tr transport) {
		for _, tt := range tests {
			server := tr.server(t, func(c *testkit.RawConn) { c.Serve(func(testkit.RawRequest) string { return tt.response }) })
			s := newSender(t)
			r := payment()
			r.Method = tt.method
			for n := range 2 {
				o := attempt(t, s, tr.shared(server.Address()), r)
				if o.Evidence != outcome.EvidenceResponseReceived || !o.BodyComplete || len(o.Body) != 0 || o.Reused != (n == 1) {
					t.Errorf("%s: %s", tt.name, describe(o))
				}
			}
		}
	})
}
