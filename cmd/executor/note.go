package main

import (
	"context"

	"github.com/spf13/cobra"

	"executor/client"
)

func newNoteCommand() *cobra.Command {
	var f actionFlags
	cmd := &cobra.Command{
		Use:     "note ID TEXT",
		Short:   "Keep a note with a command (scope reviews:write)",
		Example: `  executor note 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d "called them, they look into it until Friday"`,
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return f.act(cmd, given[0], "Noting", func(ctx context.Context, c *client.Client, version int) (client.Command, error) {
				return c.Note(ctx, given[0], version, given[1])
			})
		},
	}
	f.add(cmd)
	return cmd
}
