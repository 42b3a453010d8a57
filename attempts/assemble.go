package attempts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"executor/internal/bodyfiles"
)

const (
	// assembledBytes bounds what the bodies made of files may take in one process while
	// they are sent, and assembledShare those to one upstream: one that is slow, or
	// silent, leaves room for the others'. Each is more than the largest body.
	assembledBytes = 256 << 20
	assembledShare = 160 << 20
)

// assembleWithin bounds the reading of one body's files. Until then an attempt holds its
// place among those to its upstream, so it is shorter than a drain.
const assembleWithin = 20 * time.Second

// errRoom: other bodies made of files are under way; this one waits for its turn.
var errRoom = errors.New("no room for a body made of files at the moment")

// room counts what bodies take in memory, by the upstream that they go to.
type room struct {
	mu     sync.Mutex
	total  int64
	shares map[int64]int64
}

func (r *room) take(upstream, size int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total+size > assembledBytes || r.shares[upstream]+size > assembledShare {
		return false
	}
	if r.shares == nil {
		r.shares = make(map[int64]int64)
	}
	r.total += size
	r.shares[upstream] += size
	return true
}

func (r *room) give(upstream, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total -= size
	if r.shares[upstream] -= size; r.shares[upstream] == 0 {
		delete(r.shares, upstream)
	}
}

// assemble puts the files of a body into their places, in memory, so that what is
// sent are the bytes that were compared. release gives the room back. A
// *bodyfiles.Mismatch is for good; errRoom passes by itself, and a *bodyfiles.Unavailable
// or bodyfiles.ErrNoRoot once somebody has mended it.
func (e *Engine) assemble(ctx context.Context, w *work) (release func(), err error) {
	files := w.Request.Files
	if len(files) == 0 {
		return func() {}, nil
	}
	size := int64(len(w.Request.Body))
	for _, f := range files {
		size += f.Size
	}
	if !e.assembled.take(w.UpstreamID, size) {
		return func() {}, errRoom
	}
	release = func() { e.assembled.give(w.UpstreamID, size) }
	ctx, cancel := context.WithTimeout(ctx, e.assembleWithin)
	defer cancel()
	body, err := joined(w.Request.Body, files, size, func(body []byte, f bodyfiles.File) ([]byte, error) {
		return e.files.Append(ctx, body, w.Tenant, f)
	})
	if err != nil {
		release()
		return func() {}, err
	}
	w.Request.Body = body
	return release, nil
}

// joined makes the body, of so many bytes in all.
func joined(stored []byte, files []bodyfiles.Placed, size int64, add func([]byte, bodyfiles.File) ([]byte, error)) (body []byte, err error) {
	body = make([]byte, 0, size)
	from := int64(0)
	for _, f := range files {
		if f.At < from || f.At > int64(len(stored)) {
			return nil, fmt.Errorf("the file %q has no place in the body", f.Path)
		}
		if body, err = add(append(body, stored[from:f.At]...), f.File); err != nil {
			return nil, err
		}
		from = f.At
	}
	return append(body, stored[from:]...), nil
}
