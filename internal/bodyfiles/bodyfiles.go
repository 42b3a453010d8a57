// Package bodyfiles opens the files that bodies of commands refer to: below one
// folder of the deployment, in that of the command's tenant, and never without
// comparing size and digest.
package bodyfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
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

// Unavailable says that a file cannot be read now: its folder or its volume is not
// there, this process may not read it, or nothing came of it in time. Whoever runs the
// deployment can mend that, and then the same reference is good.
type Unavailable struct {
	Path   string
	Detail string // for callers: without the folders of this machine
	Cause  error  // for the log; nil where Detail says it all
}

func (u *Unavailable) Error() string {
	text := fmt.Sprintf("the file %q cannot be read now: %s", u.Path, u.Detail)
	if u.Cause != nil {
		text += ": " + u.Cause.Error()
	}
	return text
}

func (u *Unavailable) Unwrap() error { return u.Cause }

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

// folder is a tenant's: its name, escaped so that it is one step of a path and
// never one of the steps that mean something else.
func folder(tenant string) string {
	name := url.PathEscape(tenant)
	if strings.Trim(name, ".") == "" {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return name
}
