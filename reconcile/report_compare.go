package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
)

// compareBatch is how many lines are compared in one transaction.
const compareBatch = 2000

// compareStep compares the next lines; after the last one it looks for commands
// that no line is about, and then the report waits for a person.
func (s *Store) compareStep(ctx context.Context, tx commands.Tx, r heldReport) (more bool, err error) {
	if r.Compared < r.Lines {
		return true, s.compareLines(ctx, tx, r)
	}
	if r.PeriodFrom != nil {
		if more, err := s.scanPeriod(ctx, tx, r); more || err != nil {
			return more, err
		}
	}
	_, err = tx.Exec(ctx, `UPDATE reports SET state = 'compared', compared_at = clock_timestamp(), problem = '' WHERE id = $1`, r.ID)
	if err != nil {
		return false, fmt.Errorf("end the comparison of settlement report %s: %w", r.ID, err)
	}
	return false, endReportJob(ctx, tx, r.ID)
}

// compareLines compares a batch and moves the report's progress past it.
func (s *Store) compareLines(ctx context.Context, tx commands.Tx, r heldReport) error {
	settings, err := r.settings()
	if err != nil {
		return err
	}
	lines, err := readLines(ctx, tx, r)
	if err != nil {
		return err
	}
	verdicts, err := s.verdictsOn(ctx, tx, r, settings, lines)
	if err != nil {
		return err
	}
	if err := insertItems(ctx, tx, r, lines, verdicts); err != nil {
		return err
	}
	return addProgress(ctx, tx, r, verdicts)
}

func readLines(ctx context.Context, tx commands.Tx, r heldReport) ([]reportLine, error) {
	rows, err := tx.Query(ctx, `
		SELECT number, line, reference, key, command_id, word, finding, code, message, given, problem, '' AS content
		FROM report_lines WHERE report_id = $1 AND number > $2 AND number <= $3 ORDER BY number`, r.ID, r.Compared, r.Compared+compareBatch)
	if err != nil {
		return nil, fmt.Errorf("read lines of settlement report %s: %w", r.ID, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[reportLine])
	if err != nil {
		return nil, fmt.Errorf("read lines of settlement report %s: %w", r.ID, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("lines of settlement report %s after %d are gone", r.ID, r.Compared)
	}
	return lines, nil
}

// verdictsOn compares lines, in their order.
func (s *Store) verdictsOn(ctx context.Context, tx commands.Tx, r heldReport, settings reportSettings, lines []reportLine) ([]verdict, error) {
	candidates, err := findCandidates(ctx, tx, r, lines)
	if err != nil {
		return nil, err
	}
	verdicts := make([]verdict, len(lines))
	var named []reportCandidate
	for i, l := range lines {
		verdicts[i] = about(l, candidates[l.Number])
		if c := verdicts[i].Command; c != nil {
			named = append(named, *c)
		}
	}
	first, err := firstLines(ctx, tx, r, named)
	if err != nil {
		return nil, err
	}
	values, err := s.fieldsOf(ctx, tx, r, settings.Compare, named)
	if err != nil {
		return nil, err
	}
	for i, l := range lines {
		v := &verdicts[i]
		if v.Kind != "" { // without a command, or unreadable
			continue
		}
		id := v.Command.ID
		if earlier, ok := first[id]; ok {
			v.DuplicateOf = earlier
		} else {
			first[id] = l.Number
		}
		v.weigh(l, settings.Compare, values[id].texts(len(settings.Compare)), r.settled())
		values[id].hide(v.Differences)
	}
	return verdicts, nil
}

// findCandidates finds the commands that lines name: by id, by key, or by a
// reference that an attempt, a lookup or anything else has brought. Only those of
// the report's upstream count, which keeps apart what others call the same.
func findCandidates(ctx context.Context, tx commands.Tx, r heldReport, lines []reportLine) (map[int][]reportCandidate, error) {
	rows, err := tx.Query(ctx, `
		WITH named AS (
			SELECT * FROM unnest($4::int[], $5::uuid[], $6::text[], $7::uuid[], $8::text[]) AS l(number, command_id, key, key_id, reference)
		), found AS (
			SELECT l.number, l.command_id AS id FROM named l WHERE l.command_id IS NOT NULL
			UNION
			SELECT l.number, c.id FROM named l CROSS JOIN LATERAL (
				SELECT id FROM commands WHERE tenant = $1 AND idempotency_key = l.key OFFSET 0) c
			WHERE l.key <> ''
			UNION
			SELECT l.number, q.command_id FROM named l CROSS JOIN LATERAL (
				SELECT command_id FROM command_requests WHERE command_id = l.key_id AND wire_key = l.key OFFSET 0) q
			WHERE l.key_id IS NOT NULL
			UNION
			SELECT l.number, f.command_id FROM named l CROSS JOIN LATERAL (
				SELECT command_id FROM attempts WHERE tenant = $1 AND reference = l.reference AND reference <> '' AND upstream_id = $2
				UNION
				SELECT command_id FROM findings WHERE tenant = $1 AND reference = l.reference AND reference <> ''
				UNION
				SELECT command_id FROM lookups WHERE tenant = $1 AND reference = l.reference AND reference <> '') f
			WHERE l.reference <> ''
		)
		SELECT f.number, c.id, c.state, coalesce(c.finalized_at, c.created_at), coalesce(c.outcome->>'reference', ''),
			c.operation, c.profile_version
		FROM found f CROSS JOIN LATERAL (
			SELECT * FROM commands WHERE id = f.id AND tenant = $1 AND upstream_id = $2 AND ($3 = '' OR operation = $3) OFFSET 0) c
		ORDER BY f.number, c.id`,
		r.Tenant, r.UpstreamID, r.Operation,
		postgres.Column(lines, func(l reportLine) int32 { return int32(l.Number) }),
		postgres.Column(lines, func(l reportLine) *uuid.UUID { return l.CommandID }),
		postgres.Column(lines, func(l reportLine) string { return l.Key }),
		postgres.Column(lines, keyAsID),
		postgres.Column(lines, func(l reportLine) string { return l.Reference }))
	if err != nil {
		return nil, fmt.Errorf("find the commands of settlement report %s: %w", r.ID, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[reportCandidate])
	if err != nil {
		return nil, fmt.Errorf("find the commands of settlement report %s: %w", r.ID, err)
	}
	byLine := make(map[int][]reportCandidate, len(list))
	for _, c := range list {
		byLine[c.Number] = append(byLine[c.Number], c)
	}
	return byLine, nil
}

// keyAsID: where the command's id is the key that the upstream sees, its report
// has that.
func keyAsID(l reportLine) *uuid.UUID {
	if id, err := uuid.Parse(l.Key); err == nil {
		return &id
	}
	return nil
}

// firstLines finds which of the commands an earlier line was about that could be
// read.
func firstLines(ctx context.Context, tx commands.Tx, r heldReport, named []reportCandidate) (map[uuid.UUID]int, error) {
	rows, err := tx.Query(ctx, `
		SELECT named.id, i.number FROM unnest($2::uuid[]) AS named(id) CROSS JOIN LATERAL (
			SELECT number FROM report_items
			WHERE report_id = $1 AND command_id = named.id AND duplicate_of IS NULL AND kind <> 'unreadable' OFFSET 0) i`, r.ID, idsOf(named))
	if err != nil {
		return nil, fmt.Errorf("read items of settlement report %s: %w", r.ID, err)
	}
	first := make(map[uuid.UUID]int, len(named))
	var (
		id     uuid.UUID
		number int
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &number}, func() error {
		first[id] = number
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read items of settlement report %s: %w", r.ID, err)
	}
	return first, nil
}

func idsOf(named []reportCandidate) []uuid.UUID {
	return postgres.Column(named, func(c reportCandidate) uuid.UUID { return c.ID })
}

func insertItems(ctx context.Context, tx commands.Tx, r heldReport, lines []reportLine, verdicts []verdict) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"report_items"}, []string{
		"report_id", "number", "line", "kind", "command_id", "state", "finding", "differences", "duplicate_of", "problem", "evidence",
	}, pgx.CopyFromSlice(len(lines), func(i int) ([]any, error) {
		l, v := lines[i], verdicts[i]
		row := []any{r.ID, int32(l.Number), int32(l.Line), string(v.Kind), nil, "", string(l.Finding), nil, nil, v.Problem, v.Evidence}
		if v.Command != nil {
			row[4], row[5] = v.Command.ID, string(v.Command.State)
		}
		if len(v.Differences) > 0 {
			data, _ := json.Marshal(v.Differences) // texts always encode
			row[7] = string(data)
		}
		if v.DuplicateOf > 0 {
			row[8] = int32(v.DuplicateOf)
		}
		return row, nil
	}))
	if err != nil {
		return fmt.Errorf("write items of settlement report %s: %w", r.ID, err)
	}
	return nil
}

// addProgress counts a batch of lines.
func addProgress(ctx context.Context, tx commands.Tx, r heldReport, verdicts []verdict) error {
	n := countKinds(postgres.Column(verdicts, func(v verdict) ReportKind { return v.Kind }))
	_, err := tx.Exec(ctx, `
		UPDATE reports SET compared = compared + $2, failures = 0, matched = matched + $3, different = different + $4,
			missing_here = missing_here + $5, duplicate = duplicate + $6, ambiguous = ambiguous + $7,
			unreadable = unreadable + $8, too_young = too_young + $9
		WHERE id = $1`, r.ID, len(verdicts), n[ReportMatched], n[ReportDifferent], n[ReportMissingHere], n[ReportDuplicate],
		n[ReportAmbiguous], n[ReportUnreadable], n[ReportTooYoung])
	if err != nil {
		return fmt.Errorf("count lines of settlement report %s: %w", r.ID, err)
	}
	return nil
}
