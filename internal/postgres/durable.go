package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotDurable: a commit on this database may be lost though it was confirmed.
var ErrNotDurable = errors.New("the database does not keep what it commits")

// DurableSettings are those that a commit's surviving stands on. Any value but off
// is fine.
func DurableSettings() []string { return []string{"fsync", "full_page_writes", "synchronous_commit"} }

// Durable is ErrNotDurable where one of the settings is off, as a session of the pool
// has it: the server, the database, the role and the URL may each set it.
func Durable(ctx context.Context, pool *pgxpool.Pool) error {
	var off string
	err := pool.QueryRow(ctx, `
		SELECT coalesce(string_agg(name, ', ' ORDER BY name), '') FROM unnest($1::text[]) AS name
		WHERE current_setting(name) = 'off'`, DurableSettings()).Scan(&off)
	if err != nil {
		return fmt.Errorf("read whether commits are durable: %w", err)
	}
	if off != "" {
		return fmt.Errorf("%w: %s is off, for the server or for this database, role or URL; "+
			"set it to on: without it a crash of the database's machine loses accepted commands and attempts already sent", ErrNotDurable, off)
	}
	return nil
}
