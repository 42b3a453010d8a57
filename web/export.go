package web

import (
	"context"
	"net/http"
	"time"
)

const (
	// exportRows bounds an export of a list that has no end of its own.
	exportRows = 10_000
	// exportPause bounds how long a reader may take for one page of an export.
	exportPause = 30 * time.Second
)

// table is a list as it is exported, page by page.
type table struct {
	name    string // of the file, without its ending
	columns []string
	// page reads the rows after a cursor ("" at the beginning), and the next cursor
	// ("" at the end).
	page func(ctx context.Context, cursor string) (rows [][]string, next string, err error)
	// ends is asked where there is more: the line that tells the reader that the export
	// ends here all the same, "" to go on. nil goes on to the end.
	ends func(rows, pages int) string
}

// export streams a table as CSV (RFC 4180). What is wrong before its first row is an
// error; one that breaks off later ends the connection: no part of a list may pass
// for the whole.
func (s *Server) export(v *visit, t table) error {
	ctx := v.r.Context()
	list, next, err := t.page(ctx, "")
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+t.name+`.csv"`)
	out, control := newCSV(v.w), http.NewResponseController(v.w)
	_ = out.row(t.columns...)
	for rows, pages := 0, 1; ; pages++ {
		_ = control.SetWriteDeadline(time.Now().Add(exportPause))
		for _, cells := range list {
			_ = out.row(cells...)
		}
		rows += len(list)
		last := ""
		if next != "" && t.ends != nil {
			last = t.ends(rows, pages)
		}
		if last != "" {
			_ = out.row(last)
		}
		if out.flush() != nil || last != "" || next == "" {
			return nil
		}
		if list, next, err = t.page(ctx, next); err != nil {
			s.log.Error("export", "table", t.name, "tenant", v.tenant, "error", err)
			panic(http.ErrAbortHandler)
		}
	}
}

// stamped is a file's name with the moment at which it was made.
func stamped(name string) string { return name + "-" + time.Now().UTC().Format("20060102-150405") }

// cellsOf are the rows of a page.
func cellsOf[T any](list []T, cells func(T) []string) [][]string {
	rows := make([][]string, len(list))
	for i, item := range list {
		rows[i] = cells(item)
	}
	return rows
}
