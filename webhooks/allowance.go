package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// allowance is how often something may be asked for: burst times at once, and then
// once in every. It holds over all processes.
type allowance struct {
	of    string // in words
	every time.Duration
	burst int
}

// What people and programs of a tenant have us send, beyond outcomes.
var (
	challengeAllowance  = allowance{"challenges", time.Minute, MaxEndpoints + 10} // of a tenant: those who are asked did not ask for it
	testAllowance       = allowance{"test events", 6 * time.Second, 10}           // of an endpoint
	redeliverAllowance  = allowance{"redeliveries", time.Second, 120}             // of an endpoint, one delivery each
	redeliversAllowance = allowance{"redeliveries", 5 * time.Second, 20}          // of an endpoint, up to MaxRange deliveries each
)

// Busy: what is asked for was asked for too often lately.
type Busy struct {
	What  string
	Again time.Duration // until then
}

func (e *Busy) Error() string {
	return fmt.Sprintf("too many %s lately: again in %s", e.What, e.Again.Round(time.Second))
}

// use takes one of an allowance, or is *Busy. What a rolled back transaction used
// is not used.
func use(ctx context.Context, tx pgx.Tx, tenant, what string, a allowance) error {
	err := tx.QueryRow(ctx, `
		INSERT INTO webhook_allowances AS u (tenant, what, until) VALUES ($1, $2, clock_timestamp() + $3::interval)
		ON CONFLICT (tenant, what) DO UPDATE SET until = greatest(u.until, clock_timestamp()) + $3::interval
		WHERE u.until <= clock_timestamp() + $4::interval
		RETURNING true`, tenant, what, a.every, time.Duration(a.burst-1)*a.every).Scan(new(bool))
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return busy(ctx, tx, tenant, what, a)
	case err != nil:
		return fmt.Errorf("use an allowance of webhooks: %w", err)
	}
	return nil
}

func busy(ctx context.Context, tx pgx.Tx, tenant, what string, a allowance) error {
	var wait time.Duration
	err := tx.QueryRow(ctx, `
		SELECT until - clock_timestamp() FROM webhook_allowances WHERE tenant = $1 AND what = $2`, tenant, what).Scan(&wait)
	if err != nil {
		return fmt.Errorf("read an allowance of webhooks: %w", err)
	}
	return &Busy{What: a.of, Again: max(wait-time.Duration(a.burst-1)*a.every, time.Second)}
}

// useOf takes one of an allowance of an endpoint.
func useOf(ctx context.Context, tx pgx.Tx, tenant, what string, endpoint uuid.UUID, a allowance) error {
	return use(ctx, tx, tenant, what+" "+endpoint.String(), a)
}

// forgetAllowances removes those of which nothing is used any more.
func (s *Store) forgetAllowances(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM webhook_allowances WHERE until <= clock_timestamp()`); err != nil {
		return fmt.Errorf("forget allowances of webhooks: %w", err)
	}
	return nil
}
