package operators

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
)

// By says who changes somebody's rights, and why.
type By struct {
	Actor    string    // as the audit names them
	Operator uuid.UUID // the operator who does it; zero: who has the database, and may do everything
	Reason   string    // "" where none was asked for
}

// lockRights orders the changes of rights one after the other, so that what one
// of them checks is still true when it commits. They are rare.
func lockRights(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('operators', 0))`); err != nil {
		return fmt.Errorf("lock the operators' rights: %w", err)
	}
	return nil
}

// change does something to an operator's account in a transaction in which nobody's
// rights change otherwise, and notes it.
func (s *Store) change(ctx context.Context, by By, id uuid.UUID, do func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error)) (Operator, error) {
	var o Operator
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := lockRights(ctx, tx); err != nil {
			return err
		}
		before, err := readOne(ctx, tx, `o.id = $1`, id)
		if err != nil {
			return err
		}
		d, err := do(ctx, tx, before)
		if err != nil {
			return err
		}
		if o, err = readOne(ctx, tx, `o.id = $1`, id); err != nil || d.action == "" {
			return err
		}
		return by.note(ctx, tx, d, o)
	})
	if err != nil {
		return Operator{}, err
	}
	return o, nil
}

// deed is what is noted of a change; without an action nothing was changed.
type deed struct {
	action        string
	tenants       []string // those that it takes effect in; their audits have it, or the deployment's if there are none
	before, after any
}

// note writes a deed into the audits of the tenants it takes effect in, as the last
// step of its transaction. The order keeps two of them from waiting for each other.
func (b By) note(ctx context.Context, tx pgx.Tx, d deed, o Operator) error {
	tenants := slices.Sorted(slices.Values(d.tenants))
	if len(tenants) == 0 {
		tenants = []string{audit.Deployment}
	}
	for _, tenant := range tenants {
		err := audit.Record(ctx, tx, audit.Entry{
			Tenant: tenant, Actor: b.Actor, Action: d.action, Subject: o.Name,
			Reason: b.Reason, Before: d.before, After: d.after, Details: map[string]any{"id": o.ID},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// adminIn reports whether whoever asks may change rights in the tenant.
func (b By) adminIn(ctx context.Context, q querier, tenant string) error {
	if b.Operator == uuid.Nil {
		return nil
	}
	asks, err := readOne(ctx, q, `o.id = $1`, b.Operator)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	if !asks.Role(tenant).Allows(RoleAdmin) {
		return fmt.Errorf("%w: only an admin of the tenant changes its operators", ErrForbidden)
	}
	return nil
}

// adminOf reports whether whoever asks may change the whole account of an
// operator: they have to be an admin wherever that operator has a role. Otherwise
// an admin of one tenant could become somebody of another.
func (b By) adminOf(ctx context.Context, q querier, o Operator) error {
	if b.Operator == uuid.Nil {
		return nil
	}
	for _, g := range o.Roles {
		err := b.adminIn(ctx, q, g.Tenant)
		if errors.Is(err, ErrForbidden) {
			return fmt.Errorf("%w: %s has a role in a tenant that you are no admin of", ErrForbidden, o.Name)
		}
		if err != nil {
			return err
		}
	}
	if len(o.Roles) == 0 {
		return fmt.Errorf("%w: %s has no role in your tenant", ErrForbidden, o.Name)
	}
	return nil
}

// keepsAdmin refuses what would leave the tenant without an enabled admin, if the
// operator is one now.
func keepsAdmin(ctx context.Context, q querier, o Operator, tenant string) error {
	if o.Role(tenant) != RoleAdmin {
		return nil
	}
	var another bool
	err := q.QueryRow(ctx, `
		SELECT EXISTS (
			SELECT FROM operator_roles r JOIN operators o ON o.id = r.operator_id
			WHERE r.tenant = $1 AND r.role = 'admin' AND o.disabled_at IS NULL AND o.id <> $2)`, tenant, o.ID).Scan(&another)
	if err != nil {
		return fmt.Errorf("look for another admin: %w", err)
	}
	if !another {
		return fmt.Errorf("%w (tenant %s)", ErrLastAdmin, tenant)
	}
	return nil
}

// tenants are those that the operator has a role in.
func (o Operator) tenants() []string {
	var list []string
	for _, g := range o.Roles {
		list = append(list, g.Tenant)
	}
	return list
}
