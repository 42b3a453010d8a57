package main

import (
	"github.com/spf13/cobra"

	"executor/client"
)

func newReconcileCommand() *cobra.Command {
	return group("reconcile", "Compare settlement reports with what is known (scope admin)",
		newReconcileUploadCommand(), newReconcileListCommand(), newReconcileShowCommand(), newReconcileItemsCommand(), newReconcileApplyCommand())
}

func newReconcileListCommand() *cobra.Command {
	var f clientFlags
	var filter client.ReportFilter
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List settlement reports, newest first",
		Example: "  executor reconcile list --upstream ledger",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			page, err := c.ReportsPage(cmd.Context(), filter)
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printReports)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&filter.Upstream, "upstream", "", "only this upstream")
	addPaging(cmd, &filter.Limit, &filter.Cursor)
	return cmd
}

func newReconcileShowCommand() *cobra.Command {
	var f clientFlags
	var wait bool
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show a settlement report with its progress and counts",
		Example: "  executor reconcile show 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --wait",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			report, err := c.Report(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return finishReport(cmd, c, f.out, report, wait)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is compared, or applied")
	return cmd
}

func newReconcileItemsCommand() *cobra.Command {
	var f clientFlags
	var filter client.ReportItemFilter
	cmd := &cobra.Command{
		Use:   "items ID",
		Short: "Show what a settlement report says, and what it leaves out",
		Example: `  executor reconcile items 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --kind different,missing_here,missing_there
  executor reconcile items 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --output json`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			page, err := c.ReportItemsPage(cmd.Context(), given[0], filter)
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printReportItems)
		},
	}
	f.add(cmd)
	cmd.Flags().StringSliceVar(&filter.Kinds, "kind", nil, "only these kinds, such as different")
	addPaging(cmd, &filter.Limit, &filter.Cursor)
	return cmd
}

func newReconcileApplyCommand() *cobra.Command {
	var f clientFlags
	var reason string
	var wait bool
	cmd := &cobra.Command{
		Use:   "apply ID --reason TEXT",
		Short: "Take the lines of a compared report as evidence",
		Long: `Apply makes what the lines say findings about their commands: they settle what is
unresolved, and become a visible conflict where they contradict what is settled. What
cannot be told apart, is missing or too young changes nothing. Repeating it is safe.`,
		Example: `  executor reconcile apply 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --reason "closing May" --wait`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := needReason(reason); err != nil {
				return err
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			report, err := c.ApplyReport(cmd.Context(), given[0], reason)
			if err != nil {
				return err
			}
			return finishReport(cmd, c, f.out, report, wait)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept with the name of your API key")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is applied")
	return cmd
}
