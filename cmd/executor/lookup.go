package main

import (
	"context"

	"github.com/spf13/cobra"

	"executor/client"
)

func newLookupCommand() *cobra.Command {
	var f actionFlags
	cmd := &cobra.Command{
		Use:   "lookup ID --reason TEXT",
		Short: "Ask the upstream about an unresolved command now (scope reviews:write)",
		Long: `Lookup brings the next round of lookups forward; "executor lookups ID" shows what it
brought. Where a person has the command it is one round, and it stays with the person. It
sends nothing that could do the command again.`,
		Example: `  executor lookup 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --reason "their outage is over"`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := needReason(f.reason); err != nil {
				return err
			}
			return f.act(cmd, given[0], "Looking up", func(ctx context.Context, c *client.Client, version int) (client.Command, error) {
				return c.LookUp(ctx, given[0], version, f.reason)
			})
		},
	}
	f.add(cmd)
	f.addReason(cmd)
	return cmd
}
