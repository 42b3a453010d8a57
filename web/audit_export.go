package web

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"executor/internal/audit"
)

var auditColumns = []string{"number", "at", "actor", "action", "command_id", "subject", "reason", "evidence_reference", "before", "after", "details", "hash"}

// auditExport streams what the filter finds as CSV, newest first. It says in its
// last line where it ended before the list did.
func (s *Server) auditExport(v *visit) error {
	query := auditQuery{v.query("actor"), v.query("action"), v.query("command"), v.query("after"), v.query("before")}
	f, wrong := query.filter(v)
	if wrong != "" {
		return badRequest(wrong)
	}
	f.Limit = audit.MaxPage
	entries, next, err := audit.List(v.r.Context(), s.pool, f)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="audit-`+time.Now().UTC().Format("20060102-150405")+`.csv"`)
	out, control := newCSV(v.w), http.NewResponseController(v.w)
	_ = out.row(auditColumns...)
	for rows := len(entries); ; rows += len(entries) {
		_ = control.SetWriteDeadline(time.Now().Add(exportPause))
		for _, e := range entries {
			_ = out.row(auditCells(e)...)
		}
		ended := next != "" && rows >= exportRows
		if ended {
			_ = out.row("(ends here after " + strconv.Itoa(rows) + " rows, there are more: ask for what is older)")
		}
		if out.flush() != nil || ended || next == "" {
			return nil
		}
		f.Cursor = next
		if entries, next, err = audit.List(v.r.Context(), s.pool, f); err != nil {
			s.log.Error("export audit", "tenant", v.tenant, "error", err)
			panic(http.ErrAbortHandler) // no part may pass for the whole
		}
	}
}

func auditCells(e audit.Recorded) []string {
	command := ""
	if e.Command != nil {
		command = e.Command.String()
	}
	return []string{
		strconv.FormatInt(e.Number, 10), e.At.UTC().Format(time.RFC3339Nano), e.Actor, e.Action, command, e.Subject, e.Reason,
		e.EvidenceReference, string(e.Before), string(e.After), string(e.Details), hex.EncodeToString(e.Hash),
	}
}
