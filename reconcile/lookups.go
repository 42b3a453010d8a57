package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// Lookup is one question to the upstream and its answer, as it stands on record:
// without credentials and without what the profile redacts.
type Lookup struct {
	ID              int64
	Round           int
	Question        int // its place in the profile's list, from 1; 0 where none could be asked
	Instance        string
	ProfileVersion  int
	StartedAt       time.Time // by the database's clock
	EndedAt         time.Time
	Request         commands.AttemptRequest
	Category        outcome.Category // CategoryNone where the answer is whole
	Detail          string
	Status          int // 0: no response
	Finding         outcome.Finding
	Counts          bool // an absent after the settle time, spaced
	Rule            string
	Reference       string
	Code            string
	Message         string
	ResponseHeaders http.Header
	ResponseBody    []byte
	Truncated       bool
	Notes           []string
}

// shownLookups bounds how many lookups of a command are read at once.
const shownLookups = 200

// Lookups reads the newest lookups about a command, at most 200, oldest first.
// Another tenant's id is commands.ErrNotFound.
func (s *Store) Lookups(ctx context.Context, tenant string, id uuid.UUID) ([]Lookup, error) {
	var known bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM commands WHERE tenant = $1 AND id = $2)`, tenant, id).Scan(&known)
	if err != nil {
		return nil, unavailable("read lookups", err)
	}
	if !known {
		return nil, commands.ErrNotFound
	}
	rows, err := s.pool.Query(ctx, `
		SELECT id, round, question, instance, profile_version, started_at, ended_at, request, category, detail, status, finding,
			counts, rule, reference, code, message, response_headers, response_body, truncated, notes
		FROM lookups WHERE command_id = $1 AND tenant = $2 ORDER BY id DESC LIMIT $3`, id, tenant, shownLookups)
	if err != nil {
		return nil, unavailable("read lookups", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Lookup])
	if err != nil {
		return nil, unavailable("read lookups", err)
	}
	slices.Reverse(list)
	return list, nil
}

// unavailable wraps a failed read: whoever asked may ask again.
func unavailable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", commands.ErrUnavailable, what, err)
}

// insertLookups writes the answers of a round. Nothing in them can keep them from
// being written.
func insertLookups(ctx context.Context, tx pgx.Tx, id uuid.UUID, tenant string, list []Lookup) error {
	batch := &pgx.Batch{}
	for _, l := range list {
		batch.Queue(`
			INSERT INTO lookups (command_id, tenant, round, question, instance, profile_version, started_at, ended_at, request,
				category, detail, status, finding, counts, rule, reference, code, message, response_headers, response_body, truncated, notes)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)`,
			id, tenant, l.Round, l.Question, l.Instance, l.ProfileVersion, l.StartedAt, l.EndedAt, jsonText(l.Request),
			l.Category, commands.CleanText(l.Detail), l.Status, l.Finding, l.Counts, commands.CleanText(l.Rule),
			commands.CleanText(l.Reference), commands.CleanText(l.Code), commands.CleanText(l.Message),
			jsonText(l.ResponseHeaders), l.ResponseBody, l.Truncated, jsonText(l.Notes))
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("record lookups of command %s: %w", id, err)
	}
	return nil
}

// recorded reports whether the answers of a round are on record: a commit whose
// answer was lost is repeated.
func recorded(ctx context.Context, tx pgx.Tx, id uuid.UUID, list []Lookup) (bool, error) {
	if len(list) == 0 {
		return false, nil
	}
	var known bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM lookups WHERE command_id = $1 AND instance = $2 AND started_at = $3 AND question = $4)`,
		id, list[0].Instance, list[0].StartedAt, list[0].Question).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("look for lookups of command %s: %w", id, err)
	}
	return known, nil
}

// jsonText is for values that always encode.
func jsonText(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "null"
	}
	return string(data)
}
