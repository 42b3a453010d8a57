package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

func newGetCommand() *cobra.Command {
	var f clientFlags
	var wait time.Duration
	var attempts bool
	var key string
	cmd := &cobra.Command{
		Use:   "get ID | get --key KEY",
		Short: "Show a command with its attempts",
		Long: `Get shows where a command stands, what is known of the remote side, and every attempt with
its evidence. With --wait it waits for a final state first, and the exit code tells
which, as with submit. In JSON it is the command alone; --attempts gives the attempts.`,
		Example: `  executor get 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d
  executor get --key order-42 --wait 1m
  executor get 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --attempts --output json`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if (len(given) == 1) == (key != "") {
				return usage(errors.New("name the command: its id, or its key with --key"))
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			id, err := commandID(cmd.Context(), c, given, key)
			if err != nil {
				return err
			}
			if attempts {
				return getAttempts(cmd, c, f.out, id)
			}
			return getCommand(cmd, c, f.out, id, wait)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&key, "key", "", "the command with this idempotency key")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait so long for a final state")
	cmd.Flags().BoolVar(&attempts, "attempts", false, "only the attempts")
	return cmd
}

// commandID finds the command that is meant.
func commandID(ctx context.Context, c *client.Client, given []string, key string) (string, error) {
	if key == "" {
		return given[0], nil
	}
	page, err := c.ListPage(ctx, client.Filter{Key: key, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(page.Data) == 0 {
		return "", &exitError{code: exitNotFound, err: fmt.Errorf("there is no command with the key %q", key)}
	}
	return page.Data[0].ID, nil
}

func getCommand(cmd *cobra.Command, c *client.Client, out format, id string, wait time.Duration) error {
	command, err := c.Get(cmd.Context(), id)
	if err != nil {
		return err
	}
	ended := waitAndPrint(cmd, c, out, command, wait)
	if out == formatJSON || exitCode(ended) == exitFailure || exitCode(ended) == exitInterrupted {
		return ended
	}
	fmt.Fprintln(cmd.OutOrStdout())
	if err := getAttempts(cmd, c, out, id); err != nil {
		return err
	}
	return ended
}

func getAttempts(cmd *cobra.Command, c *client.Client, out format, id string) error {
	if out == formatJSON {
		document, err := c.AttemptsJSON(cmd.Context(), id)
		if err != nil {
			return err
		}
		return writeJSON(cmd.OutOrStdout(), document)
	}
	list, err := c.Attempts(cmd.Context(), id)
	if err != nil {
		return err
	}
	return printAttempts(cmd.OutOrStdout(), list)
}
