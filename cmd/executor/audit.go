package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

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
	var deployment bool
	after, before := moment{sign: -1}, moment{sign: -1}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what people did, newest first (scope admin)",
		Long: `List shows what people did, the newest first. With --command alone it is what was done to
one command; that needs the scope commands:read only. With --deployment it is what was
done to the deployment: who froze it, resumed it and adopted it. The log of a tenant does
not have that, and of several tenants on one deployment none may read it here.`,
		Example: `  executor audit list
  executor audit list --actor ann --action command.resolve --after 24h
  executor audit list --deployment
  executor audit list --command 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --output json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			filter.After, filter.Before = after.Time, before.Time
			read := func() (client.AuditPage, error) { return c.AuditPage(cmd.Context(), filter) }
			if filter.Command != "" && filter.Actor+filter.Action+filter.Subject == "" && after.IsZero() && before.IsZero() {
				read = func() (client.AuditPage, error) {
					return c.CommandAuditPage(cmd.Context(), filter.Command, filter.Cursor, filter.Limit)
				}
			}
			if deployment {
				read = func() (client.AuditPage, error) {
					return c.DeploymentAuditPage(cmd.Context(), filter.Cursor, filter.Limit)
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
	flags.StringVar(&filter.Action, "action", "", "only this, such as command.resolve")
	flags.StringVar(&filter.Subject, "subject", "", "only what was done to this upstream, API key or person (by name), or to this webhook or report (by id)")
	flags.BoolVar(&deployment, "deployment", false, "what was done to the deployment instead")
	flags.Var(&after, "after", "only what was done after it: a time, or a duration ago")
	flags.Var(&before, "before", "only what was done before it: a time, or a duration ago")
	addPaging(cmd, &filter.Limit, &filter.Cursor)
	for _, other := range []string{"command", "actor", "action", "subject", "after", "before"} {
		cmd.MarkFlagsMutuallyExclusive("deployment", other)
	}
	return cmd
}

func printAudit(w io.Writer, list []client.AuditEntry) error {
	t := newTable(w, "NUMBER", "AT", "ACTOR", "ACTION", "ON", "REASON", "EVIDENCE", "CHANGE")
	for _, e := range list {
		t.row(e.Number, stamp(e.At), e.Actor, e.Action, e.CommandID+e.Subject, e.Reason, e.EvidenceReference, changeText(e))
	}
	return t.flush()
}

// changeText is what a deed changed. The version changes with every deed, and the
// whole of it is in the JSON.
func changeText(e client.AuditEntry) string {
	was, is := objectOf(e.Before), objectOf(e.After)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if before, after := string(was[name]), string(is[name]); before != after && name != "version" {
			list = append(list, fmt.Sprintf("%s %s → %s", name, strings.Trim(orNull(before), `"`), strings.Trim(after, `"`)))
		}
	}
	return shorten(strings.Join(list, ", "))
}

// objectOf reads an object; anything else has none.
func objectOf(document json.RawMessage) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(document, &members)
	return members
}

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return text
}
