package commands

import (
	"slices"
	"time"

	"executor/internal/postgres"
	"executor/outcome"
)

// Filter selects commands of one tenant, newest first. Zero fields do not narrow.
type Filter struct {
	Tenant         string
	States         []string
	Upstream       string
	Operation      string
	Key            string
	Reference      string
	Metadata       map[string]string
	Evidence       []string // of the last attempt that ended, as it was recorded then
	Reasons        []string // of the outcome, or what stopped the command
	Search         string   // one text for all that names a command, see narrow
	CreatedAfter   *time.Time
	CreatedBefore  *time.Time
	FinalizedAfter *time.Time
	Cursor         string
	Limit          int // 0 is 50; at most MaxPage

	// Scan bounds how many of the newest commands a page looks at, where the filter
	// asks for what no index knows: state (but unresolved), upstream, operation,
	// evidence, reason, when it ended. 0 looks at all of them until the page is full.
	Scan int

	anyMember []string // JSON objects, any of which its metadata has; what became of a Search
}

// check refuses what can never be found.
func (f Filter) check() error {
	for _, state := range f.States {
		if !slices.Contains(outcome.States(), outcome.State(state)) {
			return invalid("state", "unknown_state", "There is no state %q.", state)
		}
	}
	for _, e := range f.Evidence {
		if _, err := outcome.ParseEvidence(e); err != nil {
			return invalid("evidence", "unknown_evidence", "There is no evidence %q.", e)
		}
	}
	texts := map[string][]string{
		"upstream": {f.Upstream}, "operation": {f.Operation}, "key": {f.Key}, "reference": {f.Reference}, "reason": f.Reasons, "search": {f.Search},
	}
	for name, value := range f.Metadata {
		texts["metadata"] = append(texts["metadata"], name, value)
	}
	for field, values := range texts {
		for _, value := range values {
			if CleanText(value) != value {
				return invalid(field, "not_text", "It is text in UTF-8 without NUL.")
			}
		}
	}
	return nil
}

// indexed are the conditions along which commands are read in their order; nothing
// of the filter enters the SQL text. $1 is the tenant.
func (f Filter) indexed() (*postgres.Where, error) {
	var w postgres.Where
	w.And("c.tenant = ?", f.Tenant)
	if len(f.States) == 1 && f.States[0] == string(outcome.StateUnresolved) {
		w.And("c.phase IS NOT NULL") // lets the planner see the partial index
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
			return nil, ErrBadCursor
		}
		w.And("(c.created_at, c.id) < (?, ?)", at, id)
	}
	return &w, nil
}

// unindexed adds the others: those that have an index of their own, and those that
// are looked at command by command. In a scan all are: an index that gives half of
// the commands costs more than to look at those that the scan gives.
func (f Filter) unindexed(w *postgres.Where, scan bool) {
	if len(f.States) > 0 {
		w.And("c.state = ANY(?)", f.States)
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
	if f.Search != "" { // what is left of it: see narrow
		w.And("starts_with(c.idempotency_key, ?)", f.Search)
	}
	if f.Reference != "" {
		w.And(`c.id IN (
			SELECT command_id FROM attempts WHERE tenant = $1 AND reference = ? AND reference <> ''
			UNION SELECT command_id FROM findings WHERE tenant = $1 AND reference = ? AND reference <> '')`, f.Reference, f.Reference)
	}
	switch {
	case len(f.Metadata) > 0 && scan:
		w.And("(SELECT m.metadata @> ?::jsonb FROM command_requests m WHERE m.command_id = c.id)", encodeJSON(f.Metadata))
	case len(f.Metadata) > 0:
		w.And("EXISTS (SELECT FROM command_requests m WHERE m.command_id = c.id AND m.metadata <> '{}'::jsonb AND m.metadata @> ?::jsonb)", encodeJSON(f.Metadata))
	}
	if len(f.anyMember) > 0 {
		w.And("(SELECT m.metadata @> ANY(?::jsonb[]) FROM command_requests m WHERE m.command_id = c.id)", f.anyMember)
	}
	if len(f.Evidence) > 0 {
		w.And(`(SELECT a.evidence FROM attempts a WHERE a.command_id = c.id AND a.ended_at IS NOT NULL ORDER BY a.number DESC LIMIT 1) = ANY(?)`, f.Evidence)
	}
	if len(f.Reasons) > 0 {
		w.And("(c.outcome ->> 'reason' = ANY(?) OR c.outcome ->> 'stopped_by' = ANY(?))", f.Reasons, f.Reasons)
	}
	if f.FinalizedAfter != nil {
		w.And("c.finalized_at > ?", *f.FinalizedAfter)
	}
}
