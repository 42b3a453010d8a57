package commands

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// attemptRow is a row of the table attempts.
type attemptRow struct {
	Number            int
	Epoch             int64
	Instance          string
	ProfileVersion    int
	StartedAt         time.Time
	SendDeadline      time.Time
	LatestEnd         time.Time
	EndedAt           *time.Time
	Evidence          outcome.Evidence
	Stage             outcome.Stage
	Category          outcome.Category
	Detail            string
	Answer            outcome.Answer
	Status            int
	Boundary          outcome.Boundary
	SettledBy         string
	Rule              int
	Decision          outcome.Verdict
	Reason            outcome.Reason
	WaitMs            *int64
	RetryAt           *time.Time
	RefreshedAuth     bool
	Request           string
	BytesTotal        int64
	BytesHandedOver   int64
	BodySha256        []byte
	ResponseHeaders   *string
	ResponseBody      []byte
	ResponseTruncated bool
	ResponseSha256    []byte
	ResponseBytes     int64
	Reference         string
	RejectionCode     string
	RejectionMessage  string
	Addresses         *string
	Timings           *string
	Remote            string
	Protocol          string
	Reused            bool
	DeadlineLeftMs    int64
	BudgetTokens      float64
	Notes             *string
}

// Attempts reads a command's attempts as they stand on record, oldest first.
func (s *Store) Attempts(ctx context.Context, tenant string, id uuid.UUID) ([]Attempt, error) {
	var known bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM commands WHERE tenant = $1 AND id = $2)`, tenant, id).Scan(&known)
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	if !known {
		return nil, ErrNotFound
	}
	rows, err := s.pool.Query(ctx, `
		SELECT number, epoch, instance, profile_version, started_at, send_deadline, latest_end, ended_at,
			coalesce(evidence, '') AS evidence, stage, category, detail, answer, status, boundary, settled_by, rule, decision,
			reason, wait_ms, retry_at, refreshed_auth, request::text AS request, bytes_total, bytes_handed_over, body_sha256,
			response_headers::text AS response_headers, response_body, response_truncated, response_sha256, response_bytes,
			reference, rejection_code, rejection_message, addresses::text AS addresses, timings::text AS timings, remote,
			protocol, reused, deadline_left_ms, budget_tokens, notes::text AS notes
		FROM attempts WHERE tenant = $1 AND command_id = $2 ORDER BY number`, tenant, id)
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[attemptRow])
	if err != nil {
		return nil, unavailable("read attempts", err)
	}
	list := make([]Attempt, len(found))
	for i, r := range found {
		list[i] = r.attempt()
	}
	return list, nil
}

func (r attemptRow) attempt() Attempt {
	a := Attempt{
		Number: r.Number, Epoch: r.Epoch, Instance: r.Instance, ProfileVersion: r.ProfileVersion, StartedAt: r.StartedAt,
		SendDeadline: r.SendDeadline, LatestEnd: r.LatestEnd, EndedAt: r.EndedAt, Evidence: r.Evidence, Stage: r.Stage,
		Category: r.Category, Detail: r.Detail, Answer: r.Answer, Status: r.Status, Boundary: r.Boundary, SettledBy: r.SettledBy,
		Rule: r.Rule, Decision: r.Decision, Reason: r.Reason, WaitMS: r.WaitMs, RetryAt: r.RetryAt, RefreshedAuth: r.RefreshedAuth,
		BytesTotal: r.BytesTotal, BytesHandedOver: r.BytesHandedOver, BodySHA256: r.BodySha256, ResponseBody: r.ResponseBody,
		ResponseTruncated: r.ResponseTruncated, ResponseSHA256: r.ResponseSha256, ResponseBytes: r.ResponseBytes,
		Reference: r.Reference, RejectionCode: r.RejectionCode, RejectionMessage: r.RejectionMessage, Remote: r.Remote,
		Protocol: r.Protocol, Reused: r.Reused, DeadlineLeftMS: r.DeadlineLeftMs, BudgetTokens: r.BudgetTokens,
	}
	decodeInto(&r.Request, &a.Request)
	decodeInto(r.ResponseHeaders, (*map[string][]string)(&a.ResponseHeaders))
	decodeInto(r.Addresses, &a.Addresses)
	decodeInto(r.Timings, &a.Timings)
	decodeInto(r.Notes, &a.Notes)
	return a
}

// decodeInto reads a json column that this program wrote; NULL leaves zero.
func decodeInto(text *string, v any) {
	if text != nil {
		_ = json.Unmarshal([]byte(*text), v)
	}
}
