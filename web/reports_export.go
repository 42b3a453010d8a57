package web

import (
	"context"
	"strconv"
	"strings"
	"time"

	"executor/reconcile"
)

// reportExport is all of a report's items.
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
	return s.export(v, table{
		name: name, columns: itemColumns,
		page: func(ctx context.Context, cursor string) ([][]string, string, error) {
			filter.Cursor = cursor
			items, next, err := s.doubts.ReportItems(ctx, filter)
			return cellsOf(items, itemRow), next, err
		},
	})
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
