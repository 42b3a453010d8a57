package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"executor/reconcile"
)

// exportPause bounds how long a reader may take for one page of an export.
const exportPause = 30 * time.Second

// reportExport streams a report's items as CSV (RFC 4180). One that breaks off in the
// middle ends the connection: no part of a list may pass for the whole.
func (s *Server) reportExport(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	filter := reconcile.ReportItemFilter{Tenant: v.tenant, Report: id, Limit: 100}
	name := "report-" + id.String()
	if kind := v.query("kind"); kind != "" {
		filter.Kinds, name = []reconcile.ReportKind{reconcile.ReportKind(kind)}, name+"-"+kind
	}
	items, next, err := s.doubts.ReportItems(v.r.Context(), filter)
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	out, control := newCSV(v.w), http.NewResponseController(v.w)
	_ = out.row(itemColumns...)
	for {
		_ = control.SetWriteDeadline(time.Now().Add(exportPause))
		for _, item := range items {
			_ = out.row(itemRow(item)...)
		}
		if out.flush() != nil {
			return nil // gone
		}
		if next == "" {
			return nil
		}
		filter.Cursor = next
		if items, next, err = s.doubts.ReportItems(v.r.Context(), filter); err != nil {
			s.log.Error("export settlement report", "report_id", id, "error", err)
			panic(http.ErrAbortHandler)
		}
	}
}

var itemColumns = []string{
	"line", "kind", "there", "there_means", "here_when_compared", "here_now", "command_id", "command_key", "reference", "key",
	"differences", "duplicate_of", "problem", "effect", "applied_at", "content",
}

func itemRow(i reconcile.ReportItem) []string {
	differences := make([]string, len(i.Differences))
	for n, d := range i.Differences {
		differences[n] = d.Field + ": here " + strconv.Quote(d.Ours) + ", there " + strconv.Quote(d.Theirs)
	}
	command, applied := "", ""
	if i.CommandID != nil {
		command = i.CommandID.String()
	}
	if i.AppliedAt != nil {
		applied = i.AppliedAt.UTC().Format(time.RFC3339Nano)
	}
	return []string{
		orNothing(i.Line), string(i.Kind), i.Word, string(i.Finding), string(i.State), string(i.Now), command, i.CommandKey, i.Reference, i.Key,
		strings.Join(differences, "; "), orNothing(i.DuplicateOf), i.Problem, string(i.Effect), applied, string(i.Content),
	}
}

func orNothing(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
