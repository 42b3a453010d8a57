package main

import (
	"fmt"
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
