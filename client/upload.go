package client

import (
	"context"
	"fmt"
	"io"
	"time"
)

// bound limits a try. One that sends a stream may take as long as there is
// progress: only standing still, or an answer that does not come, ends it.
func (r *call) bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if r.stream == nil {
		return context.WithTimeout(ctx, timeout+r.wait)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	u := &upload{from: r.stream, timeout: timeout}
	u.idle = time.AfterFunc(timeout, func() { cancel(errIdle{timeout}) })
	r.stream = u
	return ctx, func() {
		u.idle.Stop()
		cancel(nil)
	}
}

// errIdle is why an upload was given up.
type errIdle struct{ after time.Duration }

func (e errIdle) Error() string { return fmt.Sprintf("the service took nothing for %s", e.after) }

// upload is a body that may take its time. The clock stands still while the source
// is read: it is the service that must not stand still.
type upload struct {
	from    io.Reader
	timeout time.Duration
	idle    *time.Timer
}

func (u *upload) Read(b []byte) (int, error) {
	u.idle.Stop()
	n, err := u.from.Read(b)
	u.idle.Reset(u.timeout)
	return n, err
}
