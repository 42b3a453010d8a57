package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"executor/commands"
	"executor/upstreams"
)

// commandFields are what a command has where columns are compared.
type commandFields struct {
	values []*fieldText
	hidden map[string]bool // fields whose value the profile keeps from pages
}

func (f *commandFields) texts(n int) []*fieldText {
	if f == nil {
		return make([]*fieldText, n)
	}
	return f.values
}

// redactedValue stands where a value was compared that is not to be shown.
const redactedValue = "[redacted]"

// hide blanks what differs and is not to be shown, on both sides.
func (f *commandFields) hide(differences []Difference) {
	for i := range differences {
		if f != nil && f.hidden[differences[i].Field] {
			differences[i].Ours, differences[i].Theirs = redactedValue, redactedValue
		}
	}
}

// fieldsOf reads what commands have in the compared fields. One body is in memory
// at a time: they can be large.
func (s *Store) fieldsOf(ctx context.Context, tx commands.Tx, r heldReport, compare []Comparison, named []reportCandidate) (map[uuid.UUID]*commandFields, error) {
	fields := make(map[uuid.UUID]*commandFields, len(named))
	if len(compare) == 0 || len(named) == 0 {
		return fields, nil
	}
	reader, err := newFieldReader(s, r, compare)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT q.* FROM unnest($1::uuid[]) AS named(id) CROSS JOIN LATERAL (
			SELECT command_id, content_type, metadata, CASE WHEN $2 THEN body END
			FROM command_requests WHERE command_id = named.id OFFSET 0) q`, idsOf(named), len(reader.paths) > 0)
	if err != nil {
		return nil, fmt.Errorf("read requests of settlement report %s: %w", r.ID, err)
	}
	defer rows.Close()
	byID := make(map[uuid.UUID]reportCandidate, len(named))
	for _, c := range named {
		byID[c.ID] = c
	}
	for rows.Next() {
		var q requestRow
		if err := rows.Scan(&q.id, &q.contentType, &q.metadata, &q.body); err != nil {
			return nil, fmt.Errorf("read requests of settlement report %s: %w", r.ID, err)
		}
		q.command = byID[q.id]
		if fields[q.id], err = reader.read(ctx, q); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read requests of settlement report %s: %w", r.ID, err)
	}
	return fields, nil
}

type requestRow struct {
	id          uuid.UUID
	command     reportCandidate
	contentType string
	metadata    map[string]string
	body        []byte
}

// fieldReader takes the compared fields out of requests.
type fieldReader struct {
	store   *Store
	report  heldReport
	compare []Comparison
	fields  []commandField
	paths   [][]string // of those in the body
}

func newFieldReader(s *Store, r heldReport, compare []Comparison) (*fieldReader, error) {
	f := &fieldReader{store: s, report: r, compare: compare}
	for _, c := range compare {
		field, err := parseField(c.Field)
		if err != nil {
			return nil, fmt.Errorf("settlement report %s: %w", r.ID, err)
		}
		f.fields = append(f.fields, field)
		if field.body != nil {
			f.paths = append(f.paths, field.body)
		}
	}
	return f, nil
}

// read takes the fields of one request. What is not there, or in a body that is
// neither JSON nor a form, is not there.
func (f *fieldReader) read(ctx context.Context, q requestRow) (*commandFields, error) {
	inBody, _ := bodyAt(q.body, q.contentType, f.paths)
	hidden, err := f.hidden(ctx, q, inBody)
	if err != nil {
		return nil, err
	}
	out := &commandFields{hidden: hidden}
	for _, field := range f.fields {
		var value *fieldText
		if field.body != nil {
			value, inBody = inBody[0], inBody[1:]
		} else if text, ok := q.metadata[field.metadata]; ok {
			value = &fieldText{text: text}
		}
		out.values = append(out.values, value)
	}
	return out, nil
}

// hidden finds the fields that look different in the redacted body.
func (f *fieldReader) hidden(ctx context.Context, q requestRow, clear []*fieldText) (map[string]bool, error) {
	if len(f.paths) == 0 {
		return nil, nil
	}
	op, err := f.store.commands.Operation(ctx, f.report.UpstreamID, q.command.Version, q.command.Operation)
	var unreadable *upstreams.ParseError
	if errors.As(err, &unreadable) {
		return f.all(), nil // nobody can say what may be shown
	}
	if err != nil {
		return nil, err
	}
	if len(op.Redaction.Request) == 0 {
		return nil, nil
	}
	redacted, _ := bodyAt(op.RedactBody(q.body, true), q.contentType, f.paths)
	hidden, next := map[string]bool{}, 0
	for i, field := range f.fields {
		if field.body == nil {
			continue
		}
		hidden[f.compare[i].Field] = shown(redacted[next]) != shown(clear[next])
		next++
	}
	return hidden, nil
}

// all hides every field of the body.
func (f *fieldReader) all() map[string]bool {
	hidden := map[string]bool{}
	for i, field := range f.fields {
		hidden[f.compare[i].Field] = field.body != nil
	}
	return hidden
}
