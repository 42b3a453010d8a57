package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

func newWebhooksTestCommand() *cobra.Command {
	return newWebhooksSendCommand("test", "Send a test event to a receiver",
		`Test sends an event of the type webhook.test, which is delivered like any other, and shows
what became of its first try. The exit code is 1 if the receiver did not take it.`, (*client.Client).TestWebhook)
}

func newWebhooksVerifyCommand() *cobra.Command {
	return newWebhooksSendCommand("verify", "Ask a receiver once more whether it wants webhooks",
		`A receiver gets nothing but a challenge until it has answered it; deliveries wait. It is
asked by itself when its URL is set, and for two days. Verify asks at once, for example when
the receiver has its secret now, and shows what became of it. The exit code is 1 if it did
not answer. A receiver that cannot answer is confirmed by a person in the dashboard.`, (*client.Client).ChallengeWebhook)
}

// newWebhooksSendCommand sends an event of ours to a receiver.
func newWebhooksSendCommand(name, short, long string, send func(*client.Client, context.Context, string) (client.Delivery, error)) *cobra.Command {
	var f clientFlags
	var wait time.Duration
	cmd := &cobra.Command{
		Use:     name + " ID",
		Short:   short,
		Long:    long,
		Example: "  executor webhooks " + name + " 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			d, err := send(c, cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return f.showTried(cmd, c, d, wait)
		},
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 40*time.Second, "wait so long for the first try; 0 = not at all")
	return cmd
}

func newWebhooksRedeliverCommand() *cobra.Command {
	var f clientFlags
	var states []string
	var reason string
	since, until := moment{sign: -1}, moment{sign: -1}
	cmd := &cobra.Command{
		Use:   "redeliver ID --since TIME",
		Short: "Deliver a range of events once more",
		Long: `Redeliver has the events of a range delivered once more, those whose delivery failed unless
--state says otherwise. They keep their ids, by which the receiver knows a repeat. A long
range takes several calls: each says if there is more.`,
		Example: `  executor webhooks redeliver 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --since 48h
  executor webhooks redeliver 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --since 2026-12-01T00:00:00Z --until 2026-12-02T00:00:00Z --state failed,delivered`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if since.IsZero() {
				return usage(errors.New("--since is needed: a time, or a duration ago such as 48h"))
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			list, err := deliveryStatesOf(states)
			if err != nil {
				return err
			}
			done, err := c.RedeliverWebhook(cmd.Context(), given[0], client.RedeliverRange{Since: since.Time, Until: until.Time, States: list, Reason: reason})
			if err != nil {
				return err
			}
			if f.out == formatJSON {
				return writeJSON(cmd.OutOrStdout(), done)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "due again  %d\n", done.Count)
			if done.More {
				cmd.PrintErrln("There are more: the same call takes the next ones.")
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().Var(&since, "since", "events from here on: a time, or a duration ago")
	cmd.Flags().Var(&until, "until", "events before it: a time, or a duration ago (default now)")
	cmd.Flags().StringSliceVar(&states, "state", nil, "those in these states: "+strings.Join(deliveryStates(), ", ")+" (default failed)")
	addWebhookReason(cmd, &reason)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(deliveryStates(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
