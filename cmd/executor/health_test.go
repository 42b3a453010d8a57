package main

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/testkit"
)

// TestADatabaseThatTakesNoChanges makes a process unready, also by the sessions it has:
// they answer reads, and no command can be accepted.
func TestADatabaseThatTakesNoChanges(t *testing.T) {
	config, err := pgxpool.ParseConfig(testkit.DatabaseURL(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := (&health{pool: pool}).Ready(context.Background()); err == nil || !strings.Contains(err.Error(), "takes no changes") {
		t.Errorf("ready: %v", err)
	}
}
