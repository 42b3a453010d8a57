package main

import (
	"context"

	"github.com/spf13/cobra"

	"executor/client"
)

func newWebhooksCommand() *cobra.Command {
	return group("webhooks", "Have outcomes sent to receivers (scope admin)",
		newWebhooksListCommand(), newWebhooksCreateCommand(), newWebhooksShowCommand(), newWebhooksUpdateCommand(),
		newWebhooksSwitchCommand("enable", "Send to a receiver again; what was due meanwhile follows", false),
		newWebhooksSwitchCommand("disable", "Send nothing to a receiver for now; its deliveries wait", true),
		newWebhooksDeleteCommand(), newWebhooksRotateCommand(), newWebhooksVerifyCommand(), newWebhooksTestCommand(), newWebhooksRedeliverCommand(),
		newWebhooksListenCommand())
}

// webhookCommand is a command about one receiver that shows it afterwards.
func webhookCommand(use, short, long, example string, flags func(*cobra.Command), do func(context.Context, *client.Client, *cobra.Command, string) (client.Webhook, error)) *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			w, err := do(cmd.Context(), c, cmd, given[0])
			if err != nil {
				return err
			}
			return showWebhook(cmd, f.out, w)
		},
	}
	f.add(cmd)
	if flags != nil {
		flags(cmd)
	}
	return cmd
}

func newWebhooksListCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the receivers of outcomes",
		Example: "  executor webhooks list",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			page, err := c.Webhooks(cmd.Context())
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printWebhooks)
		},
	}
	f.add(cmd)
	return cmd
}

func newWebhooksCreateCommand() *cobra.Command {
	var s client.WebhookSettings
	return webhookCommand("create URL", "Have outcomes sent to a receiver; its secret is shown this once",
		`Create has each outcome sent to a URL as it comes, signed (Standard Webhooks) and at least
once. First the receiver is asked whether it wants them, and what happens meanwhile waits:
give it the secret, and have it asked again with "executor webhooks verify" where it was not
ready in time. "executor webhooks test" sends a test event, "executor deliveries list" shows what
was sent and what the receiver said.`,
		`  executor webhooks create https://shop.example/hooks/executor
  executor webhooks create https://shop.example/hooks/executor --events command.unresolved,command.corrected --upstreams ledger --ordered`,
		func(cmd *cobra.Command) { addWebhookFlags(cmd, &s) },
		func(ctx context.Context, c *client.Client, _ *cobra.Command, url string) (client.Webhook, error) {
			s.URL, s.Events, s.Upstreams = url, named(s.Events), named(s.Upstreams)
			return c.CreateWebhook(ctx, s)
		})
}

func newWebhooksShowCommand() *cobra.Command {
	return webhookCommand("show ID", "Show a receiver", "", "  executor webhooks show 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d", nil,
		func(ctx context.Context, c *client.Client, _ *cobra.Command, id string) (client.Webhook, error) {
			return c.Webhook(ctx, id)
		})
}

func newWebhooksDeleteCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "delete ID",
		Short:   "Send nothing more to a receiver; its delivery log stays",
		Example: "  executor webhooks delete 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			if err := c.DeleteWebhook(cmd.Context(), given[0]); err != nil {
				return err
			}
			cmd.PrintErrln("Deleted. What was not delivered yet will not be.")
			return nil
		},
	}
	f.add(cmd)
	return cmd
}
