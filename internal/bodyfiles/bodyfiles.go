// Package bodyfiles opens the files that bodies of commands refer to: below one
// folder of the deployment, in that of the command's tenant, and never without
// comparing size and digest.
package bodyfiles

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
)

// MaxBytes is the most that one file, or all files of one body, may have: a body is
// held in memory while it is sent.
const MaxBytes = 64 << 20

// File refers to a body, or a part of one, that is not stored with its command.
type File struct {
	Path   string `json:"path"`   // below the tenant's folder, with slashes
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // lower-case hex
}

// Placed is a file within a body: it is sent when so many bytes of the stored ones
// were.
type Placed struct {
	At int64 `json:"at"`
	File
}

// ErrNoRoot: this process has no folder to look in.
var ErrNoRoot = errors.New("this process has no folder for files of bodies: set EXECUTOR_BODY_DIR")

// Mismatch says that a file is not the one that was referred to. It never becomes
// the right one by itself.
type Mismatch struct {
	Path   string
	Detail string
}

func (m *Mismatch) Error() string { return fmt.Sprintf("the file %q %s", m.Path, m.Detail) }

// verifying bounds how many files are compared at a time for those who submit: each
// takes the machine some tenths of a second.
const verifying = 2

// Root is the folder with one folder a tenant in it.
type Root struct {
	dir  string
	room chan struct{}
}

// New looks below dir; with "" every file is ErrNoRoot.
func New(dir string) *Root { return &Root{dir: dir, room: make(chan struct{}, verifying)} }

// Check says what is wrong with a reference by itself; "" is nothing.
func Check(f File) string {
	digest, err := hex.DecodeString(f.SHA256)
	switch {
	case f.Path == "" || path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "." || strings.HasPrefix(f.Path, "../") ||
		f.Path == ".." || strings.ContainsAny(f.Path, "\x00\\"):
		return "The path is relative to the tenant's folder, without . and .. and doubled slashes."
	case f.Size < 0 || f.Size > MaxBytes:
		return fmt.Sprintf("A file has %d bytes at most.", MaxBytes)
	case err != nil || len(digest) != sha256.Size || strings.ToLower(f.SHA256) != f.SHA256:
		return "sha256 is the file's SHA-256 in 64 lower-case hex digits."
	default:
		return ""
	}
}

// Read opens a tenant's file and returns its bytes if they are those that were
// referred to. Neither .. nor a link leads out of the tenant's folder. The error is a
// *Mismatch, ErrNoRoot, or what the file system says, which may pass.
func (r *Root) Read(tenant string, f File) ([]byte, error) {
	var content bytes.Buffer
	content.Grow(int(min(max(f.Size, 0), MaxBytes)) + bytes.MinRead)
	if err := r.copy(&content, tenant, f); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// Verify compares a file as Read does, and holds none of it in memory. It waits until
// few others do the same; ctx ends that wait.
func (r *Root) Verify(ctx context.Context, tenant string, f File) error {
	if r == nil {
		return ErrNoRoot
	}
	select {
	case r.room <- struct{}{}:
		defer func() { <-r.room }()
		return r.copy(io.Discard, tenant, f)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// copy writes a file's bytes, which count only if it returns no error.
func (r *Root) copy(to io.Writer, tenant string, f File) error {
	if bad := Check(f); bad != "" {
		return &Mismatch{f.Path, "is referred to in a way that cannot be: " + bad}
	}
	file, err := r.open(tenant, f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return fmt.Errorf("look at the file %q: %w", f.Path, err)
	case !info.Mode().IsRegular():
		return &Mismatch{f.Path, "is no regular file"}
	case info.Size() != f.Size:
		return &Mismatch{f.Path, fmt.Sprintf("has %d bytes instead of %d", info.Size(), f.Size)}
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(file, f.Size+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the file %q: %w", f.Path, err)
	case n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256:
		return &Mismatch{f.Path, "has other bytes than those of that SHA-256"}
	default:
		return nil
	}
}

func (r *Root) open(tenant, name string) (*os.File, error) {
	if r == nil || r.dir == "" {
		return nil, ErrNoRoot
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder for files of bodies: %w", err)
	}
	defer root.Close()
	own, err := root.OpenRoot(folder(tenant))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Mismatch{name, "is not there: the tenant has no folder"}
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of tenant %s: %w", tenant, err)
	}
	defer own.Close()
	file, err := own.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would wait for its writer
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &Mismatch{name, "is not there"}
	case err != nil && !fromSystem(err):
		return nil, &Mismatch{name, "leads out of the tenant's folder"}
	case err != nil:
		return nil, fmt.Errorf("open the file %q: %w", name, errors.Unwrap(err))
	default:
		return file, nil
	}
}

// fromSystem tells what the system says, which has a number, from os.Root's own refusal
// of a path that escapes.
func fromSystem(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number)
}

// folder is a tenant's: its name, escaped so that it is one step of a path and
// never one of the steps that mean something else.
func folder(tenant string) string {
	name := url.PathEscape(tenant)
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return name
}
