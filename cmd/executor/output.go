package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// format is how stdout speaks: for people or for programs.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
)

func (f *format) String() string { return string(*f) }
func (f *format) Type() string   { return "json|table" }

func (f *format) Set(s string) error {
	switch format(s) {
	case formatTable, formatJSON:
		*f = format(s)
		return nil
	default:
		return fmt.Errorf("unknown output %q: use json or table", s)
	}
}

// addOutput gives cmd the flag --output.
func addOutput(cmd *cobra.Command, f *format) {
	*f = formatTable
	cmd.Flags().VarP(f, "output", "o", "what stdout shows: json or table")
	fromEnv(cmd.Flags(), "output", "EXECUTOR_OUTPUT")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "table"}, cobra.ShellCompDirectiveNoFileComp))
}

// writeJSON prints v, indented, without escaping what only a page would need.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(jsonWriter{w})
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// some is "1 receiver", "2 receivers".
func some(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// does is a verb that agrees with a number.
func does(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// table prints rows in aligned columns, without colour or frame, so that the
// output reads the same in a terminal, a file and a pipe.
type table struct{ tw *tabwriter.Writer }

func newTable(w io.Writer, columns ...string) *table {
	t := &table{tw: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	if len(columns) > 0 {
		t.row(toAny(columns)...)
	}
	return t
}

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = cell(fmt.Sprint(c))
	}
	fmt.Fprintln(t.tw, strings.Join(texts, "\t"))
}

func (t *table) flush() error { return t.tw.Flush() }

// cell makes text from anywhere safe to print in a table: what an upstream
// sent must neither break the columns nor talk to the terminal.
func cell(s string) string {
	if s == "" {
		return "-"
	}
	return plain(s)
}

// plain replaces control and other unprintable characters by spaces.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

func toAny(s []string) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}
