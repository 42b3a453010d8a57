//go:build !linux

package attempts

import (
	"context"
	"syscall"
)

// socketOptions does nothing where the kernel cannot be told how long to
// retransmit.
func socketOptions(context.Context, string, string, syscall.RawConn) error { return nil }
