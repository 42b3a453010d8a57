package commands

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// Excerpt is an attempt for a reader who wants the beginning of its response body.
type Excerpt struct {
	Attempt           // its ResponseBody is the beginning of what is stored
	StoredBytes int64 // of the response body
	RetryAfter  string
	Link        string // where the upstream shows what becomes of what it accepted
}

// Excerpts reads the newest attempts of a command, oldest first, with at most so
// many bytes of each response body: bodies may be large, and there may be hundreds of
// attempts. A command that the tenant does not have has none.
func (s *Store) Excerpts(ctx context.Context, tenant string, id uuid.UUID, newest, bytes int) ([]Excerpt, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT number, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			coalesce(evidence, '') AS evidence, stage, category, detail, answer, status, boundary, settled_by, rule, decision,
			reason, wait_ms, retry_at, refreshed_auth, request, bytes_total, bytes_handed_over, body_sha256,
			response_headers, substring(response_body FROM 1 FOR $4) AS response_body, response_truncated, response_sha256, response_bytes,
			reference, rejection_code, rejection_message, addresses, timings, remote,
			protocol, reused, deadline_left_ms, budget_tokens, notes,
			coalesce(octet_length(response_body), 0) AS stored_bytes, retry_after, link
		FROM attempts WHERE tenant = $1 AND command_id = $2 ORDER BY number DESC LIMIT $3`, tenant, id, newest, bytes)
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Excerpt])
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	slices.Reverse(list)
	return list, nil
}

// ResponseBody reads what is stored of the response to an attempt. Without one, or
// for another tenant's id, it is ErrNotFound.
func (s *Store) ResponseBody(ctx context.Context, tenant string, id uuid.UUID, number int) ([]byte, error) {
	var body []byte
	err := s.pool.QueryRow(ctx, `
		SELECT response_body FROM attempts
		WHERE tenant = $1 AND command_id = $2 AND number = $3 AND response_body IS NOT NULL`, tenant, id, number).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, unavailable("read a response", err)
	}
	return body, nil
}

// Learnt is a piece of knowledge as it stands on record, with what became of it.
type Learnt struct {
	ID          int64
	At          time.Time
	Source      outcome.DecidedBy
	Actor       string
	Attempt     int             // that it belongs to; 0 for none
	Finding     outcome.Finding // about the command as a whole; "" for late evidence of one attempt
	Evidence    outcome.Evidence
	Category    outcome.Category
	Answer      outcome.Answer
	Status      int
	Reference   string
	Code        string
	Message     string
	Observation json.RawMessage
	Effect      Effect
	ResolvedAt  *time.Time // a conflict that a person corrected or dismissed
}

// Open reports whether it is a conflict that no person has looked at.
func (l Learnt) Open() bool { return l.Effect == EffectConflict && l.ResolvedAt == nil }

// shownLearnt bounds how much of it is read at once: how much there is is up to
// upstreams.
const shownLearnt = 200

// Learnt reads what was learnt about a command by other ways than its attempts, the
// newest 200, oldest first.
func (s *Store) Learnt(ctx context.Context, tenant string, id uuid.UUID) ([]Learnt, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, at, source, actor, coalesce(attempt_number, 0) AS attempt, finding, evidence, category, answer, status, reference,
			code, message, observation, effect, resolved_at
		FROM findings WHERE tenant = $1 AND command_id = $2 ORDER BY id DESC LIMIT $3`, tenant, id, shownLearnt)
	if err != nil {
		return nil, unavailable("read findings", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Learnt])
	if err != nil {
		return nil, unavailable("read findings", err)
	}
	slices.Reverse(list)
	return list, nil
}
