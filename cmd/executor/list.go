package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"executor/client"
)

func newListCommand() *cobra.Command {
	var f clientFlags
	var filter client.Filter
	var states []string
	var metadata pairs
	after, before := moment{sign: -1}, moment{sign: -1}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List commands, newest first",
		Example: `  executor list
  executor list --state unresolved,rejected --upstream ledger
  executor list --metadata order=42 --created-after 24h --output json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter.States = filter.States[:0]
			for _, s := range states {
				if !slices.Contains(client.States(), client.State(s)) {
					return usage(fmt.Errorf("unknown state %q: there are %v", s, client.States()))
				}
				filter.States = append(filter.States, client.State(s))
			}
			filter.Metadata, filter.CreatedAfter, filter.CreatedBefore = metadata, after.Time, before.Time
			c, err := f.connect()
			if err != nil {
				return err
			}
			page, err := c.ListPage(cmd.Context(), filter)
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printCommands)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&states, "state", nil, "only these states")
	flags.StringVar(&filter.Upstream, "upstream", "", "only this upstream")
	flags.StringVar(&filter.Operation, "operation", "", "only this operation")
	flags.StringVar(&filter.Key, "key", "", "only this idempotency key")
	flags.StringVar(&filter.Reference, "reference", "", "only what the upstream calls by this name")
	flags.Var(&metadata, "metadata", "only commands with this label; repeatable")
	flags.Var(&after, "created-after", "only newer ones: a time, or a duration ago")
	flags.Var(&before, "created-before", "only older ones: a time, or a duration ago")
	addPaging(cmd, &filter.Limit, &filter.Cursor)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func stateNames() []string {
	var names []string
	for _, s := range client.States() {
		names = append(names, string(s))
	}
	return names
}

func printCommands(w io.Writer, commands []client.Command) error {
	t := newTable(w, "ID", "STATE", "UPSTREAM", "OPERATION", "KEY", "CREATED", "ATTEMPTS", "WHY")
	for _, c := range commands {
		t.row(c.ID, c.State, c.Upstream, c.Operation, c.Key, stamp(c.CreatedAt), c.Record.Attempts, why(c))
	}
	return t.flush()
}

// why is the shortest account of where a command stands.
func why(c client.Command) string {
	switch {
	case c.Outcome != nil:
		return c.Outcome.Common().Reason
	case c.Waiting != nil:
		return "waits for " + c.Waiting.For
	default:
		return ""
	}
}
