package reconcile

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
	"executor/outcome"
)

const (
	defaultReportPage = 50
	maxReportPage     = 100
)

// ReportFilter chooses reports of a tenant.
type ReportFilter struct {
	Tenant   string
	Upstream string // "" for all
	Cursor   string
	Limit    int // 0 is 50; at most 100
}

// ReportItemFilter chooses items of a report.
type ReportItemFilter struct {
	Tenant string
	Report uuid.UUID
	Kinds  []ReportKind // none for all
	Cursor string
	Limit  int // 0 is 50; at most 100
}

const reportColumns = `id, tenant, upstream, operation, format, settings::text, period_from, period_until, settles_for_ms, created_at,
	created_by, state, problem, bytes, sha256, lines, compared, scanned, compared_at, matched, different, missing_here, duplicate,
	ambiguous, unreadable, too_young, missing_there, young_there, settled, kept, conflicts, without_effect, apply_asked_at,
	apply_asked_by, apply_reason, applied_at`

// Report reads one report.
func (s *Store) Report(ctx context.Context, tenant string, id uuid.UUID) (Report, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+reportColumns+` FROM reports WHERE tenant = $1 AND id = $2`, tenant, id)
	if err != nil {
		return Report{}, unreadReport(err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, scanReport)
	if errors.Is(err, pgx.ErrNoRows) {
		return Report{}, ErrReportNotFound
	}
	if err != nil {
		return Report{}, unreadReport(err)
	}
	return r, nil
}

// unreadReport: whoever asked may ask again.
func unreadReport(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: read settlement reports: %w", commands.ErrUnavailable, err)
}

func scanReport(row pgx.CollectableRow) (Report, error) {
	var (
		r        Report
		settings string
		ms       int64
		n        = &r.Counts
		e        = &r.Effects
	)
	err := row.Scan(&r.ID, &r.Tenant, &r.Upstream, &r.Operation, &r.Format, &settings, &r.From, &r.Until, &ms, &r.CreatedAt,
		&r.CreatedBy, &r.State, &r.Problem, &r.Bytes, &r.SHA256, &r.Lines, &r.Compared, &r.Scanned, &r.ComparedAt, &n.Matched,
		&n.Different, &n.MissingHere, &n.Duplicate, &n.Ambiguous, &n.Unreadable, &n.TooYoung, &n.MissingThere, &n.YoungThere,
		&e.Settled, &e.Kept, &e.Conflicts, &e.None, &r.ApplyAskedAt, &r.ApplyAskedBy, &r.ApplyReason, &r.AppliedAt)
	if err != nil {
		return Report{}, err
	}
	var stored reportSettings
	if err := json.Unmarshal([]byte(settings), &stored); err != nil {
		return Report{}, err
	}
	r.Columns, r.States, r.Compare = stored.Columns, stored.States, stored.Compare
	r.SettlesFor = time.Duration(ms) * time.Millisecond
	return r, nil
}

// Reports reads a page of reports, newest first, and the cursor of the next one
// ("" at the end).
func (s *Store) Reports(ctx context.Context, f ReportFilter) ([]Report, string, error) {
	at, id, err := reportCursor(f.Cursor)
	if err != nil {
		return nil, "", err
	}
	limit := reportPage(f.Limit)
	rows, err := s.pool.Query(ctx, `
		SELECT `+reportColumns+` FROM reports
		WHERE tenant = $1 AND ($2 = '' OR upstream = $2) AND (created_at, id) < ($3, $4)
		ORDER BY created_at DESC, id DESC LIMIT $5`, f.Tenant, f.Upstream, at, id, limit+1)
	if err != nil {
		return nil, "", unreadReport(err)
	}
	list, err := pgx.CollectRows(rows, scanReport)
	if err != nil {
		return nil, "", unreadReport(err)
	}
	if len(list) <= limit {
		return list, "", nil
	}
	list = list[:limit]
	last := list[limit-1]
	return list, postgres.Cursor(last.CreatedAt, last.ID), nil
}

func reportPage(limit int) int {
	if limit <= 0 {
		return defaultReportPage
	}
	return min(limit, maxReportPage)
}

// reportCursor is where the next page begins; without one, at the newest.
func reportCursor(s string) (time.Time, uuid.UUID, error) {
	if s == "" {
		return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), uuid.Max, nil
	}
	at, id, ok := postgres.ParseCursor(s)
	if !ok {
		return time.Time{}, uuid.Nil, commands.ErrBadCursor
	}
	return at, id, nil
}

// ReportItems reads a page of a report's items in the order of the file, then
// what the report leaves out, and the cursor of the next page ("" at the end).
func (s *Store) ReportItems(ctx context.Context, f ReportItemFilter) ([]ReportItem, string, error) {
	after, kinds, err := f.check()
	if err != nil {
		return nil, "", err
	}
	if _, err := s.Report(ctx, f.Tenant, f.Report); err != nil {
		return nil, "", err
	}
	limit := reportPage(f.Limit)
	rows, err := s.pool.Query(ctx, itemsSQL(kinds), f.Report, after, limit+1, kinds)
	if err != nil {
		return nil, "", unreadReport(err)
	}
	items, err := pgx.CollectRows(rows, scanItem)
	if err != nil {
		return nil, "", unreadReport(err)
	}
	if len(items) <= limit {
		return items, "", nil
	}
	items = items[:limit]
	b := binary.BigEndian.AppendUint32(nil, uint32(items[limit-1].Number))
	return items, base64.RawURLEncoding.EncodeToString(b), nil
}

func (f ReportItemFilter) check() (after int32, kinds []string, err error) {
	if f.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(f.Cursor)
		if err != nil || len(b) != 4 {
			return 0, nil, commands.ErrBadCursor
		}
		after = int32(binary.BigEndian.Uint32(b))
	}
	for _, kind := range f.Kinds {
		if !slices.Contains(ReportKinds(), kind) {
			return 0, nil, badReport("kind", "unknown", "There is no kind %q.", kind)
		}
		if !slices.Contains(kinds, string(kind)) {
			kinds = append(kinds, string(kind))
		}
	}
	return after, kinds, nil
}

// itemsSQL takes a page of each kind by its index, so that a rare kind is found
// at once among many lines.
func itemsSQL(kinds []string) string {
	page := `SELECT * FROM report_items WHERE report_id = $1 AND number > $2 AND $4::text[] IS NULL ORDER BY number LIMIT $3`
	if len(kinds) > 0 {
		page = `
			SELECT p.* FROM unnest($4::text[]) AS k(kind) CROSS JOIN LATERAL (
				SELECT * FROM report_items WHERE report_id = $1 AND kind = k.kind AND number > $2 ORDER BY number LIMIT $3) p`
	}
	return strings.Join([]string{`
		WITH page AS (`, page, `)
		SELECT i.number, coalesce(i.line, 0), i.kind, i.command_id, coalesce(l.reference, ''), coalesce(l.key, ''), coalesce(l.word, ''),
			i.finding, i.state, coalesce(i.differences::text, '[]'), coalesce(d.line, 0), i.problem, l.content, coalesce(i.effect, ''), i.applied_at,
			coalesce(c.idempotency_key, ''), coalesce(c.state, '')
		FROM page i
		LEFT JOIN report_lines l ON l.report_id = i.report_id AND l.number = i.number
		LEFT JOIN report_lines d ON d.report_id = i.report_id AND d.number = i.duplicate_of
		LEFT JOIN commands c ON c.id = i.command_id
		ORDER BY i.number LIMIT $3`}, "")
}

func scanItem(row pgx.CollectableRow) (ReportItem, error) {
	var (
		i           ReportItem
		differences string
		finding     string
		state, now  string
	)
	err := row.Scan(&i.Number, &i.Line, &i.Kind, &i.CommandID, &i.Reference, &i.Key, &i.Word, &finding, &state, &differences,
		&i.DuplicateOf, &i.Problem, &i.Content, &i.Effect, &i.AppliedAt, &i.CommandKey, &now)
	if err != nil {
		return ReportItem{}, err
	}
	i.Finding, i.State, i.Now = outcome.Finding(finding), outcome.State(state), outcome.State(now)
	return i, json.Unmarshal([]byte(differences), &i.Differences)
}
