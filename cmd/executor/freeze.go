package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"executor/attempts"
	"executor/internal/audit"
)

func newFreezeCommand() *cobra.Command {
	var f deploymentFlags
	var (
		reason string
		doubt  bool
	)
	cmd := &cobra.Command{
		Use:   "freeze --reason TEXT",
		Short: "Stop sending everywhere",
		Long: `Freeze stops sending in every process of the deployment within a second or so. Attempts
on the wire finish; commands are accepted, read and cancelled as before; their deadlines
run on. "executor resume" ends it.

A promotion, a restore and a copy are noticed by themselves. Where a database was
restored in a way that leaves no trace, over its own files for instance, say so with
--doubt: on resume everything unfinished then counts as possibly sent.`,
		Example: `  executor freeze --reason "ledger double-posts, see incident 42"`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return usage(errors.New("--reason is needed: it is kept and shown with your name"))
			}
			return f.run(cmd, func(ctx context.Context, d *attempts.Deployment) (attempts.DeploymentState, error) {
				by := audit.By{Actor: actor(), Reason: reason}
				if doubt {
					return d.Doubt(ctx, by)
				}
				return d.Freeze(ctx, by)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&doubt, "doubt", false, "what was committed last may be lost: count everything unfinished as possibly sent on resume")
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept and shown with your name")
	return cmd
}

func newResumeCommand() *cobra.Command {
	var f deploymentFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "resume",
		Short: "Send again after a freeze",
		Long: `Resume ends a freeze. After a promotion or a restore every command that was open counts
as possibly sent first, since the record of an attempt may be what was lost; then the
rules decide. Make sure before that the old database and its processes are gone.`,
		Example: `  executor resume --reason "the old primary is gone"`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, d *attempts.Deployment) (attempts.DeploymentState, error) {
				return d.Resume(ctx, audit.By{Actor: actor(), Reason: reason})
			})
		},
	}
	f.add(cmd)
	addReason(cmd, &reason)
	return cmd
}
