// Package apikeys keeps the API keys. A key lets a program or a person act for one
// tenant; its name is the actor of what is done with it.
package apikeys

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/internal/audit"
)

// Key is an API key without its secret, of which only the SHA-256 is stored.
type Key struct {
	ID         uuid.UUID
	Tenant     string
	Name       string   // the actor of what is done with it; one live key a name
	Prefix     string   // the beginning of the secret, to tell keys apart
	Scopes     []string // see Scopes
	CreatedAt  time.Time
	LastUsedAt *time.Time // within a minute or so
	RevokedAt  *time.Time
}

// Scope is what a key may be allowed to do.
type Scope string

const (
	ScopeCommandsWrite Scope = "commands:write" // submit and cancel
	ScopeCommandsRead  Scope = "commands:read"
	ScopeReviewsWrite  Scope = "reviews:write" // decide about doubts
	ScopeAdmin         Scope = "admin"         // everything else; includes the others
)

// Scopes lists what a key can be allowed.
func Scopes() []Scope {
	return []Scope{ScopeCommandsWrite, ScopeCommandsRead, ScopeReviewsWrite, ScopeAdmin}
}

// Allows reports whether the key has the scope.
func (k Key) Allows(scope Scope) bool {
	return slices.Contains(k.Scopes, string(scope)) || slices.Contains(k.Scopes, string(ScopeAdmin))
}

var (
	// ErrUnknown: no such API key, or it was revoked.
	ErrUnknown = errors.New("unknown API key, or revoked already")
	// ErrSeveral: what should name one key names several, as the name of one that is another's prefix.
	ErrSeveral = errors.New("several API keys are called so: give the id of the one")
	// ErrExists: the tenant has a live key of that name.
	ErrExists = errors.New("an API key of that name exists")
)

// Invalid is a key that can never be made as it was asked for.
type Invalid struct{ Detail string }

func (e *Invalid) Error() string { return e.Detail }

const (
	mark   = "exk_"        // what every secret begins with, so that scanners find leaked ones
	digits = 43            // base62 digits of 32 bytes
	shown  = len(mark) + 6 // of it in Key.Prefix
)

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}$`)

// check refuses what cannot become a key.
func check(tenant, name string, scopes []string) error {
	switch wrong := audit.CheckTenant(tenant); {
	case wrong != "":
		return fmt.Errorf("%q is not a tenant's name: %s", tenant, wrong)
	case !names.MatchString(name):
		return fmt.Errorf("the name %q does not fit: up to 100 letters, digits, spaces and . _ @ -, a letter or digit first", name)
	case len(scopes) == 0:
		return fmt.Errorf("an API key needs a scope: %s", scopeList())
	}
	for _, scope := range scopes {
		if !slices.Contains(Scopes(), Scope(scope)) {
			return fmt.Errorf("unknown scope %q: choose from %s", scope, scopeList())
		}
	}
	return nil
}

func scopeList() string {
	var list []string
	for _, scope := range Scopes() {
		list = append(list, string(scope))
	}
	return strings.Join(list, ", ")
}

// newSecret makes a key's secret: the mark and 32 random bytes in base62.
func newSecret() string {
	var random [32]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	number := new(big.Int).SetBytes(random[:]).Text(62)
	return mark + strings.Repeat("0", digits-len(number)) + number
}
