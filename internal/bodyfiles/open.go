package bodyfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// copy writes a file's bytes, which count only if it returns no error. Nothing bounds
// how long the file system takes.
func (r *Root) copy(to io.Writer, tenant string, f File) error {
	file, err := r.open(tenant, f.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return &Unavailable{f.Path, "the file system refuses it", err}
	case !info.Mode().IsRegular():
		return &Mismatch{f.Path, "is no regular file"}
	case info.Size() != f.Size:
		return &Mismatch{f.Path, fmt.Sprintf("has %d bytes instead of %d", info.Size(), f.Size)}
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(file, f.Size+1))
	switch {
	case err != nil:
		return &Unavailable{f.Path, "reading it failed", err}
	case n != f.Size || hex.EncodeToString(sum.Sum(nil)) != f.SHA256:
		return &Mismatch{f.Path, "has other bytes than those of that SHA-256"}
	default:
		return nil
	}
}

// open opens a file in the tenant's folder. What stands in the way of all of the
// tenant's files is a volume that is not there, and passes; what is wrong with the one
// file does not.
func (r *Root) open(tenant, name string) (*os.File, error) {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return nil, &Unavailable{name, "the folder of the deployment's files is not there, or may not be read", err}
	}
	defer root.Close()
	own, err := root.OpenRoot(folder(tenant))
	if err != nil {
		return nil, &Unavailable{name, "the tenant's folder is not there, or may not be read", err}
	}
	defer own.Close()
	file, err := own.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe would wait for its writer
	switch {
	case err == nil:
		return file, nil
	case errors.Is(err, fs.ErrNotExist) && empty(own):
		return nil, &Unavailable{name, "the tenant's folder is empty", nil}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil, &Mismatch{name, "is not there"}
	case errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return nil, &Mismatch{name, "cannot be a file: " + errors.Unwrap(err).Error()}
	case !fromSystem(err):
		return nil, &Mismatch{name, "leads out of the tenant's folder"}
	default:
		return nil, &Unavailable{name, "the file system refuses it", err}
	}
}

// empty reports whether there is nothing in a folder, as in one on which a volume
// should be mounted and is not.
func empty(folder *os.Root) bool {
	dir, err := folder.Open(".")
	if err != nil {
		return true
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return err != nil
}

// fromSystem tells what the system says, which has a number, from os.Root's own refusal
// of a path that escapes.
func fromSystem(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number)
}
