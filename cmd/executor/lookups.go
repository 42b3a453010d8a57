package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"executor/client"
)

func newLookupsCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "lookups ID",
		Short: "Show what the upstream was asked about a command, and what it said",
		Long: `Lookups shows the read-only questions to the upstream about a command, the newest 200 of them, the oldest first.
The questions of one round are asked one after the other, until one tells. An absent
counts towards a confirmed absence only late enough and apart enough from the one
before. In JSON each has its request and its raw answer.`,
		Example: "  executor lookups 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d\n  executor lookups 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --output json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			page, err := c.Lookups(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			if f.out == formatJSON {
				return writeJSON(cmd.OutOrStdout(), page.JSON())
			}
			return printLookups(cmd.OutOrStdout(), page.Data)
		},
	}
	f.add(cmd)
	return cmd
}

func printLookups(w io.Writer, list []client.Lookup) error {
	t := newTable(w, "ROUND", "QUESTION", "ASKED", "TOOK", "STATUS", "FINDING", "COUNTS", "REFERENCE", "BECAUSE")
	for _, l := range list {
		t.row(l.Round, l.Question, stamp(l.StartedAt), age(l.EndedAt.Sub(l.StartedAt)), statusText(l.Status), l.Finding, countsText(l), l.Reference, becauseText(l))
	}
	return t.flush()
}

// countsText matters for absents only.
func countsText(l client.Lookup) string {
	if l.Finding != client.FindingAbsent {
		return ""
	}
	return yes(l.Counts)
}

// becauseText is what gave the finding: a failure, or a rule of the profile.
func becauseText(l client.Lookup) string {
	switch {
	case failureText(l.Category) != "":
		return shorten(fmt.Sprintf("%s: %s", l.Category, l.Detail))
	case l.Finding == client.FindingUnknown && len(l.Notes) > 0: // why what was there tells nothing
		return shorten(l.Notes[0])
	case l.Rule != "":
		return shorten(l.Rule)
	case len(l.Notes) > 0:
		return shorten(l.Notes[0])
	default:
		return shorten(l.Detail)
	}
}
