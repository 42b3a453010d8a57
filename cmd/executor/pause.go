package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"executor/client"
)

func newProfilesPauseCommand() *cobra.Command {
	var f clientFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "pause NAME --reason TEXT",
		Short: "Hold back all commands of one upstream (scope admin)",
		Long: `Pause starts no further attempt at the upstream until "executor profiles resume". Attempts
on the wire finish; commands are accepted, read and cancelled as before; their deadlines
run on. A second pause replaces the reason of the first.`,
		Example: `  executor profiles pause ledger --reason "ledger maintenance"`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if reason == "" {
				return usage(errors.New("--reason is needed: it is kept and shown with the name of your API key"))
			}
			return f.changeSending(cmd, func(ctx context.Context, c *client.Client) (client.Upstream, error) {
				return c.PauseUpstream(ctx, given[0], reason)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept and shown with the name of your API key")
	return cmd
}

func newProfilesResumeCommand() *cobra.Command {
	var f clientFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Send to an upstream again after a pause (scope admin)",
		Long: `Resume ends the pause of one upstream: its commands are sent again, by their rules. It ends
neither a freeze of the deployment ("executor resume") nor a throttle, which ends by itself.`,
		Example: "  executor profiles resume ledger",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return f.changeSending(cmd, func(ctx context.Context, c *client.Client) (client.Upstream, error) {
				return c.ResumeUpstream(ctx, given[0], reason)
			})
		},
	}
	f.add(cmd)
	addReason(cmd, &reason)
	return cmd
}

// changeSending changes whether an upstream is sent to, and shows what holds now.
func (f *clientFlags) changeSending(cmd *cobra.Command, change func(context.Context, *client.Client) (client.Upstream, error)) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	u, err := change(cmd.Context(), c)
	if err != nil {
		return err
	}
	if f.out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), u)
	}
	return printUpstreams(cmd, f.out, []client.Upstream{u})
}
