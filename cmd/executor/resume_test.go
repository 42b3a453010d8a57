package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/examples"
	"executor/internal/audit"
	"executor/outcome"
	"executor/upstreams"
)

// What a resume ends is told of like any other outcome: after a restore an open
// command that is not safe to repeat is unresolved from then on.
func TestResumeTells(t *testing.T) {
	env := adopted(t)
	pool, err := pgxpool.New(t.Context(), env["EXECUTOR_DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	profile, err := upstreams.Parse("ledger.yaml", examples.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	ups := upstreams.NewStore(pool)
	if _, _, err := ups.Apply(t.Context(), profile, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	jobs, err := attempts.NewInserter(pool)
	if err != nil {
		t.Fatal(err)
	}
	store := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups, Jobs: jobs})
	defer store.Close()
	a, err := store.Submit(t.Context(), commands.Submission{
		Tenant: "default", Key: "k", Upstream: "ledger", Operation: "charge_card", Actor: "test", Body: []byte(`{}`), HasBody: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	statement(t, pool, `
		INSERT INTO webhook_endpoints (id, tenant, url, description, events, upstreams, ordered, created_at, updated_at)
		VALUES (gen_random_uuid(), 'default', 'https://example.com/', '', '{}', '{}', false, now(), now())`)
	statement(t, pool, `UPDATE deployment SET frozen_at = clock_timestamp(), frozen_by = 'test', frozen_reason = 'restored', doubtful = true`)
	execute(t, env, "resume").must(t, exitSuccess)
	c, err := store.Get(t.Context(), "default", a.Command.ID)
	if err != nil || c.State != outcome.StateUnresolved {
		t.Fatalf("after the resume it is %s, %v", c.State, err)
	}
	var told []string
	err = pool.QueryRow(t.Context(), `SELECT array(SELECT type FROM webhook_deliveries WHERE command_id = $1)`, a.Command.ID).Scan(&told)
	if err != nil || strings.Join(told, " ") != "command.unresolved" {
		t.Errorf("told of %q, %v", told, err)
	}
}
