package attempts

import (
	"io"
	"syscall"
	"testing"

	"executor/internal/testkit"
)

// The kernel must not go on delivering for a quarter of an hour what an attempt
// that is over has written.
func TestSocketGivesUpOnUnacknowledgedData(t *testing.T) {
	server := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() })
	c := dial(t, newSender(t), transport{}.target(server.Address()))
	defer c.close()
	var got int
	if err := c.wire.raw.Control(func(fd uintptr) {
		got, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}); err != nil {
		t.Fatal(err)
	}
	if int64(got) != userTimeout.Milliseconds() {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, want %d", got, userTimeout.Milliseconds())
	}
}

// A *net.TCPConn would take bytes from an io.Copy past the counts.
func TestWireHasNoWayAroundItsCounts(t *testing.T) {
	var w any = &wire{}
	if _, ok := w.(io.ReaderFrom); ok {
		t.Error("wire has ReadFrom")
	}
	if _, ok := w.(io.WriterTo); ok {
		t.Error("wire has WriteTo")
	}
}
