package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/upstreams"
	"executor/webhooks"
)

func newDeploymentCommand() *cobra.Command {
	return group("deployment", "Whose data this is, and whether it sends", newDeploymentShowCommand(), newDeploymentAdoptCommand())
}

// deploymentFlags are those of the commands that stop and start sending.
type deploymentFlags struct{ databaseFlags }

func (f *deploymentFlags) add(cmd *cobra.Command) {
	f.databaseFlags.add(cmd)
	f.config.addDeploymentFlag(cmd.Flags())
}

// run opens the deployment, does one thing with it and prints how it stands
// then.
func (f *deploymentFlags) run(cmd *cobra.Command, do func(context.Context, *attempts.Deployment) (attempts.DeploymentState, error)) error {
	pool, err := openMigrated(cmd.Context(), f.config)
	if err != nil {
		return err
	}
	defer pool.Close()
	jobs, err := attempts.NewInserter(pool)
	if err != nil {
		return err
	}
	ups := upstreams.NewStore(pool)
	hooks := webhooks.NewStore(webhooks.Config{Pool: pool}) // a resume ends commands, and their outcomes are told
	defer hooks.Close()
	store := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups, Jobs: jobs, Announcer: hooks})
	defer store.Close()
	deployment := attempts.OpenDeployment(pool, f.config.DeploymentID, store, ups)
	deployment.Demand(onlyDurable)
	state, err := do(cmd.Context(), deployment)
	if err != nil {
		return deploymentError(err)
	}
	return printDeployment(cmd, f.out, state)
}

// deploymentError adds what to do.
func deploymentError(err error) error {
	switch {
	case errors.Is(err, attempts.ErrNoDeployment):
		return fmt.Errorf(`%w: set EXECUTOR_DEPLOYMENT_ID and run "executor migrate"`, err)
	case errors.Is(err, attempts.ErrOtherDeployment):
		return fmt.Errorf("%w (\"executor deployment adopt\", if this is no copy)", err)
	default:
		return err
	}
}

// deploymentView is the state as JSON shows it.
type deploymentView struct {
	ID           string     `json:"id"`
	Expected     string     `json:"expected"` // EXECUTOR_DEPLOYMENT_ID
	Frozen       bool       `json:"frozen"`
	FrozenAt     *time.Time `json:"frozen_at"`
	FrozenBy     string     `json:"frozen_by"`
	FrozenReason string     `json:"frozen_reason"`
	Doubtful     bool       `json:"doubtful"`
}

func printDeployment(cmd *cobra.Command, out format, s attempts.DeploymentState) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), deploymentView{s.ID, s.Expected, s.Frozen(), s.FrozenAt, s.FrozenBy, s.FrozenReason, s.Doubtful})
	}
	t := newTable(cmd.OutOrStdout())
	t.row("deployment", s.ID)
	if s.Expected != "" && s.Expected != s.ID {
		t.row("here", s.Expected+" (EXECUTOR_DEPLOYMENT_ID)")
	}
	if s.Foreign() {
		t.row("sending", "not by processes of "+s.Expected+": the data is "+s.ID+"'s")
	}
	if !s.Frozen() {
		if !s.Foreign() {
			t.row("sending", "on")
		}
		return t.flush()
	}
	t.row("sending", "frozen since "+stamp(*s.FrozenAt)+" by "+s.FrozenBy)
	t.row("reason", s.FrozenReason)
	if s.Doubtful {
		t.row("doubtful", "yes: resuming counts every open command of before as possibly sent")
	}
	return t.flush()
}

func newDeploymentShowCommand() *cobra.Command {
	var f deploymentFlags
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show whose data this is and whether it sends",
		Example: "  executor deployment show",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, d *attempts.Deployment) (attempts.DeploymentState, error) {
				return d.Show(ctx)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func newDeploymentAdoptCommand() *cobra.Command {
	var f deploymentFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "adopt",
		Short: "Make the data this deployment's own",
		Long: `Adopt writes EXECUTOR_DEPLOYMENT_ID into the data. A copy of another deployment's data
starts frozen, so that it does not send a second time what the original sends: adopt it
only when the original is gone or when it shall live on its own. It stays frozen until
"executor resume".`,
		Example: "  EXECUTOR_DEPLOYMENT_ID=staging executor deployment adopt",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkDeploymentID(f.config.DeploymentID); err != nil {
				return usage(err)
			}
			return f.run(cmd, func(ctx context.Context, d *attempts.Deployment) (attempts.DeploymentState, error) {
				return d.Adopt(ctx, audit.By{Actor: actor(), Reason: reason})
			})
		},
	}
	f.add(cmd)
	addReason(cmd, &reason)
	return cmd
}
