package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"executor/client"
)

func newAssignCommand() *cobra.Command {
	var f actionFlags
	var none bool
	cmd := &cobra.Command{
		Use:   "assign ID NAME|--none --reason TEXT",
		Short: "Say who looks after a command (scope reviews:write)",
		Long: `Assign keeps who looks after a command; it changes nothing else. With --none it is
everybody's again.`,
		Example: `  executor assign 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d ann --reason "she knows them"
  executor assign 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --none --reason "ann is away"`,
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if (len(given) == 2) == none {
				return usage(errors.New("say who: a name after the id, or --none"))
			}
			if err := needReason(f.reason); err != nil {
				return err
			}
			name := append(given, "")[1]
			return f.act(cmd, given[0], "Assigning to "+orNobody(name), func(ctx context.Context, c *client.Client, version int) (client.Command, error) {
				return c.Assign(ctx, given[0], version, name, f.reason)
			})
		},
	}
	f.add(cmd)
	f.addReason(cmd)
	cmd.Flags().BoolVar(&none, "none", false, "nobody in particular")
	return cmd
}
