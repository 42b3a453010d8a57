package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

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
	return fmt.Sprintf("%s: %d of %s, %s looked for", r.State, r.Compared, some(int(r.Lines), "line"), some(int(r.Scanned), "command"))
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
