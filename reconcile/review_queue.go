package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
	"executor/outcome"
	"executor/upstreams"
)

// queued is a line of the queue as the database gives it.
type queued struct {
	Kind         string
	Since        time.Time
	Deadline     time.Time
	CommandID    uuid.UUID
	Version      int
	Assignee     string
	HandedReason string
	Evidence     outcome.Evidence
}

// The two sorts of lines. The first goes along an index of the open doubts in their
// order, and what the filters ask stands beside them; of open conflicts there are few.
const (
	queuedDoubts = `
		SELECT 'unresolved' AS kind, d.since, d.deadline, c.id AS command_id, c.version, d.assignee, d.handed_reason, d.evidence
		FROM doubts d
		JOIN commands c ON c.id = d.command_id{metadata}
		WHERE d.tenant = $1 AND d.handed_at IS NOT NULL AND c.phase = 'review'`
	countedDoubts = `
		FROM doubts d{metadata}
		WHERE d.tenant = $1 AND d.handed_at IS NOT NULL`
	queuedConflicts = `
		SELECT 'conflict' AS kind, o.since, c.deadline, c.id AS command_id, c.version, coalesce(d.assignee, '') AS assignee,
			'' AS handed_reason, coalesce(e.evidence, '') AS evidence` + openConflicts
	openConflicts = `
		FROM (
			SELECT command_id, min(at) AS since FROM findings
			WHERE tenant = $1 AND effect = 'conflict' AND resolved_at IS NULL GROUP BY command_id) o
		JOIN commands c ON c.id = o.command_id
		LEFT JOIN doubts d ON d.command_id = c.id{metadata}
		LEFT JOIN LATERAL (SELECT ` + commands.ActingEvidence + ` AS evidence) e ON true
		WHERE c.tenant = $1`
)

// sortOfLines is one of the two with where its columns come from.
type sortOfLines struct {
	kind, sql string
	counted   string // where they are counted
	columns   *strings.Replacer
	sorts     map[string]string // the column of each ReviewSort
	id        string
}

var sortsOfLines = []sortOfLines{
	{ReviewUnresolved, queuedDoubts, countedDoubts, strings.NewReplacer(
		"{since}", "d.since", "{upstream}", "d.upstream_id", "{operation}", "d.operation", "{reason}", "d.reason", "{handed}", "d.handed_reason",
		"{assignee}", "d.assignee", "{evidence}", "d.evidence"), map[string]string{ReviewSortAge: "d.since", ReviewSortDeadline: "d.deadline"}, "d.command_id"},
	{ReviewConflict, queuedConflicts, openConflicts, strings.NewReplacer(
		"{since}", "o.since", "{upstream}", "c.upstream_id", "{operation}", "c.operation", "{reason}", "c.outcome ->> 'reason'", "{handed}", "''",
		"{assignee}", "coalesce(d.assignee, '')", "{evidence}", "coalesce(e.evidence, '')"),
		map[string]string{ReviewSortAge: "o.since", ReviewSortDeadline: "c.deadline"}, "c.id"},
}

// cursor says where a page ends with this line.
func (q queued) cursor(sort string) string {
	if sort == ReviewSortDeadline {
		return postgres.Cursor(q.Deadline, q.CommandID)
	}
	return postgres.Cursor(q.Since, q.CommandID)
}

// queue selects what the filter asks for, in its order, at most limit of it.
func (s *Store) queue(ctx context.Context, q commands.Querier, f ReviewFilter, limit int) ([]queued, error) {
	sql, args, err := f.statement(limit)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return nil, unavailable("read the review queue", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[queued])
	if err != nil {
		return nil, unavailable("read the review queue", err)
	}
	return list, nil
}

// statement is the filter as SQL with its arguments; nothing of the filter enters
// the text.
func (f ReviewFilter) statement(limit int) (string, []any, error) {
	if err := f.check(); err != nil {
		return "", nil, err
	}
	b := &conditions{args: []any{f.Tenant}}
	if err := f.narrow(b); err != nil {
		return "", nil, err
	}
	order := map[string]string{ReviewSortAge: "since", ReviewSortDeadline: "deadline"}[f.sort()]
	return fmt.Sprintf("SELECT * FROM (%s) queue ORDER BY %s, command_id LIMIT %d", f.union(b, limit, false), order, limit), b.args, nil
}

// countStatement counts what statement selects, up to limit. Of the doubts it reads
// nothing else: each that a person has is open.
func (f ReviewFilter) countStatement(limit int) (string, []any, error) {
	f.Cursor = ""
	if err := f.check(); err != nil {
		return "", nil, err
	}
	b := &conditions{args: []any{f.Tenant}}
	if err := f.narrow(b); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("SELECT count(*) FROM (SELECT FROM (%s) queue LIMIT %d) counted", f.union(b, limit, true), limit), b.args, nil
}

// union selects the lines of both sorts, at most limit of each, or counts them.
func (f ReviewFilter) union(b *conditions, limit int, count bool) string {
	var parts []string
	for _, lines := range sortsOfLines {
		if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, lines.kind) {
			continue
		}
		sql, metadata := lines.sql, ""
		if len(f.Metadata)+len(f.MetadataMin)+len(f.MetadataMax) > 0 {
			metadata = "\n\t\tJOIN command_requests r ON r.command_id = " + lines.id
		}
		order := lines.sorts[f.sort()] + ", " + lines.id
		sorted := "ORDER BY " + order
		if count {
			sql, sorted = "\n\t\tSELECT 1 AS line"+lines.counted, ""
		}
		sql = lines.columns.Replace(strings.NewReplacer("{metadata}", metadata, "{order}", order).Replace(sql + b.text.String()))
		parts = append(parts, fmt.Sprintf("(%s\n\t\t%s LIMIT %d)", sql, sorted, limit))
	}
	return strings.Join(parts, "\n\t\tUNION ALL ")
}

func (f ReviewFilter) sort() string {
	if f.Sort == "" {
		return ReviewSortAge
	}
	return f.Sort
}

// conditions collects what a WHERE adds, with ? for each argument.
type conditions struct {
	text strings.Builder
	args []any
}

func (b *conditions) and(condition string, values ...any) {
	for _, v := range values {
		b.args = append(b.args, v)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(b.args)), 1)
	}
	b.text.WriteString(" AND " + condition)
}

// narrow adds a condition for each field that is set.
func (f ReviewFilter) narrow(b *conditions) error {
	if f.Upstream != "" {
		b.and("{upstream} = (SELECT id FROM upstreams WHERE tenant = $1 AND name = ?)", f.Upstream)
	}
	if f.Operation != "" {
		b.and("{operation} = ?", f.Operation)
	}
	if len(f.Reasons) > 0 {
		b.and("({reason} = ANY(?) OR {handed} = ANY(?))", f.Reasons, f.Reasons)
	}
	if len(f.Evidence) > 0 {
		b.and("{evidence} = ANY(?)", f.Evidence)
	}
	if f.Assignee != nil {
		b.and("{assignee} = ?", *f.Assignee)
	}
	if f.OlderThan > 0 {
		b.and("{since} < now() - ?::interval", f.OlderThan)
	}
	f.narrowMetadata(b)
	if f.Cursor != "" {
		at, id, ok := postgres.ParseCursor(f.Cursor)
		if !ok {
			return commands.ErrBadCursor
		}
		b.and("({order}) > (?, ?)", at, id)
	}
	return nil
}

// narrowMetadata compares numbers only with what looks like one.
func (f ReviewFilter) narrowMetadata(b *conditions) {
	if len(f.Metadata) > 0 {
		b.and("r.metadata <> '{}'::jsonb AND r.metadata @> ?::jsonb", jsonText(f.Metadata))
	}
	for _, bound := range []struct {
		values  map[string]string
		compare string
	}{{f.MetadataMin, ">="}, {f.MetadataMax, "<="}} {
		for _, key := range slices.Sorted(maps.Keys(bound.values)) {
			b.and("CASE WHEN r.metadata ->> ?::text ~ ? THEN (r.metadata ->> ?::text)::numeric "+bound.compare+" ?::text::numeric ELSE false END",
				key, number.String(), key, bound.values[key])
		}
	}
}

// number is what metadata has to look like to be compared as a number.
var number = regexp.MustCompile(`^-?[0-9]{1,30}(\.[0-9]{1,30})?$`)

// maxBounds is as many members as the metadata of a command has. Each is a condition
// with arguments of its own, of which a statement takes a limited number.
const maxBounds = 50

// check refuses what can never be found.
func (f ReviewFilter) check() error {
	var fields []upstreams.FieldError
	for _, kind := range f.Kinds {
		if !slices.Contains(ReviewKinds(), kind) {
			fields = append(fields, field("/kind", "unknown_kind", "There is no kind %q: it is unresolved or conflict.", kind))
		}
	}
	for _, e := range f.Evidence {
		if _, err := outcome.ParseEvidence(e); err != nil {
			fields = append(fields, field("/evidence", "unknown_evidence", "There is no evidence %q.", e))
		}
	}
	if f.Sort != "" && !slices.Contains(ReviewSorts(), f.Sort) {
		fields = append(fields, field("/sort", "unknown_sort", "There is no sort %q: it is age or deadline.", f.Sort))
	}
	if f.OlderThan < 0 {
		fields = append(fields, field("/older_than", "negative", "An age is not negative."))
	}
	for pointer, bounds := range map[string]map[string]string{"/metadata_min": f.MetadataMin, "/metadata_max": f.MetadataMax} {
		if len(bounds) > maxBounds {
			fields = append(fields, field(pointer, "too_many", "There are %d numbers; %d are allowed.", len(bounds), maxBounds))
		}
	}
	fields = append(fields, f.checkTexts()...)
	if len(fields) > 0 {
		return &commands.Invalid{Detail: "The filter of the review queue is not valid.", Fields: fields}
	}
	return nil
}

// checkTexts refuses numbers that are none, and text that no column can hold.
func (f ReviewFilter) checkTexts() []upstreams.FieldError {
	var fields []upstreams.FieldError
	texts := map[string][]string{"/upstream": {f.Upstream}, "/operation": {f.Operation}, "/reason": f.Reasons}
	if f.Assignee != nil {
		texts["/assignee"] = []string{*f.Assignee}
	}
	for name, values := range map[string]map[string]string{"metadata": f.Metadata, "metadata_min": f.MetadataMin, "metadata_max": f.MetadataMax} {
		for key, value := range values {
			texts["/"+name] = append(texts["/"+name], key, value)
			if name != "metadata" && !number.MatchString(value) {
				fields = append(fields, field("/"+name+"/"+key, "not_a_number", "%q is not a plain decimal number.", value))
			}
		}
	}
	for pointer, values := range texts {
		for _, value := range values {
			if commands.CleanText(value) != value {
				fields = append(fields, field(pointer, "not_text", "It is text in UTF-8 without NUL."))
			}
		}
	}
	return fields
}

// narrows reports whether the filter leaves anything out.
func (f ReviewFilter) narrows() bool {
	text, _ := json.Marshal(f) // texts and numbers always encode
	return string(text) != "{}"
}
