package web

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"executor/commands"
)

// exportScans bounds for how many stretches of commands an export looks.
const exportScans = 200

var commandColumns = []string{
	"id", "key", "state", "upstream", "operation", "reason", "stopped_by", "reference", "attempts", "boundary",
	"accepted_at", "final_at", "deadline", "next_attempt_at", "next_lookup_at", "assignee", "metadata",
}

// searchExport is what a search finds, newest first.
func (s *Server) searchExport(v *visit) error {
	f, wrong := v.searchQuery().filter(v.tenant)
	if wrong != "" {
		return badRequest(wrong)
	}
	f.Scan, f.Limit = commands.ScanPage, commands.MaxPage
	var page commands.Page
	return s.export(v, table{
		name: stamped("commands"), columns: commandColumns,
		page: func(ctx context.Context, cursor string) (_ [][]string, _ string, err error) {
			f.Cursor = cursor
			page, err = s.commands.Page(ctx, f)
			return cellsOf(page.Commands, commandCells), page.Next, err
		},
		ends: func(rows, scans int) string {
			if rows < exportRows && scans < exportScans {
				return ""
			}
			return fmt.Sprintf("(ends here after %d rows, there may be more: ask for what was accepted before %s)", rows, endOf(page))
		},
	})
}

// endOf is when the last command was accepted that a page looked at.
func endOf(page commands.Page) string {
	if page.Scanned != nil {
		return moment(&page.Scanned.Until)
	}
	return moment(&page.Commands[len(page.Commands)-1].CreatedAt)
}

func commandCells(c commands.Command) []string {
	var reason, stopped, reference, lookup, assignee string
	if o := c.Outcome; o != nil {
		reason, stopped = string(o.Reason), string(o.StoppedBy)
		if o.Result != nil {
			reference = o.Result.Reference
		}
	}
	if r := c.Reconciliation; r != nil {
		lookup, assignee = moment(r.NextLookupAt), r.Assignee
	}
	return []string{
		c.ID.String(), c.Key, string(c.State), c.Upstream, c.Operation, reason, stopped, reference, strconv.Itoa(c.Attempts), string(c.Record.Boundary),
		moment(&c.CreatedAt), moment(c.FinalizedAt), moment(&c.Deadline), moment(c.NextAttemptAt), lookup, assignee, members(c.Metadata),
	}
}

// moment is a time for programs; "" for none.
func moment(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// members are those of metadata in one cell.
func members(metadata map[string]string) string {
	list := make([]string, 0, len(metadata))
	for name, value := range metadata {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}
