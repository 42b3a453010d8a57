package operators

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
)

const (
	// MinPassword is the least number of characters of a password.
	MinPassword = 12
	// MaxPassword is the greatest number of its bytes.
	MaxPassword = 256
)

// CheckPassword refuses a password that the operator of that name cannot have.
func CheckPassword(name, password string) error {
	switch {
	case !utf8.ValidString(password):
		return invalid("password", "the password is not text in UTF-8")
	case utf8.RuneCountInString(password) < MinPassword:
		return invalid("password", "the password is too short: it needs %d characters", MinPassword)
	case len(password) > MaxPassword:
		return invalid("password", "the password is too long: %d bytes are allowed", MaxPassword)
	case strings.EqualFold(name, password):
		return invalid("password", "the password is the name")
	default:
		return nil
	}
}

// NewPassword makes a password that nobody guesses.
func NewPassword() string { return rand.Text() }

// maxHashes is how many passwords a process hashes at once: each takes the memory
// and a core of its own.
const maxHashes = 2

// owasp are the parameters that OWASP's cheat sheet on password storage names
// first: 19 MiB, two passes.
func owasp() *argon2id.Params {
	return &argon2id.Params{Memory: 19 * 1024, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// hasher hashes passwords with argon2id, few at once.
type hasher struct {
	params *argon2id.Params
	dummy  string
	slots  chan struct{}
	done   atomic.Int64 // how many were hashed
}

func newHasher(params *argon2id.Params) (*hasher, error) {
	if params == nil {
		params = owasp()
	}
	if params.Memory == 0 || params.Iterations == 0 || params.Parallelism == 0 || params.SaltLength < 8 || params.KeyLength < 16 {
		return nil, errors.New("the parameters of the password hash are too small")
	}
	return &hasher{params: params, dummy: dummyHash(*params), slots: make(chan struct{}, maxHashes)}, nil
}

// dummyHash is a hash that no password has; to compare one with it takes as long as
// with any other.
func dummyHash(p argon2id.Params) string {
	random := func(length uint32) string {
		b := make([]byte, length)
		rand.Read(b) // never fails: it ends the program instead
		return base64.RawStdEncoding.EncodeToString(b)
	}
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", p.Memory, p.Iterations, p.Parallelism, random(p.SaltLength), random(p.KeyLength))
}

// slot waits for its turn.
func (h *hasher) slot(ctx context.Context) (free func(), err error) {
	select {
	case h.slots <- struct{}{}:
		h.done.Add(1)
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	free, err := h.slot(ctx)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	defer free()
	hash, err := argon2id.CreateHash(password, h.params)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	return hash, nil
}

// matches compares a password with a hash; without one it takes as long and says
// no. (A wrong password for a hash of other parameters takes as long as those do,
// until its operator signs in next.) outdated tells that the hash was made with other parameters than today's.
func (h *hasher) matches(ctx context.Context, password string, hash *string) (ok, outdated bool, err error) {
	free, err := h.slot(ctx)
	if err != nil {
		return false, false, fmt.Errorf("check a password: %w", err)
	}
	defer free()
	against := h.dummy
	if hash != nil {
		against = *hash
	}
	ok, params, err := argon2id.CheckHash(password, against)
	if err != nil {
		return false, false, fmt.Errorf("check a password: %w", err)
	}
	return ok && hash != nil && len(password) <= MaxPassword, *params != *h.params, nil
}
