package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"executor/client"
)

func newCancelCommand() *cobra.Command {
	var f clientFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Ask for no further attempt",
		Long: `Cancel asks for no further attempt of a command. A request on the wire is not cut off:
that would only make it ambiguous, so its evidence decides. The result is one of
  cancelled   nothing was sent or took effect, and nothing will be
  requested   an attempt is under way; wait for what it brings
  too_late    the command was over before
  in_doubt    it may have been done; there is no further attempt`,
		Example: "  executor cancel 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			done, err := c.Cancel(cmd.Context(), given[0], reason)
			if err != nil {
				return err
			}
			return printCancellation(cmd, f.out, done)
		},
	}
	f.add(cmd)
	addReason(cmd, &reason)
	return cmd
}

func printCancellation(cmd *cobra.Command, out format, done client.Cancellation) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), json.RawMessage(done.Command.JSON()))
	}
	fmt.Fprintf(cmd.OutOrStdout(), "cancel  %s\n\n", done.Result)
	return printCommand(cmd.OutOrStdout(), done.Command)
}
