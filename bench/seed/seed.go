// Package seed fills a database with many commands, to measure what reads cost.
package seed

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/upstreams"
)

// Size is how much there is to be.
type Size struct {
	Commands   int // over 30 days, most of them young; one in ten is of the tenant "other"
	Unresolved int // of them; three in four wait for a person
	Conflicts  int
	Audit      int // entries
}

// Large is what pages have to bear.
var Large = Size{Commands: 1_000_000, Unresolved: 20_000, Conflicts: 200, Audit: 2000}

const profile = `version: 1
tenant: %s
upstream: %s
base_url: https://up.example
operations:
  pay:
    method: POST
    path: /payments
    body: json
    idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h}
    result: {reference: json.id}
`

//go:embed seed.sql
var script string

// Fill fills an empty database with commands of the tenant "default" at three
// upstreams, and some of "other". What it writes is what the stores would have
// written, as far as they read it.
func Fill(ctx context.Context, pool *pgxpool.Pool, size Size) error {
	ups := upstreams.NewStore(pool)
	for _, name := range []string{"default ledger", "default mail", "default rare", "other ledger"} {
		var tenant, upstream string
		if _, err := fmt.Sscan(name, &tenant, &upstream); err != nil {
			return err
		}
		p, err := upstreams.Parse("seed.yaml", fmt.Appendf(nil, profile, tenant, upstream))
		if err != nil {
			return err
		}
		if _, _, err := ups.Apply(ctx, p, audit.By{Actor: "seed"}); err != nil {
			return err
		}
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for name, n := range map[string]int{"commands": size.Commands, "unresolved": size.Unresolved, "conflicts": size.Conflicts} {
			if _, err := tx.Exec(ctx, `SELECT set_config($1, $2, true)`, "seed."+name, strconv.Itoa(n)); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, script); err != nil {
			return err
		}
		return record(ctx, tx, size.Audit)
	})
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	for _, table := range []string{"commands", "command_requests", "attempts", "events", "doubts", "findings", "lookups",
		"webhook_events", "webhook_deliveries", "webhook_tries", "tallies", "tally_totals", "audit"} {
		if _, err := pool.Exec(ctx, `VACUUM ANALYZE `+table); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
	}
	return nil
}

// record writes entries into the audit, of commands that there are.
func record(ctx context.Context, tx pgx.Tx, n int) error {
	rows, err := tx.Query(ctx, `SELECT id FROM commands WHERE tenant = 'default' AND phase IS NOT NULL ORDER BY id LIMIT $1`, n)
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	for i := range n {
		e := audit.Entry{Tenant: "default", Actor: "alice", Action: audit.ActionCommandAssign, Reason: "I look after it"}
		if len(ids) > 0 {
			e.Command = &ids[i%len(ids)]
		}
		if err := audit.Record(ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}
