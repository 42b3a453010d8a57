package api

import (
	"errors"
	"io"
	"sync/atomic"
)

// bodyMemory bounds the memory that the bodies of all requests under way take together:
// each of them alone is small, but there may be thousands.
type bodyMemory struct {
	limit int64
	sum   atomic.Int64
}

var errBodiesFull = errors.New("too many request bodies at once")

// held is what one request has of it. It is given back when the request ends.
type held struct {
	all *bodyMemory
	n   int64
}

// reader counts what is read.
func (h *held) reader(r io.Reader) io.Reader { return &countedReader{r, h} }

// release gives back what was read up to now.
func (h *held) release() {
	h.all.sum.Add(-h.n)
	h.n = 0
}

type countedReader struct {
	io.Reader
	held *held
}

func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.held.n += int64(n)
	if c.held.all.sum.Add(int64(n)) > c.held.all.limit {
		return n, errBodiesFull
	}
	return n, err
}

func bodiesFull() error {
	return &failure{code: ProblemCodeRateLimited, headers: map[string]string{"Retry-After": "1"},
		detail: "This process holds as many bytes of request bodies as it may. Repeat the request."}
}
