package api

import (
	"errors"
	"io"
	"net/http"
	"time"
)

const (
	// uploadStall bounds how long a long upload may bring nothing.
	uploadStall = 30 * time.Second
	// uploadLinger bounds how long one that is refused is still read.
	uploadLinger = 5 * time.Second
)

// upload reads a long request body as it comes. The server's time for reading a
// request begins anew with each read, so a body may take as long as it needs,
// but not stand still.
type upload struct {
	body    io.Reader
	control *http.ResponseController
	timed   bool
	err     error // why it could not be read to its end
}

// newUpload begins to read a body of at most so many bytes.
func newUpload(w http.ResponseWriter, r *http.Request, limit int64) *upload {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	u := &upload{body: http.MaxBytesReader(w, r.Body, limit), control: http.NewResponseController(w)}
	u.timed = ok && (server.ReadTimeout > 0 || server.WriteTimeout > 0)
	return u
}

func (u *upload) Read(b []byte) (int, error) {
	if u.timed {
		_ = u.control.SetReadDeadline(time.Now().Add(uploadStall))
		_ = u.control.SetWriteDeadline(time.Now().Add(2 * uploadStall)) // for the answer to what was read
	}
	n, err := u.body.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// linger reads on for a while without regard to what comes: to a caller who is still
// sending, a connection that is cut hides the answer.
func (u *upload) linger() {
	if u.err != nil {
		return
	}
	_ = u.control.SetReadDeadline(time.Now().Add(uploadLinger))
	_ = u.control.SetWriteDeadline(time.Now().Add(2 * uploadStall))
	_, _ = io.Copy(io.Discard, u.body)
}

// problem is what kept the body from being read, nil if nothing did.
func (u *upload) problem(limit int64) error {
	var over *http.MaxBytesError
	switch {
	case u.err == nil:
		return nil
	case errors.As(u.err, &over):
		return tooLarge(limit)
	default:
		return &failure{code: ProblemCodeMalformedBody, detail: "The request body ended early, or stood still for too long."}
	}
}
