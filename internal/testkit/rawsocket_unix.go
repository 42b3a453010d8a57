//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package testkit

import (
	"net"
	"strconv"
	"syscall"
	"testing"
)

// fullListener listens without accepting and with the shortest queue there is. It
// returns how many connections surely fill it.
func fullListener(t testing.TB) (address string, fill int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatalf("black hole: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatalf("black hole: %v", err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatalf("black hole: %v", err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatalf("black hole: %v", err)
	}
	port := bound.(*syscall.SockaddrInet4).Port
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 16
}

// smallBuffer is a listener's Control function: its connections take in at most
// about that many bytes that nobody has read.
func smallBuffer(bytes int) func(network, address string, conn syscall.RawConn) error {
	return func(_, _ string, conn syscall.RawConn) error {
		var fail error
		err := conn.Control(func(fd uintptr) {
			fail = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes)
		})
		if err != nil {
			return err
		}
		return fail
	}
}
