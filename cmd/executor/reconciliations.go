package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

func newReconcileCommand() *cobra.Command {
	return group("reconcile", "Compare settlement reports with what is known (scope admin)",
		newReconcileUploadCommand(), newReconcileListCommand(), newReconcileShowCommand(), newReconcileItemsCommand(), newReconcileApplyCommand())
}

// uploadFlags say how a report is to be read.
type uploadFlags struct {
	clientFlags
	upload                   client.ReportUpload
	format                   string
	columns, states, compare pairs
	from, until              moment
	wait                     bool
}

func newReconcileUploadCommand() *cobra.Command {
	f := uploadFlags{from: moment{sign: -1}, until: moment{sign: -1}}
	cmd := &cobra.Command{
		Use:   "upload FILE|- --upstream NAME",
		Short: "Compare an upstream's settlement report with our commands",
		Long: `Upload sends a settlement report, which the service compares with our commands: what
matches, what differs, what is missing here or there. It changes nothing:
"executor reconcile apply" takes its lines as evidence, on a second call.

A report is CSV with a header line, or one JSON object a line. --column says where a field
stands: a column's name, in JSON lines a member's name or a JSON Pointer. Fields are
command_id, key, reference, state, code and message; one that is left out stands in the
column of its own name, if there is one. --state says what the report's words mean:
success, rejected, cancelled or pending. --compare names columns that have to be equal to
something in the command. Without --from and --until nothing can be missing there.`,
		Example: `  executor reconcile upload may.csv --upstream ledger --column reference="Payment ID" --column state=Status --state paid=success --state failed=rejected
  executor reconcile upload may.jsonl --upstream ledger --column key=/meta/key --compare amount=/body/amount --wait
  executor reconcile upload - --format csv --upstream ledger --from 2026-11-01T00:00:00Z --until 2026-12-01T00:00:00Z --settles-for 48h`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error { return f.run(cmd, given[0]) },
	}
	f.clientFlags.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.upload.Upstream, "upstream", "", "whose report it is")
	flags.StringVar(&f.upload.Operation, "operation", "", "only commands of this operation")
	flags.StringVar(&f.format, "format", "", "csv or jsonl (default by the file's name)")
	flags.Var(&f.columns, "column", "where a field stands, as field=column; repeatable")
	flags.Var(&f.states, "state", "what a word in the state's column means, as word=success, rejected, cancelled or pending; repeatable")
	flags.Var(&f.compare, "compare", "what has to be equal, as column=field of the command, such as amount=/body/amount or order=metadata.order; repeatable")
	flags.StringVar(&f.upload.Delimiter, "delimiter", "", "what is between the columns of CSV (default a comma)")
	flags.Var(&f.from, "from", "the report covers commands accepted from here on: a time, or a duration ago")
	flags.Var(&f.until, "until", "and before: a time, or a duration ago")
	flags.DurationVar(&f.upload.SettlesFor, "settles-for", 0, "what happened to a command in this time before the upload need not be in the report, for instance 48h")
	flags.BoolVar(&f.wait, "wait", false, "wait until it is compared")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"csv", "jsonl"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *uploadFlags) run(cmd *cobra.Command, file string) error {
	if f.upload.Upstream == "" {
		return usage(errors.New("--upstream is needed: whose report is it?"))
	}
	var err error
	if f.upload.Format, err = reportFormat(f.format, file); err != nil {
		return err
	}
	f.upload.Columns, f.upload.States, f.upload.Compare = f.columns, f.states, f.compare
	f.upload.From, f.upload.Until = f.from.Time, f.until.Time
	source, err := openReport(cmd, file)
	if err != nil {
		return err
	}
	defer source.Close()
	c, err := f.connect()
	if err != nil {
		return err
	}
	report, err := c.UploadReport(cmd.Context(), f.upload, source)
	if err != nil {
		return err
	}
	return finishReport(cmd, c, f.out, report, f.wait)
}

// reportFormat takes the format from the file's name where none is given.
func reportFormat(given, file string) (client.ReportFormat, error) {
	if given == "" {
		given = strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), ".")
	}
	switch given {
	case "csv":
		return client.ReportCSV, nil
	case "jsonl", "ndjson":
		return client.ReportJSONL, nil
	default:
		return "", usage(errors.New("--format is needed: csv or jsonl"))
	}
}

func openReport(cmd *cobra.Command, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(cmd.InOrStdin()), nil
	}
	source, err := os.Open(file)
	return source, usage(err)
}

// finishReport shows a report, after it came to rest if that is waited for. One
// that failed is an error.
func finishReport(cmd *cobra.Command, c *client.Client, out format, r client.Report, wait bool) error {
	if wait && !r.Resting() {
		var err error
		if r, err = followReport(cmd, c, r.ID); err != nil {
			return err
		}
	}
	if out == formatJSON {
		if err := writeJSON(cmd.OutOrStdout(), r.JSON()); err != nil {
			return err
		}
	} else if err := printReport(cmd.OutOrStdout(), r); err != nil {
		return err
	}
	if r.State == client.ReportFailed {
		return &exitError{code: exitFailure, err: errors.New("the report failed: " + r.Problem)}
	}
	if r.State == client.ReportCompared && out == formatTable {
		cmd.PrintErrf("Nothing has changed yet. \"executor reconcile items %[1]s\" shows the lines, \"executor reconcile apply %[1]s\" takes its lines as evidence.\n", r.ID)
	}
	return nil
}

func followReport(cmd *cobra.Command, c *client.Client, id string) (client.Report, error) {
	shown := ""
	r, err := c.WaitReport(cmd.Context(), id, func(r client.Report) {
		text := progressText(r)
		if text != shown && !r.Resting() {
			shown = text
			cmd.PrintErrln(text)
		}
	})
	if errors.Is(err, context.Canceled) {
		cmd.PrintErrf("It goes on in the service; \"executor reconcile show %s\" shows how far it is.\n", id)
	}
	return r, err
}

// progressText is how far a report is.
func progressText(r client.Report) string {
	if r.State == client.ReportApplying {
		passed := 0
		for _, n := range r.Effects {
			passed += n
		}
		return fmt.Sprintf("%s: %d passed on", r.State, passed)
	}
	return fmt.Sprintf("%s: %d of %d lines, %d commands looked for", r.State, r.Compared, r.Lines, r.Scanned)
}

func printReport(w io.Writer, r client.Report) error {
	t := newTable(w)
	t.row("id", r.ID)
	t.row("state", r.State)
	t.row("upstream", orAllOf(r))
	t.row("created", fmt.Sprintf("%s by %s, %s", stamp(r.CreatedAt), r.CreatedBy, r.Format))
	if r.From != nil || r.Until != nil {
		t.row("covers", fmt.Sprintf("%s to %s", orEver(r.From), orEver(r.Until)))
	}
	t.row("lines", r.Lines)
	for _, kind := range present(r.Counts) {
		t.row("  "+kind, r.Counts[kind])
	}
	if r.ApplyAskedBy != "" {
		t.row("applied", fmt.Sprintf("%s by %s: %s", orOpen(stampOrNone(r.AppliedAt)), r.ApplyAskedBy, r.ApplyReason))
		for _, effect := range present(r.Effects) {
			t.row("  "+effect, r.Effects[effect])
		}
	}
	if r.Problem != "" {
		t.row("problem", r.Problem)
	}
	return t.flush()
}

// present lists what there is at least one of.
func present(counts map[string]int) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(counts)), func(name string) bool { return counts[name] == 0 })
}

func orAllOf(r client.Report) string {
	if r.Operation == "" {
		return r.Upstream + ", every operation"
	}
	return r.Upstream + ", operation " + r.Operation
}

func orEver(t *time.Time) string {
	if t == nil {
		return "…"
	}
	return stamp(*t)
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

func printReports(w io.Writer, list []client.Report) error {
	t := newTable(w, "ID", "CREATED", "BY", "UPSTREAM", "STATE", "LINES", "ITEMS")
	for _, r := range list {
		var items []string
		for _, kind := range present(r.Counts) {
			items = append(items, fmt.Sprintf("%d %s", r.Counts[kind], kind))
		}
		t.row(r.ID, stamp(r.CreatedAt), r.CreatedBy, r.Upstream, r.State, r.Lines, strings.Join(items, ", "))
	}
	return t.flush()
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

func printReportItems(w io.Writer, list []client.ReportItem) error {
	t := newTable(w, "LINE", "KIND", "THERE", "HERE", "REFERENCE", "KEY", "COMMAND", "DETAIL", "EFFECT")
	for _, i := range list {
		line := ""
		if i.Line > 0 {
			line = fmt.Sprint(i.Line)
		}
		t.row(line, i.Kind, i.Word, i.State, i.Reference, i.Key, i.CommandID, shorten(itemText(i)), i.Effect)
	}
	return t.flush()
}

// itemText is what is to say of a line beyond its kind.
func itemText(i client.ReportItem) string {
	var list []string
	for _, d := range i.Differences {
		list = append(list, fmt.Sprintf("%s is %q here, %q there", d.Field, d.Ours, d.Theirs))
	}
	if i.DuplicateOf > 0 {
		list = append(list, fmt.Sprintf("line %d is about the same command", i.DuplicateOf))
	}
	return joined(append(list, i.Problem)...)
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
