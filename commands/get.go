package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
	"executor/upstreams"
)

// commandRow is a command with what readers want of its neighbours.
type commandRow struct {
	ID                uuid.UUID
	Tenant            string
	IdempotencyKey    string
	UpstreamID        int64
	Upstream          string
	Operation         string
	ProfileVersion    int
	State             outcome.State
	Version           int
	Sequence          int
	Priority          int16
	CreatedAt         time.Time
	Deadline          time.Time
	NotBefore         *time.Time
	NextAttemptAt     *time.Time
	WaitFor           *WaitFor
	Attempts          int
	CancelRequestedAt *time.Time
	FinalizedAt       *time.Time
	Outcome           *string
	Metadata          map[string]string
	KeyIn             string
	KeyName           string
	WireKey           string
	PausedAt          *time.Time
	ThrottledUntil    *time.Time
	Frozen            bool
	Now               time.Time
}

const selectCommands = `
	SELECT c.id, c.tenant, c.idempotency_key, c.upstream_id, u.name AS upstream, c.operation, c.profile_version, c.state,
		c.version, c.sequence, c.priority, c.created_at, c.deadline, c.not_before, c.next_attempt_at, c.wait_for, c.attempts,
		c.cancel_requested_at, c.finalized_at, c.outcome::text AS outcome, r.metadata, r.key_in, r.key_name, r.wire_key,
		u.paused_at, u.throttled_until,
		coalesce((SELECT frozen_at IS NOT NULL FROM deployment), false) AS frozen, clock_timestamp() AS now
	FROM commands c
	JOIN command_requests r ON r.command_id = c.id
	JOIN upstreams u ON u.id = c.upstream_id `

// Get reads one command of a tenant. Another tenant's id is ErrNotFound.
func (s *Store) Get(ctx context.Context, tenant string, id uuid.UUID) (Command, error) {
	list, err := s.read(ctx, `WHERE c.tenant = $1 AND c.id = $2`, tenant, id)
	if err != nil {
		return Command{}, err
	}
	if len(list) == 0 {
		return Command{}, ErrNotFound
	}
	return list[0], nil
}

// read selects commands and completes them from their attempts.
func (s *Store) read(ctx context.Context, where string, args ...any) ([]Command, error) {
	rows, err := s.pool.Query(ctx, selectCommands+where, args...)
	if err != nil {
		return nil, unavailable("read commands", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[commandRow])
	if err != nil {
		return nil, unavailable("read commands", err)
	}
	var tried []uuid.UUID
	for _, r := range found {
		if r.Attempts > 0 {
			tried = append(tried, r.ID)
		}
	}
	history, err := s.History(ctx, s.pool, tried)
	if err != nil {
		return nil, unavailable("read commands", err)
	}
	list := make([]Command, len(found))
	for i, r := range found {
		if list[i], err = s.complete(ctx, r, history[r.ID]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *Store) complete(ctx context.Context, r commandRow, past []Past) (Command, error) {
	c := Command{
		ID: r.ID, Tenant: r.Tenant, Key: r.IdempotencyKey, UpstreamID: r.UpstreamID, Upstream: r.Upstream, Operation: r.Operation,
		ProfileVersion: r.ProfileVersion, State: r.State, Version: r.Version, Sequence: r.Sequence, Priority: priorityOf(int(r.Priority)),
		CreatedAt: r.CreatedAt, Deadline: r.Deadline, NotBefore: r.NotBefore, NextAttemptAt: r.NextAttemptAt, FinalizedAt: r.FinalizedAt,
		CancelRequested: r.CancelRequestedAt != nil, Attempts: r.Attempts, Metadata: r.Metadata,
	}
	op, err := s.Operation(ctx, r.UpstreamID, r.ProfileVersion, r.Operation)
	if err != nil {
		return Command{}, err
	}
	c.Record = Record{
		Record:   outcome.RecordOf(op.Contract().Idempotency, attemptsOf(past)),
		Identity: upstreams.Identity{In: r.KeyIn, Name: r.KeyName, Key: r.WireKey},
	}
	if r.Outcome != nil {
		if err := s.completeOutcome(ctx, &c, *r.Outcome); err != nil {
			return Command{}, err
		}
	}
	if c.State == outcome.StatePending {
		c.Waiting, err = s.waiting(ctx, r)
	}
	return c, err
}

// completeOutcome decodes the stored outcome and adds a result's body, which
// stays on the attempt that brought it.
func (s *Store) completeOutcome(ctx context.Context, c *Command, stored string) error {
	var o storedOutcome
	if err := json.Unmarshal([]byte(stored), &o); err != nil {
		return fmt.Errorf("decode outcome of command %s: %w", c.ID, err)
	}
	c.Outcome = o.view()
	if o.State == outcome.StateUnresolved {
		c.Reconciliation = &Reconciliation{Phase: string(o.NextAction)}
	}
	if c.Outcome.Result == nil || o.Attempt == 0 {
		return nil
	}
	var headers *string
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce(f.observation ->> 'response_headers', a.response_headers::text), coalesce(f.body, a.response_body)
		FROM attempts a
		LEFT JOIN LATERAL (SELECT * FROM findings f WHERE f.command_id = a.command_id AND f.attempt_number = a.number
			AND f.source = 'late_evidence' ORDER BY f.id DESC LIMIT 1) f ON true
		WHERE a.command_id = $1 AND a.number = $2`, c.ID, o.Attempt).Scan(&headers, &c.Outcome.Result.Body)
	if err != nil {
		return unavailable(fmt.Sprintf("read result of command %s", c.ID), err)
	}
	if headers != nil {
		h := http.Header{}
		if err := json.Unmarshal([]byte(*headers), &h); err == nil {
			c.Outcome.Result.Headers, c.Outcome.Result.ContentType = h, h.Get("Content-Type")
		}
	}
	return nil
}

// waiting says what a pending command waits for. What stops everybody comes
// first: it holds longest.
func (s *Store) waiting(ctx context.Context, r commandRow) (*Waiting, error) {
	switch {
	case r.Frozen:
		return &Waiting{For: WaitFrozen}, nil
	case r.PausedAt != nil:
		return &Waiting{For: WaitPaused}, nil
	case r.NextAttemptAt.After(r.Now):
		w := &Waiting{For: WaitBackoff, Until: r.NextAttemptAt}
		if r.WaitFor != nil {
			w.For = *r.WaitFor
		}
		return w, nil
	case r.ThrottledUntil != nil && r.ThrottledUntil.After(r.Now):
		return &Waiting{For: WaitThrottle, Until: r.ThrottledUntil}, nil
	case r.WaitFor != nil && *r.WaitFor == WaitCredential:
		return &Waiting{For: WaitCredential}, nil
	}
	return s.waitingInLine(ctx, r)
}

// waitingInLine tells a command that is due and not yet started whether it is
// the permits or the rate that it waits for.
func (s *Store) waitingInLine(ctx context.Context, r commandRow) (*Waiting, error) {
	up, err := s.upstreams.Latest(ctx, r.Tenant, r.Upstream)
	if err != nil {
		return nil, unavailable("read upstream", err)
	}
	if up.Profile.Limits.Rate == nil {
		return &Waiting{For: WaitPermit}, nil
	}
	var open int
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM attempts WHERE ended_at IS NULL AND upstream_id = $1`, r.UpstreamID).Scan(&open)
	if err != nil {
		return nil, unavailable("count open attempts", err)
	}
	if open >= up.Profile.Limits.MaxInFlight {
		return &Waiting{For: WaitPermit}, nil
	}
	return &Waiting{For: WaitRate}, nil
}

// boundTo finds the command that a key is bound to, and its field hashes.
func (s *Store) boundTo(ctx context.Context, tenant, key string) (uuid.UUID, []byte, error) {
	var (
		id     uuid.UUID
		hashes []byte
	)
	err := s.pool.QueryRow(ctx, `
		SELECT c.id, r.field_hashes FROM commands c JOIN command_requests r ON r.command_id = c.id
		WHERE c.tenant = $1 AND c.idempotency_key = $2`, tenant, key).Scan(&id, &hashes)
	if errors.Is(err, pgx.ErrNoRows) {
		return id, nil, ErrNotFound
	}
	if err != nil {
		return id, nil, unavailable("look up key", err)
	}
	return id, hashes, nil
}

// unavailable wraps a failed read: whoever asked may ask again.
func unavailable(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}
