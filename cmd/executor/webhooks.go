package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

func newWebhooksCommand() *cobra.Command {
	return group("webhooks", "Have outcomes sent to receivers (scope admin)",
		newWebhooksListCommand(), newWebhooksCreateCommand(), newWebhooksShowCommand(), newWebhooksUpdateCommand(),
		newWebhooksSwitchCommand("enable", "Send to a receiver again; what was due meanwhile follows", false),
		newWebhooksSwitchCommand("disable", "Send nothing to a receiver for now; its deliveries wait", true),
		newWebhooksDeleteCommand(), newWebhooksRotateCommand(), newWebhooksTestCommand(), newWebhooksRedeliverCommand(),
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

func printWebhooks(w io.Writer, list []client.Webhook) error {
	t := newTable(w, "ID", "URL", "EVENTS", "UPSTREAMS", "ORDERED", "SENDING", "DESCRIPTION")
	for _, h := range list {
		t.row(h.ID, h.URL, orAll(h.Events), orAll(h.Upstreams), yes(h.Ordered), enabledText(h), h.Description)
	}
	return t.flush()
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

func enabledText(h client.Webhook) string {
	if h.Disabled == nil {
		return "on"
	}
	return strings.TrimSuffix(fmt.Sprintf("disabled (%s): %s", h.Disabled.By, h.Disabled.Reason), ": ")
}

func showWebhook(cmd *cobra.Command, out format, h client.Webhook) error {
	if out == formatJSON {
		if err := writeJSON(cmd.OutOrStdout(), h.JSON()); err != nil {
			return err
		}
	} else if err := printWebhook(cmd.OutOrStdout(), h); err != nil {
		return err
	}
	if h.Secret != "" {
		cmd.PrintErrln("Keep the secret now: it cannot be shown again. Receivers verify signatures with it.")
	}
	return nil
}

func printWebhook(w io.Writer, h client.Webhook) error {
	t := newTable(w)
	t.row("id", h.ID)
	t.row("url", h.URL)
	if h.Description != "" {
		t.row("description", h.Description)
	}
	t.row("events", orAll(h.Events))
	t.row("upstreams", orAll(h.Upstreams))
	t.row("ordered", yes(h.Ordered))
	t.row("sending", enabledText(h))
	if h.Disabled != nil {
		t.row("disabled", stamp(h.Disabled.At))
	}
	if h.FailingSince != nil {
		t.row("failing", "since "+stamp(*h.FailingSince))
	}
	t.row("created", stamp(h.CreatedAt))
	for _, s := range h.Secrets {
		text := "of " + stamp(s.CreatedAt)
		if s.ExpiresAt != nil {
			text += ", signs until " + stamp(*s.ExpiresAt)
		}
		t.row("signed by", text)
	}
	if h.Secret != "" {
		t.row("secret", h.Secret)
	}
	return t.flush()
}

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

func newWebhooksCreateCommand() *cobra.Command {
	var s client.WebhookSettings
	return webhookCommand("create URL", "Have outcomes sent to a receiver; its secret is shown this once",
		`Create has each outcome sent to a URL as it comes, signed (Standard Webhooks) and at least
once. "executor webhooks test" sends a test event, "executor deliveries list" shows what
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

func newWebhooksTestCommand() *cobra.Command {
	var f clientFlags
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "test ID",
		Short: "Send a test event to a receiver",
		Long: `Test sends an event of the type webhook.test, which is delivered like any other, and shows
what became of its first try. The exit code is 1 if the receiver did not take it.`,
		Example: "  executor webhooks test 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			d, err := c.TestWebhook(cmd.Context(), given[0])
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
