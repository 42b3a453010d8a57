package operators

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
)

// New is an operator to be.
type New struct {
	Name     string
	Password string // "": they sign in by a link only
	Tenant   string
	Role     Role // in the tenant
}

// Create adds an operator with a role in one tenant.
func (s *Store) Create(ctx context.Context, by By, n New) (Operator, error) {
	hash, err := s.checkNew(ctx, n)
	if err != nil {
		return Operator{}, err
	}
	var o Operator
	err = s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockRights(ctx, tx); err != nil {
			return err
		}
		if err := by.adminIn(ctx, tx, n.Tenant); err != nil {
			return err
		}
		id, err := insert(ctx, tx, n, hash)
		if err != nil {
			return err
		}
		if o, err = readOne(ctx, tx, `o.id = $1`, id); err != nil {
			return err
		}
		return by.note(ctx, tx, deed{action: audit.ActionOperatorCreate, tenants: []string{n.Tenant}, after: roleOf(n.Role)}, o)
	})
	if err != nil {
		return Operator{}, err
	}
	return o, nil
}

// checkNew refuses what never fits, and hashes the password, outside of any
// transaction.
func (s *Store) checkNew(ctx context.Context, n New) (hash *string, err error) {
	if err := checkName(n.Name); err != nil {
		return nil, err
	}
	if err := checkGrant(n.Tenant, n.Role); err != nil {
		return nil, err
	}
	if n.Password == "" {
		return nil, nil
	}
	if err := CheckPassword(n.Name, n.Password); err != nil {
		return nil, err
	}
	made, err := s.hasher.hash(ctx, n.Password)
	return &made, err
}

func checkGrant(tenant string, role Role) error {
	if wrong := audit.CheckTenant(tenant); wrong != "" {
		return invalid("tenant", "%q is not a tenant's name: %s", tenant, wrong)
	}
	_, err := ParseRole(string(role))
	return err
}

func insert(ctx context.Context, tx pgx.Tx, n New, hash *string) (uuid.UUID, error) {
	id := uuid.Must(uuid.NewV7())
	_, err := tx.Exec(ctx, `
		INSERT INTO operators (id, name, password_hash, created_at) VALUES ($1, $2, $3, now())`, id, n.Name, hash)
	if taken(err) {
		return id, fmt.Errorf("%w: %s", ErrExists, n.Name)
	}
	if err != nil {
		return id, fmt.Errorf("create operator %s: %w", n.Name, err)
	}
	return id, grant(ctx, tx, id, n.Tenant, n.Role)
}

func grant(ctx context.Context, tx pgx.Tx, id uuid.UUID, tenant string, role Role) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO operator_roles (operator_id, tenant, role) VALUES ($1, $2, $3)
		ON CONFLICT (operator_id, tenant) DO UPDATE SET role = excluded.role`, id, tenant, role)
	if err != nil {
		return fmt.Errorf("give operator %s a role: %w", id, err)
	}
	return nil
}

// roleOf is a role as the audit has it; nil is none.
func roleOf(r Role) any {
	if r == "" {
		return nil
	}
	return map[string]Role{"role": r}
}

// SetRole gives an operator a role in a tenant, in place of the one they have there.
// Somebody of other tenants is let into one more only by an admin of all of them: it
// makes their account that tenant's business too. An account without any role is
// nobody's, and starts anew: its password, sessions and links were made under others.
func (s *Store) SetRole(ctx context.Context, by By, id uuid.UUID, tenant string, role Role) (Operator, error) {
	if err := checkGrant(tenant, role); err != nil {
		return Operator{}, err
	}
	return s.change(ctx, by, id, func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error) {
		if err := by.adminIn(ctx, tx, tenant); err != nil {
			return deed{}, err
		}
		was := o.granted(tenant)
		if was == role {
			return deed{}, nil
		}
		if err := keepsAdmin(ctx, tx, o, tenant); err != nil {
			return deed{}, err
		}
		if was == "" {
			if err := by.admit(ctx, tx, o); err != nil {
				return deed{}, err
			}
		}
		d := deed{action: audit.ActionOperatorRole, tenants: []string{tenant}, before: roleOf(was), after: roleOf(role)}
		return d, grant(ctx, tx, id, tenant, role)
	})
}

// admit lets an operator into a tenant that they have no role in.
func (b By) admit(ctx context.Context, tx pgx.Tx, o Operator) error {
	if len(o.Roles) > 0 {
		return b.adminOf(ctx, tx, o)
	}
	if _, err := tx.Exec(ctx, `UPDATE operators SET password_hash = NULL, epoch = epoch + 1 WHERE id = $1`, o.ID); err != nil {
		return fmt.Errorf("begin the account of operator %s anew: %w", o.ID, err)
	}
	return nil
}

// RemoveRole ends what an operator may do in a tenant. Without any role nobody
// signs in.
func (s *Store) RemoveRole(ctx context.Context, by By, id uuid.UUID, tenant string) (Operator, error) {
	return s.change(ctx, by, id, func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error) {
		if err := by.adminIn(ctx, tx, tenant); err != nil {
			return deed{}, err
		}
		was := o.granted(tenant)
		if was == "" {
			return deed{}, nil
		}
		if err := keepsAdmin(ctx, tx, o, tenant); err != nil {
			return deed{}, err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM operator_roles WHERE operator_id = $1 AND tenant = $2`, id, tenant); err != nil {
			return deed{}, fmt.Errorf("take the role of operator %s: %w", id, err)
		}
		return deed{action: audit.ActionOperatorRole, tenants: []string{tenant}, before: roleOf(was)}, nil
	})
}

// granted is the operator's role in a tenant, of a disabled one too.
func (o Operator) granted(tenant string) Role {
	o.DisabledAt = nil
	return o.Role(tenant)
}

// Disable keeps an operator out, and ends their sessions and links.
func (s *Store) Disable(ctx context.Context, by By, id uuid.UUID) (Operator, error) {
	return s.change(ctx, by, id, func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error) {
		if id == by.Operator {
			return deed{}, ErrSelf
		}
		if err := by.adminOf(ctx, tx, o); err != nil || o.DisabledAt != nil {
			return deed{}, err
		}
		for _, g := range o.Roles {
			if err := keepsAdmin(ctx, tx, o, g.Tenant); err != nil {
				return deed{}, err
			}
		}
		if _, err := tx.Exec(ctx, `UPDATE operators SET disabled_at = now(), epoch = epoch + 1 WHERE id = $1`, id); err != nil {
			return deed{}, fmt.Errorf("disable operator %s: %w", id, err)
		}
		return deed{action: audit.ActionOperatorDisable, tenants: o.tenants(), before: disabled(false), after: disabled(true)}, nil
	})
}

// Enable lets a disabled operator sign in again.
func (s *Store) Enable(ctx context.Context, by By, id uuid.UUID) (Operator, error) {
	return s.change(ctx, by, id, func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error) {
		if err := by.adminOf(ctx, tx, o); err != nil || o.DisabledAt == nil {
			return deed{}, err
		}
		if _, err := tx.Exec(ctx, `UPDATE operators SET disabled_at = NULL WHERE id = $1`, id); err != nil {
			return deed{}, fmt.Errorf("enable operator %s: %w", id, err)
		}
		return deed{action: audit.ActionOperatorEnable, tenants: o.tenants(), before: disabled(true), after: disabled(false)}, nil
	})
}

func disabled(yes bool) any { return map[string]bool{"disabled": yes} }

// SetPassword gives an operator another password, and ends all their sessions and
// links, and the wait after failed sign-ins. Who changes their own goes on under a new session, which
// Sessions.Start begins with the returned Operator.
func (s *Store) SetPassword(ctx context.Context, by By, id uuid.UUID, password string) (Operator, error) {
	o, err := s.Get(ctx, id)
	if err != nil {
		return Operator{}, err
	}
	if err := CheckPassword(o.Name, password); err != nil {
		return Operator{}, err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return Operator{}, err
	}
	return s.change(ctx, by, id, func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error) {
		if err := by.selfOrAdmin(ctx, tx, o); err != nil {
			return deed{}, err
		}
		if _, err := tx.Exec(ctx, `UPDATE operators SET password_hash = $2, epoch = epoch + 1 WHERE id = $1`, id, hash); err != nil {
			return deed{}, fmt.Errorf("set the password of operator %s: %w", id, err)
		}
		if _, err := tx.Exec(ctx, forgive, hashOfName(o.Name)); err != nil {
			return deed{}, fmt.Errorf("forgive failed sign-ins: %w", err)
		}
		return deed{action: audit.ActionOperatorPassword, tenants: o.tenants()}, nil
	})
}

// EndSessions ends all sessions and links of an operator.
func (s *Store) EndSessions(ctx context.Context, by By, id uuid.UUID) (Operator, error) {
	return s.change(ctx, by, id, func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error) {
		if err := by.selfOrAdmin(ctx, tx, o); err != nil {
			return deed{}, err
		}
		if _, err := tx.Exec(ctx, `UPDATE operators SET epoch = epoch + 1 WHERE id = $1`, id); err != nil {
			return deed{}, fmt.Errorf("end the sessions of operator %s: %w", id, err)
		}
		return deed{action: audit.ActionOperatorEndSessions, tenants: o.tenants()}, nil
	})
}

// selfOrAdmin lets people change their own account.
func (b By) selfOrAdmin(ctx context.Context, q querier, o Operator) error {
	if b.Operator == o.ID && o.DisabledAt == nil {
		return nil
	}
	return b.adminOf(ctx, q, o)
}
