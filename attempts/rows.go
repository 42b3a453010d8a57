package attempts

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
)

// endColumns are the columns that an attempt's end fills, in the order of
// endValues.
const (
	endColumns = `ended_at, evidence, stage, category, detail, answer, status, boundary, rule, decision, reason, wait_ms, retry_at,
		retry_after, refreshed_auth, bytes_handed_over, response_headers, response_body, response_truncated, response_sha256,
		response_bytes, reference, rejection_code, rejection_message, addresses, timings, remote, protocol, reused,
		budget_tokens, notes, link`
	endTypes = `$3::timestamptz[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::int[], $10::text[], $11::int[],
		$12::text[], $13::text[], $14::bigint[], $15::timestamptz[], $16::text[], $17::bool[], $18::bigint[], $19::json[],
		$20::bytea[], $21::bool[], $22::bytea[], $23::bigint[], $24::text[], $25::text[], $26::text[], $27::json[], $28::json[],
		$29::text[], $30::text[], $31::bool[], $32::float8[], $33::json[], $34::text[]`
)

// endValues are $1 (command), $2 (number) and the columns of endColumns.
func endValues(list []*ending) []any {
	text := func(value func(*ending) string) []string {
		return postgres.Column(list, func(e *ending) string { return commands.CleanText(value(e)) })
	}
	return []any{
		postgres.Column(list, func(e *ending) uuid.UUID { return e.command.ID }),
		postgres.Column(list, func(e *ending) int32 { return int32(e.number()) }),
		postgres.Column(list, (*ending).endedAt),
		text(func(e *ending) string { return string(e.report.Evidence) }),
		text(func(e *ending) string { return string(e.report.Stage) }),
		text(func(e *ending) string { return string(e.report.Category) }),
		text(func(e *ending) string { return e.report.Detail }),
		text(func(e *ending) string { return string(e.report.Answer) }),
		postgres.Column(list, func(e *ending) int32 { return int32(e.report.Status) }),
		text(func(e *ending) string { return string(e.decision.AttemptBoundary) }),
		postgres.Column(list, func(e *ending) int32 { return int32(e.decision.Rule) }),
		text(func(e *ending) string { return string(e.decision.Verdict) }),
		text(func(e *ending) string { return string(e.decision.Reason) }),
		postgres.Column(list, (*ending).waitMS),
		postgres.Column(list, (*ending).retryAt),
		text(func(e *ending) string { return e.report.RetryAfter }),
		postgres.Column(list, func(e *ending) bool { return e.report.RefreshedAuth }),
		postgres.Column(list, func(e *ending) int64 { return e.report.BytesHandedOver }),
		postgres.Column(list, func(e *ending) *string { return e.report.ResponseHeaders }),
		postgres.Column(list, func(e *ending) []byte { return e.report.ResponseBody }),
		postgres.Column(list, func(e *ending) bool { return e.report.Truncated }),
		postgres.Column(list, func(e *ending) []byte { return e.report.ResponseSHA256 }),
		postgres.Column(list, func(e *ending) int64 { return e.report.ResponseBytes }),
		text(func(e *ending) string { return e.report.Reference }),
		text(func(e *ending) string { return e.report.Code }),
		text(func(e *ending) string { return e.report.Message }),
		postgres.Column(list, func(e *ending) *string { return e.report.Addresses }),
		postgres.Column(list, func(e *ending) *string { return e.report.Timings }),
		text(func(e *ending) string { return e.report.Remote }),
		text(func(e *ending) string { return e.report.Protocol }),
		postgres.Column(list, func(e *ending) bool { return e.report.Reused }),
		postgres.Column(list, func(e *ending) float64 { return e.tokens }),
		postgres.Column(list, (*ending).notes),
		text(func(e *ending) string { return e.report.Link }),
	}
}

// qualified names each column of a list as e's.
func qualified(columns string) string {
	names := strings.Split(columns, ",")
	for i, name := range names {
		names[i] = "e." + strings.TrimSpace(name)
	}
	return strings.Join(names, ", ")
}

// closeOpen writes the ends of attempts that were begun.
func (s *Store) closeOpen(ctx context.Context, tx pgx.Tx, list []*ending) error {
	if len(list) == 0 {
		return nil
	}
	tag, err := tx.Exec(ctx, `
		UPDATE attempts a SET (`+endColumns+`) = ROW (`+qualified(endColumns)+`)
		FROM unnest($1::uuid[], $2::int[], `+endTypes+`) AS e(command_id, number, `+endColumns+`)
		WHERE a.command_id = e.command_id AND a.number = e.number AND a.ended_at IS NULL`, endValues(list)...)
	if err != nil {
		return fmt.Errorf("close attempts: %w", err)
	}
	if tag.RowsAffected() != int64(len(list)) {
		return fmt.Errorf("close attempts: %w", ErrFenced)
	}
	return nil
}

// insertUnsent writes attempts that never began: their start and end at once.
func (s *Store) insertUnsent(ctx context.Context, tx pgx.Tx, list []*ending) error {
	if len(list) == 0 {
		return nil
	}
	epoch, _, _ := s.lease.Held()
	values := append(endValues(list),
		postgres.Column(list, func(e *ending) string { return e.command.Tenant }),
		postgres.Column(list, func(e *ending) int64 { return e.command.UpstreamID }),
		postgres.Column(list, func(e *ending) int32 { return int32(e.command.ProfileVersion) }),
		postgres.Column(list, func(e *ending) time.Time { return e.startedAt }),
		postgres.Column(list, func(e *ending) string { return e.report.Start.Request }),
		postgres.Column(list, func(e *ending) int64 { return e.report.Start.BytesTotal }),
		postgres.Column(list, func(e *ending) []byte { return e.report.Start.BodySHA256 }),
		postgres.Column(list, func(e *ending) int64 { return e.command.Deadline.Sub(e.command.Now).Milliseconds() }),
		postgres.Column(list, func(e *ending) time.Time { return e.latestEnd }),
		epoch, s.instance)
	_, err := tx.Exec(ctx, `
		INSERT INTO attempts (command_id, number, `+endColumns+`, tenant, upstream_id, profile_version, started_at, send_deadline,
			latest_end, request, bytes_total, body_sha256, deadline_left_ms, epoch, instance)
		SELECT command_id, number, `+endColumns+`, tenant, upstream_id, profile_version, started_at, ended_at, greatest(latest_end, ended_at), request,
			bytes_total, body_sha256, deadline_left_ms, $44, $45
		FROM unnest($1::uuid[], $2::int[], `+endTypes+`, $35::text[], $36::bigint[], $37::int[], $38::timestamptz[], $39::json[],
			$40::bigint[], $41::bytea[], $42::bigint[], $43::timestamptz[])
			AS e(command_id, number, `+endColumns+`, tenant, upstream_id, profile_version, started_at, request, bytes_total,
				body_sha256, deadline_left_ms, latest_end)`, values...)
	if err != nil {
		return fmt.Errorf("record unsent attempts: %w", err)
	}
	return nil
}
