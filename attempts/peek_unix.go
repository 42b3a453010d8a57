//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package attempts

import (
	"errors"
	"syscall"
)

// canPeek says that silence can be told from an unread byte on this system.
const canPeek = true

// peek says, without waiting and without taking anything, whether a read would
// return at once: with a byte, or with the end of the stream.
func peek(conn syscall.RawConn) (bool, error) {
	var (
		one  [1]byte
		fail error
	)
	// Control, not Read: the latter waits for the socket to become readable.
	err := conn.Control(func(fd uintptr) {
		for {
			_, _, fail = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
			if !errors.Is(fail, syscall.EINTR) {
				return
			}
		}
	})
	switch {
	case err != nil:
		return false, err
	case errors.Is(fail, syscall.EAGAIN):
		return false, nil
	default:
		return fail == nil, fail
	}
}
