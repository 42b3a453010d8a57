package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

const rootLong = `Executor sends commands to remote APIs that may time out and ends each with one
honest answer: success, rejected, unresolved or cancelled.

Start with "executor dev": everything on this machine, with an upstream that can be
made to misbehave.

Exit codes: 0 success, 1 error, 2 usage, 3 not found, 4 authentication (401, 403),
5 rejected, 6 unresolved, 7 cancelled, 8 still running when the wait ended,
130 interrupted.`

// newRootCommand is the whole command line.
func newRootCommand(getenv func(string) string) *cobra.Command {
	root := &cobra.Command{
		Use:           "executor",
		Short:         "Send commands to remote APIs; end each with one honest answer",
		Long:          rootLong,
		Args:          args(cobra.NoArgs),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return applyEnv(cmd.Flags(), getenv)
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage(fmt.Errorf("%w\nSee %q", err, cmd.CommandPath()+" --help"))
	})
	root.CompletionOptions.HiddenDefaultCmd = false
	addGroup(root, "run", "Run it:",
		newDevCommand(getenv), newServeCommand(getenv), newMigrateCommand(), newDoctorCommand(getenv),
		newSimulatorCommand())
	addGroup(root, "commands", "Submit and follow commands:",
		newSubmitCommand(), newGetCommand(), newListCommand(), newWatchCommand(), newCancelCommand())
	addGroup(root, "doubt", "Follow up doubts:",
		newReviewsCommand(), newResolveCommand(), newLookupCommand(), newLookupsCommand(), newNoticesCommand(), newResendCommand(), newAssignCommand(),
		newNoteCommand(), newCorrectCommand(), newReconcileCommand(), newAuditCommand())
	addGroup(root, "webhooks", "Tell of outcomes:", newWebhooksCommand(), newDeliveriesCommand())
	addGroup(root, "operate", "Operate:",
		newProfilesCommand(), newKeysCommand(), newOperatorsCommand(), newSecretsCommand(), newFreezeCommand(), newResumeCommand(), newDeploymentCommand())
	addGroup(root, "other", "More:", newDecideCommand(), newVersionCommand())
	root.SetHelpCommandGroupID("other")
	root.SetCompletionCommandGroupID("other")
	return root
}

func addGroup(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(commands...)
}

// group is a command that only holds others: alone it is a usage error, so
// that a script which forgot the verb does not pass.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, given []string) error {
			if len(given) > 0 {
				return usage(fmt.Errorf("unknown command %q for %q\nSee %q", given[0], cmd.CommandPath(), cmd.CommandPath()+" --help"))
			}
			return usage(fmt.Errorf("%s needs a subcommand\nSee %q", cmd.CommandPath(), cmd.CommandPath()+" --help"))
		},
	}
	g.AddCommand(commands...)
	return g
}
