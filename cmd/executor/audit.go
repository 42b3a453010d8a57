package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"executor/client"
)

func newAuditCommand() *cobra.Command {
	return group("audit", "Show what people did, and check that the record is as it was written",
		newAuditListCommand(), newAuditVerifyCommand())
}

func newAuditListCommand() *cobra.Command {
	var f clientFlags
	var filter client.AuditFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what people did, newest first (scope admin)",
		Long: `List shows what people did, the newest first. With --command alone it is what was done to
one command, the oldest first; that needs the scope commands:read only.`,
		Example: `  executor audit list
  executor audit list --actor ann --action resolve
  executor audit list --command 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --output json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			read := func() (client.AuditPage, error) { return c.AuditPage(cmd.Context(), filter) }
			if filter.Command != "" && filter.Actor+filter.Action == "" {
				read = func() (client.AuditPage, error) {
					return c.CommandAuditPage(cmd.Context(), filter.Command, filter.Cursor, filter.Limit)
				}
			}
			page, err := read()
			if err != nil {
				return err
			}
			return printList(cmd, f.out, page, printAudit)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&filter.Command, "command", "", "only what was done to the command with this id")
	flags.StringVar(&filter.Actor, "actor", "", "only what this person, or API key, did")
	flags.StringVar(&filter.Action, "action", "", "only this, such as resolve")
	addPaging(cmd, &filter.Limit, &filter.Cursor)
	return cmd
}

func printAudit(w io.Writer, list []client.AuditEntry) error {
	t := newTable(w, "NUMBER", "AT", "ACTOR", "ACTION", "COMMAND", "REASON", "DATA")
	for _, e := range list {
		data := ""
		if text := string(compact(e.Data)); text != "null" && text != "{}" {
			data = shorten(text)
		}
		t.row(fmt.Sprint(e.Number), stamp(e.At), e.Actor, e.Action, e.CommandID, e.Reason, data)
	}
	return t.flush()
}
