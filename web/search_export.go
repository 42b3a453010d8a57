package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"executor/commands"
)

const (
	// exportRows bounds an export of commands.
	exportRows = 10000
	// exportScans bounds for how many stretches of commands it looks.
	exportScans = 200
)

var commandColumns = []string{
	"id", "key", "state", "upstream", "operation", "reason", "stopped_by", "reference", "attempts", "boundary",
	"accepted_at", "final_at", "deadline", "next_attempt_at", "next_lookup_at", "assignee", "metadata",
}

// searchExport streams what a search finds as CSV (RFC 4180), newest first. It says
// in its last line where it ended before the list did; one that breaks off ends the
// connection, so that no part of a list may pass for the whole.
func (s *Server) searchExport(v *visit) error {
	f, wrong := v.searchQuery().filter(v.tenant)
	if wrong != "" {
		return badRequest(wrong)
	}
	f.Scan, f.Limit = commands.ScanPage, commands.MaxPage
	page, err := s.commands.Page(v.r.Context(), f)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="commands-`+time.Now().UTC().Format("20060102-150405")+`.csv"`)
	out, control := newCSV(v.w), http.NewResponseController(v.w)
	_ = out.row(commandColumns...)
	for rows, scans := 0, 1; ; scans++ {
		_ = control.SetWriteDeadline(time.Now().Add(exportPause))
		for _, c := range page.Commands {
			_ = out.row(commandCells(c)...)
		}
		rows += len(page.Commands)
		ended := page.Next != "" && (rows >= exportRows || scans >= exportScans)
		if ended {
			_ = out.row(fmt.Sprintf("(ends here after %d rows, there may be more: ask for what was accepted before %s)", rows, endOf(page)))
		}
		if out.flush() != nil || ended || page.Next == "" {
			return nil
		}
		f.Cursor = page.Next
		if page, err = s.commands.Page(v.r.Context(), f); err != nil {
			s.log.Error("export commands", "tenant", v.tenant, "error", err)
			panic(http.ErrAbortHandler)
		}
	}
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
