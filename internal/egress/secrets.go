package egress

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

var (
	// ErrMissing says that a reference is well formed, but nothing stands behind
	// it now. That can mend itself: the caller waits.
	ErrMissing = errors.New("secret is missing")
	// ErrReference says that a text is no reference to a secret.
	ErrReference = errors.New("not a reference to a secret: write env:EXECUTOR_SECRET_NAME, or file:NAME for a file under EXECUTOR_SECRETS_DIR")
)

// secretBytes bounds a secret: a file larger than this is not one.
const secretBytes = 64 << 10

var envReference = regexp.MustCompile(`^EXECUTOR_SECRET_[A-Za-z0-9_]+$`)

// Secrets finds credentials by reference, anew each time, so that a rotated one
// is used at once.
type Secrets struct {
	getenv func(string) string
	dir    string
}

// NewSecrets reads env: references through getenv and file: references below
// dir. With an empty dir no file is ever read.
func NewSecrets(getenv func(string) string, dir string) *Secrets {
	return &Secrets{getenv, dir}
}

// Lookup resolves `env:EXECUTOR_SECRET_…` or `file:NAME`. Line ends at the end of
// a file do not count. The error is ErrMissing or ErrReference and never holds
// the value.
func (s *Secrets) Lookup(ref string) (Secret, error) {
	kind, name, _ := strings.Cut(ref, ":")
	switch {
	case kind == "env" && envReference.MatchString(name):
		return found(ref, s.getenv(name))
	case kind == "file" && name != "":
		return s.file(ref, name)
	default:
		return Secret{}, ErrReference
	}
}

func (s *Secrets) file(ref, name string) (Secret, error) {
	if s.dir == "" {
		return Secret{}, fmt.Errorf("%s: %w: EXECUTOR_SECRETS_DIR is not set", ref, ErrMissing)
	}
	f, err := os.OpenInRoot(s.dir, name) // neither .. nor a link leads out of it
	if err != nil {
		return Secret{}, fmt.Errorf("%s: %w: %w", ref, ErrMissing, err)
	}
	defer f.Close()
	value, err := io.ReadAll(io.LimitReader(f, secretBytes+1))
	if err != nil {
		return Secret{}, fmt.Errorf("%s: %w: %w", ref, ErrMissing, err)
	}
	if len(value) > secretBytes {
		return Secret{}, fmt.Errorf("%s: %w: the file is larger than %d bytes", ref, ErrMissing, secretBytes)
	}
	return found(ref, strings.TrimRight(string(value), "\r\n"))
}

func found(ref, value string) (Secret, error) {
	if value == "" {
		return Secret{}, fmt.Errorf("%s: %w", ref, ErrMissing)
	}
	return NewSecret(value), nil
}
