package bodyfiles

import (
	"context"
	"io"
	"sync"
)

const (
	// verifying bounds how many files are compared at a time for those who submit, one of
	// each tenant: each takes the machine some tenths of a second, and a tenant with many
	// of them, or with a slow disk, leaves room for the others.
	verifying = 2
	// reading bounds how many files of one tenant are read at a time: each takes a thread,
	// and all of them may come to stand still at once.
	reading = 16
	// standing is how many reads of one tenant that stand still on a disk which does not
	// answer keep further ones from beginning, and standingAll those of all tenants:
	// nothing ends them but the disk.
	standing    = 2
	standingAll = 1000
)

// Root is the folder with one folder a tenant in it.
type Root struct {
	dir    string
	room   chan struct{}
	before func(tenant, path string) // a test's

	verify, reads turns

	mu    sync.Mutex
	left  map[string]int // reads that nobody waits for any more and that go on, by tenant
	total int            // of them
}

// New looks below dir; with "" every file is ErrNoRoot.
func New(dir string) *Root {
	return &Root{
		dir: dir, room: make(chan struct{}, verifying), before: func(string, string) {}, left: make(map[string]int),
		verify: turns{each: 1, byTenant: make(map[string]*turn)}, reads: turns{each: reading, byTenant: make(map[string]*turn)},
	}
}

// SetFault lets a test strike before a file is opened, as a disk that stands still
// does. It is called before anything is read.
func (r *Root) SetFault(before func(tenant, path string)) { r.before = before }

// Append opens a tenant's file and appends its bytes to body, if they are those that
// were referred to. Neither .. nor a link leads out of the tenant's folder. The error is
// a *Mismatch, which is for good, an *Unavailable, or ErrNoRoot. It returns when ctx
// ends, whatever the disk does.
func (r *Root) Append(ctx context.Context, body []byte, tenant string, f File) ([]byte, error) {
	w := appender{body}
	if err := r.read(ctx, &w, tenant, f); err != nil {
		return nil, err
	}
	return w.to, nil
}

type appender struct{ to []byte }

func (a *appender) Write(b []byte) (int, error) {
	a.to = append(a.to, b...)
	return len(b), nil
}

// Verify compares a file as Append does, and holds none of it in memory. It waits until
// no other one of the tenant's and few of others' are compared.
func (r *Root) Verify(ctx context.Context, tenant string, f File) error {
	if r == nil {
		return ErrNoRoot
	}
	own := r.verify.of(tenant)
	defer r.verify.done(tenant)
	for _, place := range []chan struct{}{own, r.room} {
		select {
		case place <- struct{}{}:
			defer func() { <-place }()
		case <-ctx.Done():
			return &Unavailable{f.Path, "too many others are being compared", ctx.Err()}
		}
	}
	return r.read(ctx, io.Discard, tenant, f)
}

// read copies a file in a goroutine of its own, which alone stands still where the disk
// does: then it holds a thread and a few kilobytes, and no place of those who read.
func (r *Root) read(ctx context.Context, to io.Writer, tenant string, f File) error {
	switch bad := Check(f); {
	case bad != "":
		return &Mismatch{f.Path, "is referred to in a way that cannot be: " + bad}
	case r == nil || r.dir == "":
		return ErrNoRoot
	case r.stuck(tenant):
		return &Unavailable{f.Path, "the disk does not answer: earlier reads still wait for it", nil}
	}
	place := r.reads.of(tenant)
	select {
	case place <- struct{}{}:
	case <-ctx.Done():
		r.reads.done(tenant)
		return &Unavailable{f.Path, "too many others are being read", ctx.Err()}
	}
	from, into := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer func() {
			<-place
			r.reads.done(tenant)
			close(ended)
		}()
		r.before(tenant, f.Path)
		into.CloseWithError(r.copy(into, tenant, f))
	}()
	giveUp := context.AfterFunc(ctx, func() {
		into.CloseWithError(&Unavailable{f.Path, "it was not read in time", ctx.Err()})
	})
	defer giveUp()
	_, err := io.Copy(to, from)
	if err != nil && ctx.Err() != nil {
		r.leave(tenant, ended)
	}
	return err
}

// stuck reports whether a further read could only wait for the same disk.
func (r *Root) stuck(tenant string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left[tenant] >= standing || r.total >= standingAll
}

// leave counts a read for as long as it goes on by itself.
func (r *Root) leave(tenant string, ended <-chan struct{}) {
	r.count(tenant, 1)
	go func() {
		<-ended
		r.count(tenant, -1)
	}()
}

func (r *Root) count(tenant string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += n
	if r.left[tenant] += n; r.left[tenant] == 0 {
		delete(r.left, tenant)
	}
}
