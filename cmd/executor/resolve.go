package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"executor/client"
)

// resolutionFlags say how a command really ended.
type resolutionFlags struct {
	as, evidence, reference, code, message string
}

func (f *resolutionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.as, "as", "", "how it really ended: success, rejected or cancelled")
	flags.StringVar(&f.evidence, "evidence", "", "where the evidence can be seen: a ticket, a statement")
	flags.StringVar(&f.reference, "reference", "", "the upstream's name for what was done; with success")
	flags.StringVar(&f.code, "code", "", "the upstream's code of the refusal; with rejected")
	flags.StringVar(&f.message, "message", "", "the upstream's words of the refusal; with rejected")
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(settledStates(), cobra.ShellCompDirectiveNoFileComp))
}

// settledStates are those that a person can settle a command in.
func settledStates() []string {
	return []string{string(client.StateSuccess), string(client.StateRejected), string(client.StateCancelled)}
}

func checkSettled(state string) error {
	if !slices.Contains(settledStates(), state) {
		return usage(fmt.Errorf("--as is needed: success, rejected or cancelled, not %q", state))
	}
	return nil
}

func (f *resolutionFlags) resolution(reason string) (client.Resolution, error) {
	switch {
	case checkSettled(f.as) != nil:
		return client.Resolution{}, checkSettled(f.as)
	case f.reference != "" && f.as != string(client.StateSuccess):
		return client.Resolution{}, usage(errors.New("--reference goes with --as success"))
	case f.code+f.message != "" && f.as != string(client.StateRejected):
		return client.Resolution{}, usage(errors.New("--code and --message go with --as rejected"))
	}
	return client.Resolution{
		State: client.State(f.as), Reason: reason, EvidenceReference: f.evidence, Reference: f.reference, Code: f.code, Message: f.message,
	}, needReason(reason)
}

func newResolveCommand() *cobra.Command {
	var f actionFlags
	var r resolutionFlags
	cmd := &cobra.Command{
		Use:   "resolve ID --as STATE --reason TEXT",
		Short: "Say what became of an unresolved command (scope reviews:write)",
		Long: `Resolve settles an unresolved command on your word, for what no automation can find out.
Your name, the reason and the evidence are kept in the audit log, and the caller is told
as of any other outcome.

Without --version the command is read first and shown in one line. If it changes between
that and the resolve, by a lookup or by somebody else, nothing is done and you are told
what has changed.`,
		Example: `  executor resolve 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --as success --reference pay_9 --reason "seen in their dashboard" --evidence TICKET-7
  executor resolve 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --as cancelled --reason "their support found nothing" --version 7`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			resolution, err := r.resolution(f.reason)
			if err == nil && r.as == string(client.StateSuccess) && r.reference+r.evidence == "" {
				err = usage(errors.New("--as success needs --reference, the upstream's name for what was done, or --evidence, where it can be seen"))
			}
			if err != nil {
				return err
			}
			return f.act(cmd, given[0], "Resolving as "+r.as, func(ctx context.Context, c *client.Client, version int) (client.Command, error) {
				return c.Resolve(ctx, given[0], version, resolution)
			})
		},
	}
	f.add(cmd)
	f.addReason(cmd)
	r.add(cmd)
	return cmd
}

func newCorrectCommand() *cobra.Command {
	var f actionFlags
	var r resolutionFlags
	cmd := &cobra.Command{
		Use:   "correct ID --as STATE --reason TEXT",
		Short: "Correct an outcome that turned out to be wrong (scope reviews:write)",
		Long: `Correct moves a settled command to another settled state, because evidence contradicts it
(it stands in the reviews as a conflict) or because it was resolved by mistake; the caller
is told by the event command.corrected. With the state that it has already, the
contradicting evidence is dismissed and nothing else changes.`,
		Example: `  executor correct 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --as success --reference pay_9 --reason "on the statement of May" --evidence STATEMENT-5`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			resolution, err := r.resolution(f.reason)
			if err != nil {
				return err
			}
			return f.act(cmd, given[0], "Correcting to "+r.as, func(ctx context.Context, c *client.Client, version int) (client.Command, error) {
				return c.Correct(ctx, given[0], version, resolution)
			})
		},
	}
	f.add(cmd)
	f.addReason(cmd)
	r.add(cmd)
	return cmd
}
