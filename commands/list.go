package commands

import (
	"context"
	"fmt"
	"slices"

	"executor/internal/postgres"
	"executor/outcome"
)

const (
	defaultPage = 50
	// MaxPage bounds a page of a list.
	MaxPage = 100
)

// List reads a page of commands, newest first, and the cursor of the next page
// ("" at the end). Pages are by key, not by offset: what is submitted meanwhile
// neither repeats nor hides a line.
func (s *Store) List(ctx context.Context, f Filter) ([]Command, string, error) {
	limit := min(f.Limit, MaxPage)
	if limit <= 0 {
		limit = defaultPage
	}
	where, args, err := f.conditions()
	if err != nil {
		return nil, "", err
	}
	where += fmt.Sprintf(` ORDER BY c.created_at DESC, c.id DESC LIMIT %d`, limit+1)
	list, err := s.read(ctx, where, args...)
	if err != nil || len(list) <= limit {
		return list, "", err
	}
	list = list[:limit]
	return list, postgres.Cursor(list[limit-1].CreatedAt, list[limit-1].ID), nil
}

// conditions turns the filter into a WHERE with its arguments; nothing of the
// filter enters the SQL text.
func (f Filter) conditions() (string, []any, error) {
	var w postgres.Where
	w.And("c.tenant = ?", f.Tenant) // $1
	if len(f.States) > 0 {
		for _, state := range f.States {
			if !slices.Contains(outcome.States(), outcome.State(state)) {
				return "", nil, invalid("state", "unknown_state", "There is no state %q.", state)
			}
		}
		w.And("c.state = ANY(?)", f.States)
		if len(f.States) == 1 && f.States[0] == string(outcome.StateUnresolved) {
			w.And("c.phase IS NOT NULL") // lets the planner see the partial index
		}
	}
	if f.Upstream != "" {
		w.And("c.upstream_id = (SELECT id FROM upstreams WHERE tenant = $1 AND name = ?)", f.Upstream)
	}
	if f.Operation != "" {
		w.And("c.operation = ?", f.Operation)
	}
	if f.Key != "" {
		w.And("c.idempotency_key = ?", f.Key)
	}
	if f.Reference != "" {
		w.And(`c.id IN (
			SELECT command_id FROM attempts WHERE tenant = $1 AND reference = ? AND reference <> ''
			UNION SELECT command_id FROM findings WHERE tenant = $1 AND reference = ? AND reference <> '')`, f.Reference, f.Reference)
	}
	if len(f.Metadata) > 0 {
		w.And("r.metadata <> '{}'::jsonb AND r.metadata @> ?::jsonb", encodeJSON(f.Metadata))
	}
	if f.CreatedAfter != nil {
		w.And("c.created_at > ?", *f.CreatedAfter)
	}
	if f.CreatedBefore != nil {
		w.And("c.created_at < ?", *f.CreatedBefore)
	}
	if f.Cursor != "" {
		at, id, ok := postgres.ParseCursor(f.Cursor)
		if !ok {
			return "", nil, ErrBadCursor
		}
		w.And("(c.created_at, c.id) < (?, ?)", at, id)
	}
	sql, args := w.Build()
	return sql, args, nil
}
