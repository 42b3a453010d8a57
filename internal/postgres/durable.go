package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotDurable: a commit on this database may be lost though it was confirmed.
var ErrNotDurable = errors.New("the database does not keep what it commits")

// DurableSettings are those that a commit's surviving stands on. Any value but off
// is fine.
func DurableSettings() []string { return []string{"fsync", "full_page_writes", "synchronous_commit"} }

// Durable is ErrNotDurable where one of the settings is off, as a new session has it:
// the server, the database, the role and the URL may each set it.
func Durable(ctx context.Context, pool *pgxpool.Pool) error {
	settings, err := Durability(ctx, pool)
	if err != nil {
		return err
	}
	var off []string
	for _, name := range DurableSettings() {
		if settings[name] == "off" {
			off = append(off, name)
		}
	}
	if len(off) > 0 {
		return fmt.Errorf("%w: %s is off, for the server or for this database, role or URL; "+
			"set it to on: without it a crash of the database's machine loses accepted commands and attempts already sent", ErrNotDurable, strings.Join(off, ", "))
	}
	return nil
}

// Durability reads the settings in a session of its own: one of the pool keeps what its
// role had when it began, and is not left without synchronous commits (see keepCommits).
func Durability(ctx context.Context, pool *pgxpool.Pool) (map[string]string, error) {
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("read whether commits are durable: %w", err)
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bound)
	}()
	settings := make(map[string]string)
	for _, name := range DurableSettings() {
		var value string
		if err := conn.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return nil, fmt.Errorf("read whether commits are durable: %w", err)
		}
		settings[name] = value
	}
	return settings, nil
}

// keepCommits has a session of the pool commit synchronously where its role, database
// or URL says otherwise: that may have been changed since a process started, and it
// must not send under a record that may be forgotten until it looks again.
func keepCommits(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`)
	return err
}
