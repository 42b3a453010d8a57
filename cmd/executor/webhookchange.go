package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

// webhookTypes are the events that a receiver can ask for.
func webhookTypes() []string {
	return []string{client.WebhookSuccess, client.WebhookRejected, client.WebhookUnresolved, client.WebhookCancelled, client.WebhookCorrected}
}

func addWebhookFlags(cmd *cobra.Command, s *client.WebhookSettings) {
	flags := cmd.Flags()
	flags.StringSliceVar(&s.Events, "events", nil, "only these events: "+strings.Join(webhookTypes(), ", ")+"; all for all")
	flags.StringSliceVar(&s.Upstreams, "upstreams", nil, "only commands of these upstreams; all for all")
	flags.BoolVar(&s.Ordered, "ordered", false, "a command's next event waits until the one before was taken or given up")
	flags.StringVar(&s.Description, "description", "", "what it is, for people")
	addWebhookReason(cmd, &s.Reason)
	_ = cmd.RegisterFlagCompletionFunc("events", cobra.FixedCompletions(webhookTypes(), cobra.ShellCompDirectiveNoFileComp))
}

// addWebhookReason gives cmd the flag --reason, which may be left out here.
func addWebhookReason(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why; kept in the audit log with the name of your API key")
}

// named leaves out the word that stands for all.
func named(list []string) []string {
	if len(list) == 1 && list[0] == "all" {
		return []string{}
	}
	return list
}

func newWebhooksUpdateCommand() *cobra.Command {
	var s client.WebhookSettings
	return webhookCommand("update ID", "Change a receiver; what is left out stays", "",
		`  executor webhooks update 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --url https://shop.example/hooks/2
  executor webhooks update 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --events all --ordered=false`,
		func(cmd *cobra.Command) {
			addWebhookFlags(cmd, &s)
			cmd.Flags().StringVar(&s.URL, "to", "", "the URL that it is sent to from now on")
		},
		func(ctx context.Context, c *client.Client, cmd *cobra.Command, id string) (client.Webhook, error) {
			change, err := webhookChange(cmd, &s)
			if err != nil {
				return client.Webhook{}, err
			}
			return c.UpdateWebhook(ctx, id, change)
		})
}

// webhookChange takes what was given on the command line.
func webhookChange(cmd *cobra.Command, s *client.WebhookSettings) (client.WebhookChange, error) {
	var change client.WebhookChange
	any := false
	given := func(name string) bool {
		changed := cmd.Flags().Changed(name)
		any = any || changed
		return changed
	}
	if given("to") {
		change.URL = &s.URL
	}
	if given("description") {
		change.Description = &s.Description
	}
	if given("events") {
		change.Events = named(s.Events)
	}
	if given("upstreams") {
		change.Upstreams = named(s.Upstreams)
	}
	if given("ordered") {
		change.Ordered = &s.Ordered
	}
	change.Reason = s.Reason
	if !any {
		return change, usage(errors.New("nothing to change: give --to, --events, --upstreams, --ordered or --description"))
	}
	return change, nil
}

func newWebhooksSwitchCommand(name, short string, disabled bool) *cobra.Command {
	var reason string
	return webhookCommand(name+" ID", short, "", "  executor webhooks "+name+` 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --reason "their maintenance"`,
		func(cmd *cobra.Command) { addWebhookReason(cmd, &reason) },
		func(ctx context.Context, c *client.Client, _ *cobra.Command, id string) (client.Webhook, error) {
			return c.UpdateWebhook(ctx, id, client.WebhookChange{Disabled: &disabled, Reason: reason})
		})
}

func newWebhooksRotateCommand() *cobra.Command {
	overlap := 24 * time.Hour
	var reason string
	return webhookCommand("rotate ID", "Make a new secret; it is shown this once",
		`Rotate makes a new secret. Until the overlap is over, deliveries carry signatures of both,
so that the receiver can take its time. An overlap of 0 ends the old one at once, as for
one that leaked.`,
		`  executor webhooks rotate 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d
  executor webhooks rotate 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --overlap 0 --reason "the old one leaked"`,
		func(cmd *cobra.Command) {
			cmd.Flags().DurationVar(&overlap, "overlap", overlap, "how long the old secret goes on signing, up to 168h")
			addWebhookReason(cmd, &reason)
		},
		func(ctx context.Context, c *client.Client, _ *cobra.Command, id string) (client.Webhook, error) {
			return c.RotateWebhookSecret(ctx, id, overlap, reason)
		})
}
