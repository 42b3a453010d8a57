//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package testkit

import (
	"errors"
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

// smallSegment makes a client's kernel keep its own buffer small, too, which it
// measures in segments.
const smallSegment = 536

// smallBuffer is a listener's Control function: its connections take in at most
// about that many bytes that nobody has read, and clients keep less than 128 KiB of
// what does not fit.
func smallBuffer(bytes int) func(network, address string, conn syscall.RawConn) error {
	return func(_, _ string, conn syscall.RawConn) error {
		var fail error
		err := conn.Control(func(fd uintptr) {
			fail = errors.Join(
				syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, bytes),
				syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, smallSegment))
		})
		if err != nil {
			return err
		}
		return fail
	}
}
