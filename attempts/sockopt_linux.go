package attempts

import (
	"context"
	"syscall"
	"time"
)

// userTimeout is how long the kernel goes on delivering bytes that the peer does
// not acknowledge. Without it a request may arrive a quarter of an hour after it
// was written (tcp_retries2), long after the attempt was closed.
const userTimeout = 20 * time.Second

const tcpUserTimeout = 0x12 // TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds (RFC 5482)

func socketOptions(_ context.Context, _, _ string, conn syscall.RawConn) error {
	var fail error
	err := conn.Control(func(fd uintptr) {
		fail = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(userTimeout.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return fail
}
