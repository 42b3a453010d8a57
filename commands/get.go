package commands

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/postgres"
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
	BodyKind          outcome.Body
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
	Outcome           *storedOutcome
	Metadata          map[string]string
	KeyIn             string
	KeyName           string
	WireKey           string
	PausedAt          *time.Time
	ThrottledUntil    *time.Time
	Resend            Resend
	Phase             string
	Doubt             bool // there is a row of doubts
	Lookups           int
	NextLookupAt      *time.Time
	Absents           int
	Assignee          string
	Conflicts         int // findings against it that nobody has looked at
	Frozen            bool
	Deployment        string // that the data belongs to
	Now               time.Time
}

const selectCommands = `
	SELECT c.id, c.tenant, c.idempotency_key, c.upstream_id, u.name AS upstream, c.operation, c.profile_version, r.body_kind, c.state,
		c.version, c.sequence, c.priority, c.created_at, c.deadline, c.not_before, c.next_attempt_at, c.wait_for, c.attempts,
		c.cancel_requested_at, c.finalized_at, c.outcome, r.metadata, r.key_in, r.key_name, r.wire_key,
		u.paused_at, u.throttled_until, coalesce(c.resend, '') AS resend, coalesce(c.phase, '') AS phase,
		d.command_id IS NOT NULL AS doubt, coalesce(d.lookups, 0) AS lookups, d.next_at AS next_lookup_at,
		coalesce(d.absents, 0) AS absents, coalesce(d.assignee, '') AS assignee,
		(SELECT count(*) FROM findings f WHERE f.command_id = c.id AND f.effect = 'conflict' AND f.resolved_at IS NULL) AS conflicts,
		coalesce((SELECT frozen_at IS NOT NULL FROM deployment), false) AS frozen,
		coalesce((SELECT id FROM deployment), '') AS deployment, clock_timestamp() AS now
	FROM commands c
	JOIN command_requests r ON r.command_id = c.id
	JOIN upstreams u ON u.id = c.upstream_id
	LEFT JOIN doubts d ON d.command_id = c.id `

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

// read selects commands and completes them from what stands elsewhere, all of
// them at once.
func (s *Store) read(ctx context.Context, where string, args ...any) ([]Command, error) {
	rows, err := s.pool.Query(ctx, selectCommands+where, args...)
	if err != nil {
		return nil, unavailable("read commands", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[commandRow])
	if err != nil {
		return nil, unavailable("read commands", err)
	}
	for i, r := range found {
		foreign := s.deployment != "" && r.Deployment != s.deployment // this process sends nothing of it
		found[i].Frozen = r.Frozen || foreign
	}
	around, err := s.lookAround(ctx, found)
	if err != nil {
		return nil, unavailable("read commands", err)
	}
	list := make([]Command, len(found))
	for i, r := range found {
		if list[i], err = s.complete(ctx, r, around); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// surroundings are what stands elsewhere about some commands.
type surroundings struct {
	history map[uuid.UUID][]Past
	results map[uuid.UUID]Result // the parts of a result that its attempt keeps
	open    map[int64]int        // open attempts by upstream, counted where somebody asks
}

func (s *Store) lookAround(ctx context.Context, found []commandRow) (around surroundings, err error) {
	var (
		tried []uuid.UUID
		done  []commandRow
	)
	for _, r := range found {
		if r.Attempts > 0 {
			tried = append(tried, r.ID)
		}
		if r.Outcome != nil && r.Outcome.State == outcome.StateSuccess && r.Outcome.Attempt > 0 {
			done = append(done, r)
		}
	}
	around.open = make(map[int64]int)
	if around.history, err = s.History(ctx, s.pool, tried); err != nil {
		return around, err
	}
	around.results, err = s.results(ctx, done)
	return around, err
}

func (s *Store) complete(ctx context.Context, r commandRow, around surroundings) (Command, error) {
	terms, err := s.terms(ctx, r.UpstreamID, r.ProfileVersion, r.Operation)
	if err != nil {
		return Command{}, err
	}
	c := Command{
		ID: r.ID, Tenant: r.Tenant, Key: r.IdempotencyKey, UpstreamID: r.UpstreamID, Upstream: r.Upstream, Operation: r.Operation,
		ProfileVersion: r.ProfileVersion, BodyKind: r.BodyKind, State: r.State, Version: r.Version, Sequence: r.Sequence, Priority: priorityOf(int(r.Priority)),
		CreatedAt: r.CreatedAt, Deadline: r.Deadline, NotBefore: r.NotBefore, NextAttemptAt: r.NextAttemptAt, FinalizedAt: r.FinalizedAt,
		CancelRequested: r.CancelRequestedAt != nil, Attempts: r.Attempts, Metadata: r.Metadata,
		Record: Record{
			Record:   outcome.RecordOf(terms.Contract.Idempotency, r.attemptsSoFar(around.history[r.ID])),
			Identity: upstreams.Identity{In: r.KeyIn, Name: r.KeyName, Key: r.WireKey},
		},
	}
	if r.Outcome != nil {
		result := around.results[r.ID]
		result.Headers = onlyHeaders(result.Headers, terms.resultHeaders)
		c.Outcome = r.Outcome.view(result)
	}
	c.Reconciliation = r.reconciliation()
	if r.State == outcome.StatePending {
		c.Waiting, err = s.waiting(ctx, r, around.open)
	}
	return c, err
}

// PhaseClosed is the phase of a doubt that is settled; the others are next actions.
const PhaseClosed = "closed"

// reconciliation is where the doubt stands, if there ever was one, and whether
// anything contradicts what was settled.
func (r commandRow) reconciliation() *Reconciliation {
	if !r.Doubt && r.Phase == "" && r.Conflicts == 0 {
		return nil
	}
	rec := &Reconciliation{
		Phase: r.Phase, Lookups: r.Lookups, NextLookupAt: r.NextLookupAt, AbsentInARow: r.Absents, Assignee: r.Assignee,
		Conflicts: r.Conflicts,
	}
	switch {
	case r.State.Absorbing():
		rec.Phase = PhaseClosed
	case r.Resend == ResendOperator:
		rec.Phase = string(outcome.NextActionReview)
	case r.Phase == "": // sent once more, by a confirmed absence or to ask by a repeat
		rec.Phase = string(outcome.NextActionLookup)
	}
	return rec
}

// attemptsSoFar are the ended attempts and, while one is open, what would be known
// of it if its process died now.
func (r commandRow) attemptsSoFar(past []Past) []outcome.Attempt {
	attempts := attemptsOf(past)
	if r.State == outcome.StateExecuting {
		attempts = append(attempts, outcome.Attempt{StartedAt: r.Now, EndedAt: r.Now, Evidence: outcome.EvidenceSentNoResponse})
	}
	return attempts
}

// onlyHeaders keeps the headers that the profile names as part of a result. The
// attempt shows them all.
func onlyHeaders(headers http.Header, names []string) http.Header {
	kept := http.Header{}
	for _, name := range names {
		if values := headers.Values(name); len(values) > 0 {
			kept[http.CanonicalHeaderKey(name)] = values
		}
	}
	return kept
}

// results reads the responses behind successes: of the attempt that brought it,
// or what came late of it.
func (s *Store) results(ctx context.Context, done []commandRow) (map[uuid.UUID]Result, error) {
	if len(done) == 0 {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, `
		SELECT a.command_id, a.response_headers, f.observation, coalesce(f.body, a.response_body), a.response_truncated
		FROM unnest($1::uuid[], $2::int[]) AS done(id, number)
		JOIN attempts a ON a.command_id = done.id AND a.number = done.number
		LEFT JOIN LATERAL (
			SELECT * FROM findings f
			WHERE f.command_id = a.command_id AND f.attempt_number = a.number AND f.source = 'late_evidence'
			ORDER BY f.id DESC LIMIT 1) f ON true`,
		postgres.Column(done, func(r commandRow) uuid.UUID { return r.ID }), postgres.Column(done, func(r commandRow) int32 { return int32(r.Outcome.Attempt) }))
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	results := make(map[uuid.UUID]Result, len(done))
	var (
		id      uuid.UUID
		headers http.Header
		late    *struct {
			Headers   http.Header `json:"response_headers"`
			Truncated bool        `json:"truncated"`
		}
		body []byte
		cut  bool
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &headers, &late, &body, &cut}, func() error {
		if late != nil && late.Headers != nil {
			headers, cut = late.Headers, late.Truncated
		}
		results[id] = Result{Headers: headers, ContentType: headers.Get("Content-Type"), Body: body, Incomplete: cut}
		headers, late, body = nil, nil, nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	return results, nil
}
