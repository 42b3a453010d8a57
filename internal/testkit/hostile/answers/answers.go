// Package answers holds what hostile servers answer, for tests that each of our
// clients ends with every one of them in bounded time and memory.
package answers

import (
	"bytes"
	"compress/gzip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"executor/internal/testkit"
)

// Answer is what a server does with one connection, until the client ends it.
type Answer struct {
	Name   string
	Script func(*testkit.RawConn)
}

// evil is text that no log, row, page or terminal may take as it is.
const evil = "\x1b]0;owned\x07\x1b[2J\x00\xff\xfe\u202ereversed\u2028\x7f\x9b31m"

const (
	ok      = "HTTP/1.1 200 OK\r\n"
	chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
)

// All are the answers. Those that end by themselves hold the connection open.
func All(t testing.TB) []Answer {
	t.Helper()
	bomb := zipped(t, bytes.Repeat([]byte{0}, 16<<20))
	nested := zipped(t, bomb)
	long := strings.Repeat("x", 64<<10)
	return []Answer{
		{"drip of the status line", dripping("", "H")},
		{"drip of a header", dripping(ok+"X: ", "x")},
		{"drip of headers", dripping(ok, "X: y\r\n")},
		{"drip of interim responses", dripping("", "HTTP/1.1 102 Processing\r\n\r\n")},
		{"drip of the body", dripping(ok+"Content-Length: 1000000\r\n\r\n", "x")},
		{"drip of chunks", dripping(chunked, "1\r\nx\r\n")},
		{"drip of trailers", dripping(chunked+"0\r\n", "X: y\r\n")},
		{"flood of the status line", flooding("HTTP/1.1 200 ", long)},
		{"flood of one header", flooding(ok+"X: ", long)},
		{"flood of headers", flooding(ok, strings.Repeat("X: y\r\n", 10_000))},
		{"flood of folded lines", flooding(ok+"X: y\r\n", strings.Repeat(" z\r\n", 10_000))},
		{"flood of interim responses", flooding("", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 1_000))},
		{"flood of the body", flooding(ok+"\r\n", long)},
		{"flood of a body of any length", flooding(ok+"Content-Length: 9223372036854775807\r\n\r\n", long)},
		{"flood of tiny chunks", flooding(chunked, strings.Repeat("1\r\nx\r\n", 10_000))},
		{"flood of a chunk's extension", flooding(chunked+"1;", long)},
		{"flood of trailers", flooding(chunked+"0\r\n", strings.Repeat("X: y\r\n", 10_000))},
		{"chunk of any size", flooding(chunked+"7fffffffffffffff\r\n", long)},
		{"chunk size that overflows", sending(chunked + "ffffffffffffffffff\r\nx")},
		{"chunk size that is none", sending(chunked + "-1\r\nx")},
		{"gzip bomb", sending(encoded("gzip", bomb))},
		{"gzip bomb in a bomb", sending(encoded("gzip, gzip", nested))},
		{"gzip that is none", sending(encoded("gzip", []byte("no gzip")))},
		{"answer before the request", func(c *testkit.RawConn) { c.Send(ok + "Content-Length: 2\r\n\r\n{}"); c.Drain() }},
		{"nothing", sending("")},
		{"two lengths", sending(ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}")},
		{"length and chunks", sending(ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")},
		{"negative length", sending(ok + "Content-Length: -1\r\n\r\n{}")},
		{"status that is none", sending("HTTP/1.1 2e2 OK\r\n\r\n")},
		{"switch of protocols", sending("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + evil)},
		{"evil reason", sending("HTTP/1.1 500 " + evil + "\r\nContent-Length: 0\r\n\r\n")},
		{"evil header", sending("HTTP/1.1 500 No\r\nX: " + evil + "\r\nContent-Length: 0\r\n\r\n")},
		{"evil location", sending("HTTP/1.1 307 No\r\nLocation: http://" + evil + "/\r\nContent-Length: 0\r\n\r\n")},
		{"evil body", sending("HTTP/1.1 500 No\r\nContent-Type: application/json\r\n\r\n{\"error\": \"" + evil + strings.Repeat(evil, 1000))},
		{"evil protocol", sending(evil + "\r\n\r\n")},
	}
}

func sending(text string) func(*testkit.RawConn) {
	return func(c *testkit.RawConn) {
		c.ReadRequest()
		c.Send(text)
		c.Drain()
	}
}

func dripping(head, piece string) func(*testkit.RawConn) {
	return func(c *testkit.RawConn) {
		c.ReadRequest()
		c.Send(head)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := c.Conn.Write([]byte(piece)); err != nil {
				return
			}
		}
	}
}

// flooding writes until the client ends. It reuses what it writes, so that all that
// is allocated meanwhile is the client's.
func flooding(head, piece string) func(*testkit.RawConn) {
	flood := []byte(piece)
	return func(c *testkit.RawConn) {
		c.ReadRequest()
		c.Send(head)
		for {
			if _, err := c.Conn.Write(flood); err != nil {
				return
			}
		}
	}
}

func encoded(coding string, body []byte) string {
	return ok + "Content-Encoding: " + coding + "\r\nContent-Type: application/json\r\n\r\n" + string(body)
}

func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(data)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// atOnce is how many connections a server has at a time in Bounded.
const atOnce = 8

// Bounded lets ask talk to a server for each answer, several at once, and fails if
// one does not return, or if they allocate more than so many bytes each.
func Bounded(t *testing.T, perAsk uint64, ask func(t *testing.T, answer, address string)) {
	t.Helper()
	for _, a := range All(t) {
		server := testkit.NewRawServer(t, a.Script)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		done := make(chan struct{})
		go func() {
			defer close(done)
			var asking sync.WaitGroup
			for range atOnce {
				asking.Go(func() { ask(t, a.Name, server.Address()) })
			}
			asking.Wait()
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it never ends", a.Name)
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / atOnce; each > perAsk {
			t.Errorf("%s: %d bytes are allocated for each, want %d at most", a.Name, each, perAsk)
		}
		server.Close()
	}
}
