package main

import (
	"io"

	"github.com/spf13/cobra"

	"executor/client"
)

func newNoticesCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "notices ID",
		Short: "Show what the upstream told about a command by itself",
		Long: `Notices shows what the upstream told about a command by itself, in the order it came, and
what became of it. In JSON each has its headers and its body.`,
		Example: "  executor notices 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			page, err := c.Notices(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printNotices)
		},
	}
	f.add(cmd)
	return cmd
}

func printNotices(w io.Writer, list []client.Notice) error {
	t := newTable(w, "EVENT", "RECEIVED", "NAMES", "WEIGHT", "FINDING", "REFERENCE", "STATE", "EFFECT", "BECAUSE")
	for _, n := range list {
		t.row(n.EventID, stamp(n.ReceivedAt), n.NamedBy+" "+n.Name, n.Weight, n.Finding, n.Reference, n.State, n.Effect, shorten(joined(n.Rule, n.Message)))
	}
	return t.flush()
}
