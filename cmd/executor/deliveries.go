package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

func newDeliveriesCommand() *cobra.Command {
	return group("deliveries", "Show what was sent to webhooks, and send it again (scope admin)",
		newDeliveriesListCommand(), newDeliveriesShowCommand(), newDeliveriesRedeliverCommand())
}

func deliveryStates() []string {
	return []string{string(client.DeliveryPending), string(client.DeliveryDelivered), string(client.DeliveryFailed), string(client.DeliveryDropped)}
}

func deliveryStatesOf(names []string) ([]client.DeliveryState, error) {
	var states []client.DeliveryState
	for _, s := range names {
		if !slices.Contains(deliveryStates(), s) {
			return nil, usage(fmt.Errorf("unknown state %q: there are %s", s, strings.Join(deliveryStates(), ", ")))
		}
		states = append(states, client.DeliveryState(s))
	}
	return states, nil
}

func newDeliveriesListCommand() *cobra.Command {
	var f clientFlags
	var filter client.DeliveryFilter
	var states []string
	since, until := moment{sign: -1}, moment{sign: -1}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List deliveries, newest first",
		Example: `  executor deliveries list
  executor deliveries list --state failed,pending --webhook 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d
  executor deliveries list --command 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --output json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if filter.States, err = deliveryStatesOf(states); err != nil {
				return err
			}
			filter.Since, filter.Until = since.Time, until.Time
			c, err := f.connect()
			if err != nil {
				return err
			}
			page, err := c.DeliveriesPage(cmd.Context(), filter)
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printDeliveries)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&filter.Webhook, "webhook", "", "only to the receiver with this id")
	flags.StringVar(&filter.Command, "command", "", "only of the command with this id")
	flags.StringVar(&filter.Event, "event", "", "only of the event with this id, which receivers see as webhook-id")
	flags.Var(&since, "since", "only of events from here on: a time, or a duration ago")
	flags.Var(&until, "until", "only of events before it: a time, or a duration ago")
	flags.StringVar(&filter.Type, "type", "", "only events of this type, such as command.success")
	flags.StringSliceVar(&states, "state", nil, "only these states: "+strings.Join(deliveryStates(), ", "))
	addPaging(cmd, &filter.Limit, &filter.Cursor)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(deliveryStates(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func printDeliveries(w io.Writer, list []client.Delivery) error {
	t := newTable(w, "ID", "EVENT OF", "TYPE", "COMMAND", "SEQUENCE", "STATE", "TRIES", "LAST", "NEXT")
	for _, d := range list {
		t.row(d.ID, stamp(d.At), d.Type, d.CommandID, d.Sequence, d.State, d.Tries, lastText(d), stampOrNone(d.NextAt))
	}
	return t.flush()
}

// lastText is what came of the last try.
func lastText(d client.Delivery) string {
	return tryText(d.Status, d.Failure, d.Detail)
}

func tryText(status int, category, detail string) string {
	text := statusText(status)
	if failure := failureText(category); failure != "" {
		text = strings.TrimSpace(text + " " + failure)
		if detail != "" {
			text += ": " + shorten(detail)
		}
	}
	return text
}

func newDeliveriesShowCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a delivery with what was sent and every try",
		Example: "  executor deliveries show 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			d, err := c.Delivery(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return showDelivery(cmd, f.out, d)
		},
	}
	f.add(cmd)
	return cmd
}

func showDelivery(cmd *cobra.Command, out format, d client.Delivery) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), d.JSON())
	}
	return printDelivery(cmd.OutOrStdout(), d)
}

func printDelivery(w io.Writer, d client.Delivery) error {
	t := newTable(w)
	t.row("id", d.ID)
	t.row("webhook", d.WebhookID)
	t.row("event", fmt.Sprintf("%s, %s", d.EventID, d.Type))
	if d.CommandID != "" {
		t.row("command", fmt.Sprintf("%s, sequence %d", d.CommandID, d.Sequence))
	}
	t.row("state", d.State)
	t.row("event of", stamp(d.At))
	if d.HeldUntil != nil {
		t.row("held until", stamp(*d.HeldUntil)+", unless another outcome comes before")
	}
	if d.EndedAt != nil {
		t.row("ended", stamp(*d.EndedAt))
	}
	if d.NextAt != nil {
		t.row("next try", stamp(*d.NextAt))
	}
	t.row("tries", d.Tries)
	if d.Tries > 0 {
		t.row("last", lastText(d))
	}
	if d.Payload != nil {
		t.row("payload", string(compact(d.Payload)))
	}
	if err := t.flush(); err != nil || len(d.Log) == 0 {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w, "TRY", "STARTED", "TOOK", "ANSWER", "RECEIVER SAID", "NEXT", "INSTANCE")
	for _, try := range d.Log {
		t.row(try.Number, stamp(try.At), age(time.Duration(try.DurationMS)*time.Millisecond), tryText(try.Status, try.Failure, try.Detail), shorten(try.Excerpt), stampOrNone(try.NextAt), try.Instance)
	}
	return t.flush()
}

// compact writes JSON in one line.
func compact(document json.RawMessage) []byte {
	text, err := json.Marshal(document)
	if err != nil {
		return document
	}
	return text
}

func newDeliveriesRedeliverCommand() *cobra.Command {
	var f clientFlags
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "redeliver ID",
		Short: "Deliver an event once more",
		Long: `Redeliver has one event delivered once more. It keeps its id, by which the receiver knows
a repeat. The exit code is 1 if the receiver did not take it.`,
		Example: "  executor deliveries redeliver 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			d, err := c.Redeliver(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return f.showTried(cmd, c, d, wait)
		},
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 40*time.Second, "wait so long for the next try; 0 = not at all")
	return cmd
}

// showTried waits for one more try of a delivery and shows what came of it.
func (f *clientFlags) showTried(cmd *cobra.Command, c *client.Client, d client.Delivery, wait time.Duration) error {
	if wait == 0 {
		return showDelivery(cmd, f.out, d)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), wait)
	defer cancel()
	seen, err := c.WaitDelivery(ctx, d.ID, d.Tries)
	switch {
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	case err != nil && ctx.Err() == nil:
		return err
	case seen.ID == "":
		seen = d
	}
	if err := showDelivery(cmd, f.out, seen); err != nil {
		return err
	}
	switch {
	case seen.State == client.DeliveryDelivered:
		return nil
	case seen.Tries == d.Tries && seen.State == client.DeliveryPending:
		cmd.PrintErrf("Not tried yet after %s; \"executor deliveries show %s\" shows it later.\n", wait, d.ID)
		return &exitError{code: exitStillRunning}
	default:
		return &exitError{code: exitFailure, err: errors.New("the receiver did not take it: " + orOpen(lastText(seen)))}
	}
}
