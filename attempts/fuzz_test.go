package attempts

import (
	"bytes"
	"net/http"
	"testing"
	"testing/iotest"
	"time"

	"executor/outcome"
)

// FuzzReadResponse reads whatever an upstream may send. It must neither panic nor
// pass its caps, and what it calls complete must have been framed as such.
func FuzzReadResponse(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{\"a\":1}",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2;x=y\r\n{}\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
		"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 101 X\r\n\r\n", "HTTP/2.0 200\r\n\r\n", "HTTP/1.1 +20 OK\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\n c\n\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
	} {
		f.Add("POST", []byte(seed), false)
		f.Add("HEAD", []byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, method string, wire []byte, slowly bool) {
		const headLimit, bodyLimit = 512, 256
		var from = iotest.DataErrReader(bytes.NewReader(wire))
		if slowly {
			from = iotest.OneByteReader(bytes.NewReader(wire))
		}
		r := newResponses(from)
		res, interim, err := r.head(method, headLimit, func() {})
		if len(r.source.head) > headLimit || interim > maxInterim+1 {
			t.Fatalf("%d bytes of heads, %d interim responses", len(r.source.head), interim)
		}
		x := &exchange{conn: &Conn{target: Target{}}, clock: &clock{end: time.Now().Add(time.Hour)}, headErr: err}
		x.conn.target.Limits.ResponseBytes = bodyLimit
		if err == nil {
			x.reply = r.body(res, bodyLimit)
		}
		o := x.classify(tally{total: 10, entered: 10, handed: 10})
		checkObservation(t, o, wire, bodyLimit)
		if o.BodyComplete && o.Evidence == outcome.EvidenceResponseReceived && x.reply.openEnd && !endsByItself(o.Body) {
			t.Fatalf("%q ends with the connection and counts as whole", o.Body)
		}
	})
}

func checkObservation(t *testing.T, o Observation, wire []byte, limit int) {
	t.Helper()
	switch o.Evidence {
	case outcome.EvidenceSentNoResponse:
		if o.Status != 0 || o.Category == outcome.CategoryNone || o.Detail == "" {
			t.Fatalf("no response, but %s", describe(o))
		}
	case outcome.EvidenceResponseReceived, outcome.EvidencePartialResponse:
		if o.Status != http.StatusSwitchingProtocols && (o.Status < 200 || o.Status > 999) {
			t.Fatalf("final status %d", o.Status)
		}
		if o.Evidence == outcome.EvidencePartialResponse && o.BodyComplete || o.Truncated && o.BodyComplete || o.BodyUndecodable && o.BodyComplete {
			t.Fatalf("complete: %s", describe(o))
		}
	default:
		t.Fatalf("evidence %q of a request that was sent", o.Evidence)
	}
	if len(o.Body) > limit || o.BodyBytes > int64(len(wire)) {
		t.Fatalf("body of %d bytes out of %d", len(o.Body), len(wire))
	}
	if len(o.Detail) > 310 {
		t.Fatalf("detail of %d bytes", len(o.Detail))
	}
}
