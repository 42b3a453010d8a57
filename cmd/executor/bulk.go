package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"executor/client"
)

// bulkFlags describe one thing that is done to many.
type bulkFlags struct {
	clientFlags
	filter                   reviewFlags
	id, action, reason, as   string
	evidence, code, message  string
	to                       string
	none, absent, dryRun, ok bool
}

func newBulkCommand() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use:   "bulk --action ACTION --reason TEXT FILTER…",
		Short: "Do one thing to every review that a filter selects (scope reviews:write)",
		Long: `Bulk does one thing to every review that a filter selects: resolve, lookup, resend, assign
or note. At least one filter is needed. The count is shown first; on a terminal you are
asked, elsewhere --yes is needed. If the filter selects another number by then, nothing is
done. Each command is done by itself, as by hand, and one that has moved on meanwhile is
left alone: the table shows what became of each, and the exit code is 1 if any was refused.

The id, which is shown on stderr before anything is done, makes a repeat harmless: with
--id the same call goes on showing the one that was started. It runs in the service, and
goes on if you interrupt this.

In the filter --outcome-reason and --attempt-evidence are what "reviews list" calls
--reason and --evidence.`,
		Example: `  executor reviews bulk --action lookup --upstream ledger --older-than 1h --reason "their outage is over" --dry-run
  executor reviews bulk --action resolve --as cancelled --upstream ledger --metadata batch=7 --reason "the whole batch was lost" --evidence TICKET-7
  executor reviews bulk --action assign --to ann --unassigned --reason "on duty" --yes`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.clientFlags.add(cmd)
	f.filter.add(cmd, "outcome-reason", "attempt-evidence")
	flags := cmd.Flags()
	flags.StringVar(&f.action, "action", "", "what to do: "+strings.Join(bulkActions(), ", "))
	flags.StringVar(&f.reason, "reason", "", "why, or the text of a note; kept with the name of your API key")
	flags.StringVar(&f.as, "as", "", "with resolve: how all of them really ended: success, rejected or cancelled")
	flags.StringVar(&f.code, "code", "", "with resolve --as rejected: the upstream's code")
	flags.StringVar(&f.message, "message", "", "with resolve --as rejected: the upstream's words")
	flags.StringVar(&f.evidence, "evidence", "", "where the evidence can be seen: a ticket, a statement")
	flags.BoolVar(&f.absent, "absent", false, "with resend: you found that nothing of any of them arrived")
	flags.StringVar(&f.to, "to", "", "with assign: who looks after them from now on")
	flags.BoolVar(&f.none, "none", false, "with assign: nobody in particular")
	flags.StringVar(&f.id, "id", "", "the id of a bulk action (a UUID); one that was started before is shown, not started again")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only show the count")
	flags.BoolVar(&f.ok, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("action", cobra.FixedCompletions(bulkActions(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(settledStates(), cobra.ShellCompDirectiveNoFileComp))
	cmd.AddCommand(newBulkShowCommand())
	return cmd
}

func bulkActions() []string { return []string{"resolve", "lookup", "resend", "assign", "note"} }

// request checks what only the flags show.
func (f *bulkFlags) request() (client.BulkRequest, error) {
	filter, err := f.filter.filter()
	switch {
	case err != nil:
		return client.BulkRequest{}, err
	case !slices.Contains(bulkActions(), f.action):
		return client.BulkRequest{}, usage(fmt.Errorf("--action is needed: %s", strings.Join(bulkActions(), ", ")))
	case reflect.ValueOf(filter).IsZero():
		return client.BulkRequest{}, usage(errors.New("a filter is needed, such as --upstream ledger: nothing is done to everything there is"))
	case f.action == "resolve" && checkSettled(f.as) != nil:
		return client.BulkRequest{}, checkSettled(f.as)
	case f.as == string(client.StateSuccess) && f.evidence == "" && !f.dryRun:
		return client.BulkRequest{}, usage(errors.New("--as success needs --evidence: where can it be seen that all of them were done?"))
	case f.absent && f.evidence == "" && !f.dryRun:
		return client.BulkRequest{}, usage(errors.New("--absent needs --evidence: where can it be seen that nothing arrived?"))
	case f.action == "assign" && (f.to != "") == f.none:
		return client.BulkRequest{}, usage(errors.New("say who looks after them: --to NAME, or --none"))
	case f.reason == "" && !f.dryRun:
		return client.BulkRequest{}, needReason(f.reason)
	}
	return client.BulkRequest{
		ID: f.id, Action: f.action, Filter: filter, Reason: f.reason, EvidenceReference: f.evidence, State: client.State(f.as),
		Code: f.code, Message: f.message, Assignee: f.to, Absent: f.absent,
	}, nil
}

func (f *bulkFlags) run(cmd *cobra.Command) error {
	r, err := f.request()
	if err != nil {
		return err
	}
	if !f.ok && !f.dryRun && !canAsk(cmd.InOrStdin()) {
		return usage(errors.New("--yes is needed, as there is no terminal to ask; --dry-run shows the count"))
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	if r.ID != "" && !f.dryRun {
		known, err := c.Bulk(cmd.Context(), r.ID)
		if err == nil {
			return f.goOn(cmd, c, known, r)
		}
		if !errors.Is(err, client.ErrNotFound) {
			return err
		}
	}
	return f.start(cmd, c, r)
}

// goOn follows what was started before, if it is the same: the service refuses
// another request under the id.
func (f *bulkFlags) goOn(cmd *cobra.Command, c *client.Client, known client.Bulk, r client.BulkRequest) error {
	if _, err := c.StartBulk(cmd.Context(), r); err != nil {
		return err
	}
	cmd.PrintErrln("This bulk action was started before; nothing is started now.")
	return followBulk(cmd, c, f.out, known.ID)
}

// start counts, asks, and does it.
func (f *bulkFlags) start(cmd *cobra.Command, c *client.Client, r client.BulkRequest) error {
	if r.ID == "" {
		r.ID = client.NewID()
	}
	dry := r
	dry.DryRun = true
	counted, err := c.StartBulk(cmd.Context(), dry)
	if err != nil {
		return err
	}
	if f.dryRun && f.out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), counted.JSON())
	}
	question := countText(r, counted)
	if f.dryRun || counted.Count == 0 {
		return printCount(cmd, question, counted)
	}
	if err := f.confirm(cmd, question); err != nil {
		return err
	}
	cmd.PrintErrf("id: %s\n", r.ID) // before it is sent: whatever ends this process, the id is known
	r.ExpectedCount = &counted.Count
	if _, err := c.StartBulk(cmd.Context(), r); err != nil {
		return err
	}
	return followBulk(cmd, c, f.out, r.ID)
}

// canAsk says whether a person sits at the input.
func canAsk(in io.Reader) bool {
	w, ok := in.(io.Writer) // a file is both
	return ok && isTerminal(w)
}

// confirm asks, unless it was answered by --yes.
func (f *bulkFlags) confirm(cmd *cobra.Command, question string) error {
	if f.ok {
		cmd.PrintErrln(plain(question))
		return nil
	}
	cmd.PrintErrf("%s. Do it? [y/N] ", plain(question))
	answer, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil {
		return usage(errors.New("nothing was done: nobody answered; --yes does not ask"))
	}
	return &exitError{code: exitFailure, err: errors.New("nothing was done")}
}

func newBulkShowCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show how far a bulk action is, and what became of each command",
		Example: "  executor reviews bulk show 5f0c7a52-9f5e-4f0e-9d3b-0d6a5c1f2b3d",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			b, err := c.Bulk(cmd.Context(), given[0])
			if err != nil {
				return err
			}
			return printBulk(cmd, f.out, b)
		},
	}
	f.add(cmd)
	return cmd
}
