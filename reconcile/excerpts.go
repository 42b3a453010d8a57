package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Excerpt is a lookup for a reader who wants the beginning of its answer.
type Excerpt struct {
	Lookup            // its ResponseBody is the beginning of what is stored
	StoredBytes int64 // of the answer's body
}

// Excerpts reads the newest lookups about a command, oldest first, with at most so
// many bytes of each answer. A command that the tenant does not have has none.
func (s *Store) Excerpts(ctx context.Context, tenant string, id uuid.UUID, newest, bytes int) ([]Excerpt, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, round, question, instance, profile_version, started_at, ended_at, request, category, detail, status, finding,
			counts, rule, reference, code, message, response_headers, substring(response_body FROM 1 FOR $4) AS response_body, truncated,
			notes, coalesce(octet_length(response_body), 0) AS stored_bytes
		FROM lookups WHERE command_id = $2 AND tenant = $1 ORDER BY id DESC LIMIT $3`, tenant, id, newest, bytes)
	if err != nil {
		return nil, unavailable("read lookups", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Excerpt])
	if err != nil {
		return nil, unavailable("read lookups", err)
	}
	slices.Reverse(list)
	return list, nil
}

// Doubt is who follows up a command that is or was unresolved.
type Doubt struct {
	Since        time.Time
	GivesUpAt    *time.Time // no lookup is planned beyond; nil: the operation has none
	Rounds       int        // of lookups
	Unknown      int        // rounds that brought nothing
	Seen         bool       // the upstream showed it once
	HandedAt     *time.Time // to a person
	HandedReason string
}

// Doubt reads it. Without one the second result is false.
func (s *Store) Doubt(ctx context.Context, tenant string, id uuid.UUID) (Doubt, bool, error) {
	var d Doubt
	err := s.pool.QueryRow(ctx, `
		SELECT since, gives_up_at, rounds, unknown, seen, handed_at, handed_reason
		FROM doubts WHERE tenant = $1 AND command_id = $2`, tenant, id).Scan(
		&d.Since, &d.GivesUpAt, &d.Rounds, &d.Unknown, &d.Seen, &d.HandedAt, &d.HandedReason)
	if errors.Is(err, pgx.ErrNoRows) {
		return Doubt{}, false, nil
	}
	if err != nil {
		return Doubt{}, false, unavailable("read a doubt", err)
	}
	return d, true, nil
}

// NoticeExcerpts reads the newest notices about a command, in the order in which they
// came, with at most so many bytes of each body.
func (s *Store) NoticeExcerpts(ctx context.Context, tenant string, id uuid.UUID, newest, bytes int) ([]Notice, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, event_id, received_at, matched_at, profile_version, named_by, name, weight, finding, reference, code, message, rule,
			notes, headers, substring(body FROM 1 FOR $4), body_sha256, state, effect
		FROM notices WHERE tenant = $1 AND command_id = $2 ORDER BY id DESC LIMIT $3`, tenant, id, newest, bytes)
	if err != nil {
		return nil, unavailable("read notices", err)
	}
	list, err := pgx.CollectRows(rows, scanNotice)
	if err != nil {
		return nil, unavailable("read notices", err)
	}
	slices.Reverse(list)
	return list, nil
}
