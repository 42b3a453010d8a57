package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

// reviewFlags select reviews.
type reviewFlags struct {
	kinds, reasons, evidence []string
	upstream, operation      string
	assignee                 string
	unassigned               bool
	olderThan                time.Duration
	metadata, least, most    pairs
}

// add names the flags for the outcome's reason and for the attempt's evidence as
// the command has room for.
func (f *reviewFlags) add(cmd *cobra.Command, reason, evidence string) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.kinds, "kind", nil, "only these: unresolved, conflict")
	flags.StringVar(&f.upstream, "upstream", "", "only this upstream")
	flags.StringVar(&f.operation, "operation", "", "only this operation")
	flags.StringSliceVar(&f.reasons, reason, nil, "only those whose outcome has one of these reasons, such as no_response")
	flags.StringSliceVar(&f.evidence, evidence, nil, "only those whose last attempt that may have arrived has one of these, such as sent_no_response")
	flags.StringVar(&f.assignee, "assignee", "", "only what this person looks after")
	flags.BoolVar(&f.unassigned, "unassigned", false, "only what nobody looks after")
	flags.DurationVar(&f.olderThan, "older-than", 0, "only what has waited at least so long, for instance 24h")
	flags.Var(&f.metadata, "metadata", "only commands with this label; repeatable")
	flags.Var(&f.least, "metadata-min", "only commands whose label is a number and not less; repeatable")
	flags.Var(&f.most, "metadata-max", "only commands whose label is a number and not more; repeatable")
	cmd.MarkFlagsMutuallyExclusive("assignee", "unassigned")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(reviewKinds(), cobra.ShellCompDirectiveNoFileComp))
}

func reviewKinds() []string {
	return []string{string(client.ReviewUnresolved), string(client.ReviewConflict)}
}

func (f *reviewFlags) filter() (client.ReviewFilter, error) {
	filter := client.ReviewFilter{
		Upstream: f.upstream, Operation: f.operation, Reasons: f.reasons, Evidence: f.evidence, OlderThan: f.olderThan,
		Metadata: f.metadata, MetadataMin: f.least, MetadataMax: f.most,
	}
	for _, kind := range f.kinds {
		if !slices.Contains(reviewKinds(), kind) {
			return filter, usage(fmt.Errorf("unknown kind %q: there are %s", kind, strings.Join(reviewKinds(), " and ")))
		}
		filter.Kinds = append(filter.Kinds, client.ReviewKind(kind))
	}
	if f.assignee != "" || f.unassigned {
		filter.Assignee = &f.assignee
	}
	return filter, nil
}

const reviewsLong = `Reviews lists what waits for a person, the oldest first: unresolved commands that no
automation will touch next, and settled ones that evidence contradicts. "executor get"
shows one with its attempts, "executor lookups" what the upstream said, and
resolve, lookup, resend, assign, note and correct act on it.`

const reviewsExample = `  executor reviews
  executor reviews list --upstream ledger --older-than 24h --unassigned
  executor reviews list --kind conflict --output json
  executor reviews list --metadata-min amount=1000 --evidence sent_no_response`

func newReviewsCommand() *cobra.Command {
	cmd := newReviewsListCommand()
	cmd.Use = "reviews"
	cmd.AddCommand(newReviewsListCommand(), newBulkCommand())
	return cmd
}

func newReviewsListCommand() *cobra.Command {
	var f clientFlags
	var r reviewFlags
	var cursor string
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List what waits for a person, oldest first",
		Long:    reviewsLong,
		Example: reviewsExample,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := r.filter()
			if err != nil {
				return err
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			filter.Cursor, filter.Limit = cursor, limit
			page, err := c.ReviewsPage(cmd.Context(), filter)
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printReviews)
		},
	}
	f.add(cmd)
	r.add(cmd, "reason", "evidence")
	addPaging(cmd, &limit, &cursor)
	return cmd
}

// addPaging gives cmd the flags that select one page.
func addPaging(cmd *cobra.Command, limit *int, cursor *string) {
	cmd.Flags().IntVar(limit, "limit", 50, "how many, up to 100")
	cmd.Flags().StringVar(cursor, "cursor", "", "where the page before ended")
}

// printList shows one page of a list, and says if there are more.
func printList[T any](cmd *cobra.Command, out format, page client.PageOf[T], print func(io.Writer, []T) error) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), page.JSON())
	}
	if err := print(cmd.OutOrStdout(), page.Data); err != nil {
		return err
	}
	if page.NextCursor != "" {
		cmd.PrintErrf("There are more: add --cursor %s\n", plain(page.NextCursor))
	}
	return nil
}

func printReviews(w io.Writer, list []client.Review) error {
	t := newTable(w, "ID", "KIND", "WAITS", "UPSTREAM", "OPERATION", "KEY", "EVIDENCE", "ASSIGNEE", "WHY", "CAN")
	for _, r := range list {
		c := r.Command
		t.row(c.ID, r.Kind, age(time.Since(r.Since).Round(time.Second)), c.Upstream, c.Operation, c.Key, r.Evidence, r.Assignee, reviewText(r), strings.Join(r.Actions, ","))
	}
	return t.flush()
}

// reviewText is why something waits for a person.
func reviewText(r client.Review) string {
	if len(r.Conflicts) > 0 {
		return conflictText(r)
	}
	text := why(r.Command)
	if r.HandedReason != "" {
		text += "; " + r.HandedReason
	}
	return text
}

// conflictText holds the newest evidence against the state.
func conflictText(r client.Review) string {
	x := r.Conflicts[len(r.Conflicts)-1]
	said := string(x.Finding)
	if said == "" {
		said = x.Answer
	}
	if x.Reference != "" {
		said += " " + x.Reference
	}
	text := fmt.Sprintf("%s, but %s says %s", r.Command.State, x.Source, said)
	if n := len(r.Conflicts) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}
