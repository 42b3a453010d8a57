package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"executor/client"
)

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
