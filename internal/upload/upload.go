// Package upload reads request bodies that take longer than the server's time for one
// request.
package upload

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// stall bounds how long an upload may bring nothing.
	stall = 30 * time.Second
	// linger bounds how long one that is refused is still read.
	linger = 5 * time.Second
)

// Body reads a long request body as it comes. The server's time for reading a request
// begins anew with each read, so a body may take as long as it needs, but not stand
// still.
type Body struct {
	body    io.Reader
	control *http.ResponseController
	timed   bool
	err     error
}

// New begins to read a body of at most so many bytes.
func New(w http.ResponseWriter, r *http.Request, limit int64) *Body {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	b := &Body{body: http.MaxBytesReader(w, r.Body, limit), control: http.NewResponseController(w)}
	b.timed = ok && (server.ReadTimeout > 0 || server.WriteTimeout > 0)
	return b
}

func (b *Body) Read(p []byte) (int, error) {
	b.allow(stall)
	n, err := b.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// Close closes nothing: the server closes what it reads.
func (b *Body) Close() error { return nil }

// Err is why the body could not be read to its end; an *http.MaxBytesError if it has too
// many bytes.
func (b *Body) Err() error { return b.err }

// Linger reads on for a while without regard to what comes: to a caller who is still
// sending, a connection that is cut hides the answer.
func (b *Body) Linger() {
	if b.err != nil {
		return
	}
	b.allow(linger)
	_, _ = io.Copy(io.Discard, b.body)
}

// allow gives the next read some time, and then the answer to what was read. The server
// sets both anew for the connection's next request.
func (b *Body) allow(wait time.Duration) {
	if b.timed {
		_ = b.control.SetReadDeadline(time.Now().Add(wait))
		_ = b.control.SetWriteDeadline(time.Now().Add(2 * stall))
	}
}
