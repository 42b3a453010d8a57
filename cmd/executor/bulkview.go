package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"executor/client"
)

// bulkText is what is done, in words.
func bulkText(r client.BulkRequest) string {
	switch r.Action {
	case "resolve":
		return "resolve as " + string(r.State)
	case "assign":
		return "assign to " + orNobody(r.Assignee)
	case "resend":
		return "send once more"
	case "lookup":
		return "look up"
	default:
		return r.Action
	}
}

func printCount(cmd *cobra.Command, what string, counted client.Bulk) error {
	fmt.Fprintln(cmd.OutOrStdout(), plain(what))
	if len(counted.Sample) > 0 {
		if err := printBulkItems(cmd.OutOrStdout(), counted.Sample); err != nil {
			return err
		}
	}
	if n := counted.Count - len(counted.Sample); n > 0 && len(counted.Sample) > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "and %d more\n", n)
	}
	cmd.PrintErrln("Nothing was done.")
	return nil
}

// countText is what a dry run found.
func countText(r client.BulkRequest, counted client.Bulk) string {
	text := fmt.Sprintf("%s: %s", bulkText(r), plural(counted.Count, "command"))
	if counted.Refused == 0 {
		return text
	}
	var because []string
	for _, problem := range slices.Sorted(maps.Keys(counted.Problems)) {
		because = append(because, fmt.Sprintf("%s %d", problem, counted.Problems[problem]))
	}
	return fmt.Sprintf("%s, of which %d would be refused now (%s)", text, counted.Refused, strings.Join(because, ", "))
}

// followBulk shows how far it is until it is over, then what became of each.
func followBulk(cmd *cobra.Command, c *client.Client, out format, id string) error {
	shown := -1
	b, err := c.WaitBulk(cmd.Context(), id, func(b client.Bulk) {
		if over := b.Done + b.Refused; over != shown && !b.Over() {
			shown = over
			cmd.PrintErrf("%d of %d\n", over, b.Count)
		}
	})
	if errors.Is(err, context.Canceled) {
		cmd.PrintErrf("It goes on in the service; \"executor reviews bulk show %s\" shows how far it is.\n", id)
	}
	if err != nil {
		return err
	}
	return printBulk(cmd, out, b)
}

// printBulk shows each result; what was refused is an error of the command line.
func printBulk(cmd *cobra.Command, out format, b client.Bulk) error {
	if out == formatJSON {
		if err := writeJSON(cmd.OutOrStdout(), b.JSON()); err != nil {
			return err
		}
	} else if err := printBulkItems(cmd.OutOrStdout(), b.Items); err != nil {
		return err
	}
	cmd.PrintErrf("%s %s: %d of %d done, %d refused\n", b.Action, b.State, b.Done, b.Count, b.Refused)
	if b.Refused > 0 {
		return &exitError{code: exitFailure}
	}
	return nil
}

func printBulkItems(w io.Writer, items []client.BulkItem) error {
	t := newTable(w, "ID", "RESULT", "PROBLEM", "BECAUSE")
	for _, i := range items {
		t.row(i.CommandID, i.Result, i.Problem, shorten(i.Detail))
	}
	return t.flush()
}
