package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

func newWatchCommand() *cobra.Command {
	var f clientFlags
	var wait time.Duration
	var settled bool
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a command until it is final",
		Long: `Watch prints what happened to a command and what happens next, one event a line, until it
has an outcome; the exit code tells which, as with submit. With --settled it goes on while
the command is unresolved, and shows each lookup and what was found. In JSON each line is
an event.`,
		Example: `  executor watch 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d
  executor watch 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --settled
  executor watch 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --wait 1m --output json`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			return follow(cmd, c, f.out, given[0], wait, settled)
		},
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 0, "follow no longer than this")
	cmd.Flags().BoolVar(&settled, "settled", false, "go on while it is unresolved")
	return cmd
}

// follow prints events until the one that made the command's newest outcome, which
// with settled must be another than unresolved.
func follow(cmd *cobra.Command, c *client.Client, out format, id string, wait time.Duration, settled bool) error {
	ctx := cmd.Context()
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	for event, err := range c.Follow(ctx, id) {
		if err != nil {
			return err
		}
		if err := printEvent(cmd.OutOrStdout(), out, event); err != nil {
			return err
		}
		if event.Sequence == 0 {
			continue
		}
		command, err := c.Get(ctx, id)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil && command.Final && command.Outcome.Common().Sequence <= event.Sequence &&
			(!settled || command.State != client.StateUnresolved) {
			cmd.PrintErrln("Known: " + meaning(command) + ".")
			return stateExit(command.State)
		}
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if settled {
		cmd.PrintErrf("Not settled after %s.\n", wait)
	} else {
		cmd.PrintErrf("Not final after %s.\n", wait)
	}
	return &exitError{code: exitStillRunning}
}

func printEvent(w io.Writer, out format, e client.Event) error {
	if out == formatJSON {
		return json.NewEncoder(jsonWriter{w}).Encode(e)
	}
	line := fmt.Sprintf("%s  %-26s", stamp(e.At), plain(e.Type))
	if e.Actor != "" {
		line += "  by " + plain(e.Actor)
	}
	_, err := fmt.Fprintf(w, "%s  %s\n", line, plain(eventText(e)))
	return err
}
