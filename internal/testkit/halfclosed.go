package testkit

import (
	"bufio"
	"net"
	"net/http"
	"testing"
)

// HalfClose says on a TCP connection that nothing more of the request follows, and
// reads the answer, whose body is closed when the test ends.
func HalfClose(t testing.TB, conn net.Conn) *http.Response {
	t.Helper()
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}
