package commands

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"executor/internal/groupcommit"
	"executor/internal/postgres"
	"executor/outcome"
)

// accept writes a batch of submissions: one row each in commands and
// command_requests, and a job for those that no process claims. The unique
// constraint on (tenant, key) decides races; the loser gets the winner's
// command, or learns what differs. Keys are taken in order, so that two
// batches cannot lock each other out.
func (s *Store) accept(ctx context.Context, tx pgx.Tx, items []*entry) ([]groupcommit.Result[Accepted], error) {
	ordered := slices.Clone(items)
	slices.SortStableFunc(ordered, func(a, b *entry) int { // stable: of twins the first that came wins
		return cmp.Or(cmp.Compare(a.sub.Tenant, b.sub.Tenant), cmp.Compare(a.sub.Key, b.sub.Key))
	})
	fresh, err := s.insert(ctx, tx, ordered)
	if err != nil {
		return nil, err
	}
	if err := s.queueUnclaimed(ctx, tx, ordered, fresh); err != nil {
		return nil, err
	}
	bound, err := s.boundKeys(ctx, tx, ordered, fresh)
	if err != nil {
		return nil, err
	}
	if len(fresh) < len(items) {
		if err := confirm(ctx, tx); err != nil {
			return nil, err
		}
	}
	results := make([]groupcommit.Result[Accepted], len(items))
	for i, e := range items {
		if row, ok := fresh[e.id]; ok {
			e.accepted = row.prepared(e)
			results[i].Value = Accepted{Command: e.commandOf()}
			continue
		}
		holder, ok := bound[boundKey{e.sub.Tenant, e.sub.Key}]
		if !ok {
			return nil, fmt.Errorf("submit: key of command %s is taken by nobody", e.id)
		}
		if mismatch := s.mismatch(holder.id, holder.kept, e.sub); mismatch != nil {
			results[i].Err = mismatch
			continue
		}
		results[i].Value = Accepted{Command: Command{ID: holder.id}, Replayed: true}
	}
	return results, nil
}

// freshRow is what the database settled about a new command.
type freshRow struct {
	ID            uuid.UUID
	CreatedAt     time.Time
	Deadline      time.Time
	NextAttemptAt time.Time
}

func (r freshRow) prepared(e *entry) Prepared {
	return Prepared{
		ID: e.id, Tenant: e.sub.Tenant, UpstreamID: e.upstream.ID, Operation: e.sub.Operation, ProfileVersion: e.upstream.Version,
		Priority: priorityOf(e.sub.Priority.Number()), CreatedAt: r.CreatedAt, Deadline: r.Deadline, Due: r.NextAttemptAt,
		Request: Request{
			Method: e.request.Method, Path: e.request.Path, Headers: e.request.Headers, Body: e.request.Body, Files: e.request.Files,
			OneShot: e.kept.kind == outcome.BodyOneShot, Identity: e.request.Identity,
		},
	}
}

// insert writes the rows of new keys and returns them by id.
func (s *Store) insert(ctx context.Context, tx pgx.Tx, list []*entry) (map[uuid.UUID]freshRow, error) {
	rows, err := tx.Query(ctx, `
		WITH input AS (
			SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::int[], $7::smallint[],
				$8::timestamptz[], $9::interval[], $10::timestamptz[], $11::bigint[], $12::text[], $13::text[], $14::json[],
				$15::bytea[], $16::text[], $17::text[], $18::text[], $19::text[], $20::json[], $21::bytea[], $22::jsonb[], $23::text[], $24::text[], $25::json[], $26::bigint[])
				AS i(id, tenant, key, upstream_id, operation, profile_version, priority, deadline, timeout, not_before, claimed_by,
					method, path, headers, body, content_type, key_in, key_name, wire_key, params, field_hashes, metadata, submitted_by, body_kind, body_files,
					held_by)
		), fresh AS (
			INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, priority, created_at,
				deadline, not_before, next_attempt_at, wait_for, claimed_by, held_by)
			SELECT id, tenant, key, upstream_id, operation, profile_version, 'pending', priority, now(),
				coalesce(deadline, greatest(now(), not_before) + timeout), not_before, greatest(now(), not_before),
				CASE WHEN not_before > now() THEN 'not_before' END, claimed_by, held_by
			FROM input
			ON CONFLICT (tenant, idempotency_key) DO NOTHING
			RETURNING id, created_at, deadline, next_attempt_at
		), requests AS (
			INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name,
				wire_key, params, field_hashes, metadata, submitted_by, body_files)
			SELECT id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name,
				wire_key, params, field_hashes, metadata, submitted_by, body_files
			FROM input JOIN fresh USING (id)
		), tallied AS (
			INSERT INTO tally_deltas (tenant, upstream_id, at, what, n, stock)
			SELECT tenant, upstream_id, date_trunc('minute', now()), '`+string(TallyAccepted)+`', count(*), count(*)
			FROM input JOIN fresh USING (id) GROUP BY tenant, upstream_id
		)
		SELECT id, created_at, deadline, next_attempt_at FROM fresh`, insertColumns(list)...)
	if err != nil {
		return nil, fmt.Errorf("accept commands: %w", err)
	}
	inserted, err := pgx.CollectRows(rows, pgx.RowToStructByName[freshRow])
	if err != nil {
		return nil, fmt.Errorf("accept commands: %w", err)
	}
	fresh := make(map[uuid.UUID]freshRow, len(inserted))
	for _, r := range inserted {
		fresh[r.ID] = r
	}
	return fresh, nil
}

// insertColumns are $1 to $26 of insert, a slice each.
func insertColumns(list []*entry) []any {
	return []any{
		postgres.Column(list, func(e *entry) uuid.UUID { return e.id }),
		postgres.Column(list, func(e *entry) string { return e.sub.Tenant }),
		postgres.Column(list, func(e *entry) string { return e.sub.Key }),
		postgres.Column(list, func(e *entry) int64 { return e.upstream.ID }),
		postgres.Column(list, func(e *entry) string { return e.sub.Operation }),
		postgres.Column(list, func(e *entry) int32 { return int32(e.upstream.Version) }),
		postgres.Column(list, func(e *entry) int16 { return int16(e.sub.Priority.Number()) }),
		postgres.Column(list, func(e *entry) *time.Time { return e.deadline }),
		postgres.Column(list, func(e *entry) time.Duration { return e.timeout }),
		postgres.Column(list, func(e *entry) *time.Time { return e.sub.NotBefore }),
		postgres.Column(list, func(e *entry) *int64 { return e.claim }),
		postgres.Column(list, func(e *entry) string { return e.request.Method }),
		postgres.Column(list, func(e *entry) string { return e.request.Path }),
		postgres.Column(list, func(e *entry) string { return encodeJSON(e.request.Headers) }),
		postgres.Column(list, (*entry).storedBody),
		postgres.Column(list, func(e *entry) string { return e.request.ContentType }),
		postgres.Column(list, func(e *entry) string { return e.request.Identity.In }),
		postgres.Column(list, func(e *entry) string { return e.request.Identity.Name }),
		postgres.Column(list, func(e *entry) string { return e.request.Identity.Key }),
		postgres.Column(list, func(e *entry) string { return encodeJSON(notNil(e.sub.Params)) }),
		postgres.Column(list, func(e *entry) []byte { return e.kept.hashes }),
		postgres.Column(list, func(e *entry) string { return encodeJSON(notNil(e.sub.Metadata)) }),
		postgres.Column(list, func(e *entry) string { return e.sub.Actor }),
		postgres.Column(list, func(e *entry) string { return string(e.kept.kind) }),
		postgres.Column(list, func(e *entry) *string { return onlyIf(len(e.request.Files) > 0, encodeJSON(e.request.Files)) }),
		postgres.Column(list, func(e *entry) *int64 { return e.held }),
	}
}

// queueUnclaimed gives every new command that no process claims or holds its job.
func (s *Store) queueUnclaimed(ctx context.Context, tx pgx.Tx, list []*entry, fresh map[uuid.UUID]freshRow) error {
	var waiting []queued
	for _, e := range list {
		if row, ok := fresh[e.id]; ok && e.claim == nil && e.held == nil {
			waiting = append(waiting, queued{e.id, e.upstream.ID, priorityOf(e.sub.Priority.Number()), row.NextAttemptAt, row.CreatedAt})
		}
	}
	return s.queue(ctx, tx, waiting)
}

// queue inserts jobs for pending commands and makes them their keepers.
func (s *Store) queue(ctx context.Context, tx pgx.Tx, list []queued) error {
	if len(list) == 0 {
		return nil
	}
	params := make([]river.InsertManyParams, len(list))
	for i, q := range list {
		params[i], _ = jobFor(outcome.StatePending, q)
	}
	results, err := s.jobs.InsertManyTx(ctx, tx, params)
	if err != nil {
		return fmt.Errorf("queue commands: %w", err)
	}
	ids, jobs := make([]uuid.UUID, len(list)), make([]int64, len(list))
	for i, r := range results {
		ids[i], jobs[i] = list[i].id, r.Job.ID
	}
	_, err = tx.Exec(ctx, `
		UPDATE commands c SET job_id = q.job_id, claimed_by = NULL
		FROM unnest($1::uuid[], $2::bigint[]) AS q(id, job_id) WHERE c.id = q.id`, ids, jobs)
	if err != nil {
		return fmt.Errorf("queue commands: %w", err)
	}
	return nil
}

type boundKey struct{ tenant, key string }

type holder struct {
	id   uuid.UUID
	kept identity
}

// boundKeys reads who holds the keys that were taken.
func (s *Store) boundKeys(ctx context.Context, tx pgx.Tx, list []*entry, fresh map[uuid.UUID]freshRow) (map[boundKey]holder, error) {
	taken := slices.DeleteFunc(slices.Clone(list), func(e *entry) bool { _, ok := fresh[e.id]; return ok })
	if len(taken) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT c.tenant, c.idempotency_key, c.id, r.field_hashes, r.body_kind
		FROM commands c JOIN command_requests r ON r.command_id = c.id
		WHERE (c.tenant, c.idempotency_key) IN (SELECT * FROM unnest($1::text[], $2::text[]))`,
		postgres.Column(taken, func(e *entry) string { return e.sub.Tenant }), postgres.Column(taken, func(e *entry) string { return e.sub.Key }))
	if err != nil {
		return nil, fmt.Errorf("look up keys: %w", err)
	}
	defer rows.Close()
	bound := make(map[boundKey]holder, len(taken))
	for rows.Next() {
		var (
			k boundKey
			h holder
		)
		if err := rows.Scan(&k.tenant, &k.key, &h.id, &h.kept.hashes, &h.kept.kind); err != nil {
			return nil, fmt.Errorf("look up keys: %w", err)
		}
		bound[k] = h
	}
	return bound, rows.Err()
}
