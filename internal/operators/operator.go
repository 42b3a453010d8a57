// Package operators keeps who may sign in to the dashboard: people with a role in
// one or more tenants, their passwords, sessions and one-time links, and what
// slows down those who guess.
//
// Rights are looked up for every request (Sessions.Authorize): a session that was
// revoked, an operator who was disabled and a role that was taken away stop
// working at once, in every process.
package operators

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Role is what an operator may do in a tenant. Each includes those before it.
type Role string

const (
	RoleViewer   Role = "viewer"   // reads everything but secrets
	RoleOperator Role = "operator" // also acts on commands, reports, deliveries and upstreams
	RoleAdmin    Role = "admin"    // also changes webhooks, keys, operators and profiles, freezes and resumes
)

// Roles lists the roles, the least first.
func Roles() []Role { return []Role{RoleViewer, RoleOperator, RoleAdmin} }

// ParseRole reads a role's name. The zero Role is not valid.
func ParseRole(s string) (Role, error) {
	if r := Role(s); slices.Contains(Roles(), r) {
		return r, nil
	}
	return "", invalid("role", "unknown role %q: there are viewer, operator and admin", s)
}

// Allows reports whether the role includes the needed one.
func (r Role) Allows(needed Role) bool {
	has, needs := slices.Index(Roles(), r), slices.Index(Roles(), needed)
	return needs >= 0 && has >= needs
}

// Grant is a role in a tenant.
type Grant struct {
	Tenant string `json:"tenant"`
	Role   Role   `json:"role"`
}

// Operator is a person who may sign in, without their password's hash.
type Operator struct {
	ID          uuid.UUID
	Name        string // unique in the deployment, whatever the case
	HasPassword bool
	Epoch       int // grows when all their sessions and links end
	CreatedAt   time.Time
	DisabledAt  *time.Time
	Roles       []Grant // by tenant
}

// Role is the operator's in a tenant; "" is none, also for who is disabled.
func (o Operator) Role(tenant string) Role {
	for _, g := range o.Roles {
		if g.Tenant == tenant && o.DisabledAt == nil {
			return g.Role
		}
	}
	return ""
}

var (
	// ErrUnknown: there is no such operator, session or role.
	ErrUnknown = errors.New("unknown operator")
	// ErrExists: the name is another operator's.
	ErrExists = errors.New("an operator of that name exists")
	// ErrLastAdmin: the tenant would be left without an enabled admin.
	ErrLastAdmin = errors.New("the last enabled admin of a tenant cannot be taken away: make somebody else an admin first")
	// ErrSelf: nobody disables themselves.
	ErrSelf = errors.New("you cannot disable yourself: another admin can")
	// ErrForbidden: whoever asks is no admin where it would take effect.
	ErrForbidden = errors.New("not allowed")
)

// Invalid is something given that is never accepted as it stands. It never repeats a
// password.
type Invalid struct {
	Field  string // name, password, tenant, role or duration
	Detail string
}

func (e *Invalid) Error() string { return e.Detail }

func invalid(field, format string, args ...any) error {
	return &Invalid{Field: field, Detail: fmt.Sprintf(format, args...)}
}

var names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$`)

func checkName(name string) error {
	if !names.MatchString(name) {
		return invalid("name", "the name %q does not fit: up to 100 letters, digits and . _ @ -, a letter or digit first", name)
	}
	return nil
}
