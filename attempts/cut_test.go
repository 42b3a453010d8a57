package attempts

import (
	"fmt"
	"strings"
	"testing"

	"executor/internal/testkit"
	"executor/outcome"
)

// TestRequestCutAtEveryByte lets the upstream end the connection after each number
// of bytes it has read. Whatever is claimed must be true: not_sent only if it read
// nothing, and never fewer bytes than it read.
func TestRequestCutAtEveryByte(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		s := newSender(t)
		for _, end := range []func(*testkit.RawConn){func(*testkit.RawConn) {}, (*testkit.RawConn).Reset} {
			total := 1
			for n := 0; n <= total; n++ {
				server := tr.server(t, func(c *testkit.RawConn) { c.ReadN(n); end(c) })
				c, o, ok := s.Dial(t.Context(), tr.target(server.Address()))
				if ok {
					o = s.Send(t.Context(), c, payment(), open, soon())
					total = int(o.BytesTotal)
				}
				server.Close()
				got := server.Received()
				switch {
				case o.Evidence == outcome.EvidenceNotSent && got == 0 && o.BytesHandedOver == 0 && n == 0:
				case o.Evidence == outcome.EvidenceSentNoResponse && o.BytesHandedOver >= got:
				default:
					t.Fatalf("the server read %d bytes and ended: %s", got, describe(o))
				}
				if server.Connections() > 1 {
					t.Fatalf("cut at %d: %d connections", n, server.Connections())
				}
			}
			if total < 100 {
				t.Fatalf("the request has %d bytes only", total)
			}
		}
	})
}

// TestResponseCutAtEveryByte lets the upstream end the connection after each
// number of bytes of its response, on a new connection and on a used one.
func TestResponseCutAtEveryByte(t *testing.T) {
	body := `{"id":"p1"}`
	responses := map[string]string{
		"length":   fmt.Sprintf("HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"chunked":  fmt.Sprintf("HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		"open end": "HTTP/1.1 201 Created\r\n\r\n" + body,
		"interim":  fmt.Sprintf("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
	}
	each(t, func(t *testing.T, tr transport) {
		for name, response := range responses {
			head := strings.LastIndex(response[:strings.Index(response, "p1")], "\r\n\r\n") + 4
			for n := 0; n <= len(response); n++ {
				server := tr.server(t, func(c *testkit.RawConn) {
					c.Serve(func(r testkit.RawRequest) string {
						if r.Target == "/warm" {
							return testkit.Reply(200, `{}`)
						}
						c.Send(response[:n])
						return ""
					})
				})
				s, target := newSender(t), tr.target(server.Address())
				if n%2 == 1 {
					target = tr.shared(server.Address())
					warm := payment()
					warm.Path = "/warm"
					received.check(t, attempt(t, s, target, warm))
				}
				o := attempt(t, s, target, payment())
				expected := outcome.EvidencePartialResponse
				switch {
				case n < head:
					expected = outcome.EvidenceSentNoResponse
				case n == len(response):
					expected = outcome.EvidenceResponseReceived
				}
				whole := expected == outcome.EvidenceResponseReceived
				if o.Evidence != expected || (n >= head) != (o.Status == 201) || o.BodyComplete != whole || o.BytesHandedOver != o.BytesTotal || o.EarlyResponse {
					t.Errorf("%s, cut after %d of %d: %s", name, n, len(response), describe(o))
				}
				if got := len(server.Requests()) - n%2; got != 1 {
					t.Errorf("%s, cut after %d: the server saw %d requests, want 1", name, n, got)
				}
			}
		}
	})
}
