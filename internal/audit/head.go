package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Head reads a tenant's last entry as its head has it, without checking the chain:
// what to note for a later Verify. Number is 0 before the first entry.
func Head(ctx context.Context, pool *pgxpool.Pool, tenant string) (Pin, error) {
	head := Pin{Tenant: tenant}
	err := pool.QueryRow(ctx, `SELECT number, hash FROM audit_heads WHERE tenant = $1`, tenant).Scan(&head.Number, &head.Hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return head, nil
	}
	if err != nil {
		return Pin{}, fmt.Errorf("read the head of the audit of tenant %s: %w", tenant, err)
	}
	return head, nil
}
