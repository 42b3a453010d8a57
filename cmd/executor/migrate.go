package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"executor/attempts"
	"executor/migrations"
)

func newMigrateCommand() *cobra.Command {
	config := defaultConfig()
	var out format
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema",
		Long: `Migrate brings the database to the schema of this version and does nothing where
it is there already. On a database without data it also adopts EXECUTOR_DEPLOYMENT_ID:
from then on only processes of that deployment send.`,
		Example: `  EXECUTOR_DATABASE_URL=postgres://executor@localhost/executor EXECUTOR_DEPLOYMENT_ID=production executor migrate`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := migrate(cmd.Context(), config)
			if err != nil {
				return err
			}
			if out == formatJSON {
				return writeJSON(cmd.OutOrStdout(), report)
			}
			return report.print(cmd)
		},
	}
	config.addDatabaseFlags(cmd.Flags())
	config.addDeploymentFlag(cmd.Flags())
	addOutput(cmd, &out)
	return cmd
}

// migration is what one run of migrate did.
type migration struct {
	Migrated     bool   `json:"migrated"`      // false: the schema was current before
	DeploymentID string `json:"deployment_id"` // of the data; "" while none is adopted
	Adopted      bool   `json:"adopted"`       // by this run
	Wanted       string `json:"-"`             // EXECUTOR_DEPLOYMENT_ID
}

func migrate(ctx context.Context, config Config) (migration, error) {
	if config.DeploymentID != "" {
		if err := checkDeploymentID(config.DeploymentID); err != nil {
			return migration{}, usage(err)
		}
	}
	pool, err := openDatabase(ctx, config)
	if err != nil {
		return migration{}, err
	}
	defer pool.Close()
	if err := onlyDurable(ctx, pool); err != nil {
		return migration{}, err
	}
	return migrateDatabase(ctx, pool, config.DeploymentID)
}

// migrateDatabase applies what is missing and adopts the deployment id on a
// database that has neither an owner nor a command.
func migrateDatabase(ctx context.Context, pool *pgxpool.Pool, deployment string) (migration, error) {
	report := migration{Wanted: deployment}
	current, err := migrations.Current(ctx, pool)
	if err != nil {
		return report, err
	}
	if err := migrations.Up(ctx, pool); err != nil {
		return report, err
	}
	report.Migrated = !current
	if deployment != "" {
		if report.Adopted, err = attempts.NewDeployment(pool, deployment, nil).AdoptEmpty(ctx); err != nil {
			return report, err
		}
	}
	err = pool.QueryRow(ctx, `SELECT id FROM deployment`).Scan(&report.DeploymentID)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return report, fmt.Errorf("read the deployment id: %w", err)
	}
	return report, nil
}

func (m migration) print(cmd *cobra.Command) error {
	t := newTable(cmd.OutOrStdout())
	if m.Migrated {
		t.row("schema", "migrated")
	} else {
		t.row("schema", "already current")
	}
	switch {
	case m.Adopted:
		t.row("deployment", m.DeploymentID+" (adopted)")
	case m.DeploymentID == "":
		t.row("deployment", "none yet")
	default:
		t.row("deployment", m.DeploymentID)
	}
	if err := t.flush(); err != nil {
		return err
	}
	m.advise(cmd)
	return nil
}

// advise says on stderr what still stands between this database and a process
// that sends.
func (m migration) advise(cmd *cobra.Command) {
	switch {
	case m.DeploymentID == "" && m.Wanted == "":
		cmd.PrintErrln(`The data has no deployment id yet: set EXECUTOR_DEPLOYMENT_ID and run "executor migrate" again.`)
	case m.DeploymentID == "":
		cmd.PrintErrf("The database holds commands but no deployment id: if it is not a copy of another one, run \"executor deployment adopt\" with EXECUTOR_DEPLOYMENT_ID=%s.\n", m.Wanted)
	case m.Wanted != "" && m.Wanted != m.DeploymentID:
		cmd.PrintErrf("The data belongs to deployment %q and EXECUTOR_DEPLOYMENT_ID is %q: \"executor serve\" will start frozen until \"executor deployment adopt\".\n", m.DeploymentID, m.Wanted)
	}
}
