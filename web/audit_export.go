package web

import (
	"context"
	"encoding/hex"
	"strconv"
	"time"

	"executor/internal/audit"
)

var auditColumns = []string{"number", "at", "actor", "action", "command_id", "subject", "reason", "evidence_reference", "before", "after", "details", "hash"}

// auditExport is what the filter finds, newest first.
func (s *Server) auditExport(v *visit) error {
	query := auditQuery{v.query("actor"), v.query("action"), v.query("command"), v.query("after"), v.query("before")}
	f, wrong := query.filter(v)
	if wrong != "" {
		return badRequest(wrong)
	}
	f.Limit = audit.MaxPage
	return s.export(v, table{
		name: stamped("audit"), columns: auditColumns,
		page: func(ctx context.Context, cursor string) ([][]string, string, error) {
			f.Cursor = cursor
			entries, next, err := audit.List(ctx, s.pool, f)
			return cellsOf(entries, auditCells), next, err
		},
		ends: func(rows, _ int) string {
			if rows < exportRows {
				return ""
			}
			return "(ends here after " + strconv.Itoa(rows) + " rows, there are more: ask for what is older)"
		},
	})
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
