package reconcile

import (
	"context"
	"errors"

	"executor/internal/audit"
)

// Audit reads a page of what people of a tenant did, newest first. With a command in
// the filter it has to be the tenant's: commands.ErrNotFound otherwise.
func (s *Store) Audit(ctx context.Context, f audit.Filter) ([]audit.Recorded, string, error) {
	if f.Command != nil {
		if _, err := s.commands.Get(ctx, f.Tenant, *f.Command); err != nil {
			return nil, "", err
		}
	}
	list, next, err := audit.List(ctx, s.pool, f)
	if err != nil && !errors.Is(err, audit.ErrBadCursor) {
		err = unavailable("read the audit", err)
	}
	return list, next, err
}

// VerifyAudit checks the chain of a tenant against itself and against entries that
// somebody noted elsewhere.
func (s *Store) VerifyAudit(ctx context.Context, tenant string, pins ...audit.Pin) (audit.Chain, error) {
	report, err := audit.Verify(ctx, s.pool, tenant, pins...)
	if err != nil {
		return audit.Chain{}, unavailable("verify the audit", err)
	}
	return report.Chains[0], nil
}
