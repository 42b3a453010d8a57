package attempts

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// wire is one TCP connection to an upstream or its proxy, below TLS. Embedding
// the interface hides *net.TCPConn's ReadFrom and WriteTo, which would carry
// bytes past the counts.
type wire struct {
	net.Conn
	tcp    *net.TCPConn
	raw    syscall.RawConn
	handed atomic.Int64 // bytes the kernel took, TLS records and proxy requests included

	// looking makes Read answer errQuiet where it would wait. It is set only
	// by the goroutine that reads.
	looking bool
	// closing bounds the farewell of a polite close.
	closing atomic.Bool
}

// farewell bounds how long the TLS close_notify alert of a polite close may take.
const farewell = 200 * time.Millisecond

func newWire(conn *net.TCPConn) (*wire, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &wire{Conn: conn, tcp: conn, raw: raw}, nil
}

func (w *wire) Read(p []byte) (int, error) {
	if w.looking {
		pending, err := peek(w.raw)
		if err != nil {
			return 0, err
		}
		if !pending {
			return 0, errQuiet
		}
	}
	return w.Conn.Read(p)
}

func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	w.handed.Add(int64(n))
	return n, err
}

// SetWriteDeadline keeps crypto/tls, which grants its close_notify five seconds,
// from holding up a close.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if soon := time.Now().Add(farewell); w.closing.Load() && t.After(soon) {
		t = soon
	}
	return w.Conn.SetWriteDeadline(t)
}

// reset closes the connection so that the kernel drops what it has not delivered
// yet instead of retransmitting it for minutes.
func (w *wire) reset() {
	_ = w.tcp.SetLinger(0)
	_ = w.Conn.Close()
}

// quietError is a timeout and temporary, so that crypto/tls does not make it
// permanent: a TLS connection that was looked at can still be read.
type quietError struct{}

func (quietError) Error() string   { return "nothing to read" }
func (quietError) Timeout() bool   { return true }
func (quietError) Temporary() bool { return true }

var errQuiet error = quietError{}

var (
	errPeerClosed = errors.New("the peer closed the connection before the request")
	errPeerSpoke  = errors.New("the peer spoke before the request")
)

// look reads from stream, which is w or a TLS connection on it, without waiting.
// TLS session tickets are taken in on the way. It returns nil if there is nothing
// to read: a byte is errPeerSpoke, an end errPeerClosed or the peer's own error.
func (w *wire) look(stream io.Reader) error {
	w.looking = true
	defer func() { w.looking = false }()
	var one [1]byte
	n, err := stream.Read(one[:])
	switch {
	case n > 0:
		return errPeerSpoke
	case errors.Is(err, errQuiet):
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errPeerClosed
	default:
		return err
	}
}
