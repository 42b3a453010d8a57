package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
	"executor/upstreams"
)

// Past is one ended attempt as the rules see it: what was recorded, with the
// newest late evidence laid over it.
type Past struct {
	Number    int
	LatestEnd time.Time
	Reference string
	Code      string
	Message   string
	Wait      time.Duration // decided after it, before the next one
	outcome.Attempt
}

// Querier reads, in a transaction or outside one.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// History reads the ended attempts of commands, oldest first.
func (s *Store) History(ctx context.Context, q Querier, ids []uuid.UUID) (map[uuid.UUID][]Past, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := q.Query(ctx, `
		SELECT a.command_id, a.number, a.started_at, a.ended_at, a.latest_end, a.refreshed_auth, a.settled_by <> '',
			coalesce(f.evidence, a.evidence), coalesce(f.category, a.category), coalesce(f.answer, a.answer),
			coalesce(f.status, a.status), coalesce(f.retry_after, a.retry_after), coalesce(f.reference, a.reference),
			coalesce(f.code, a.rejection_code), coalesce(f.message, a.rejection_message), coalesce(a.wait_ms, 0)
		FROM attempts a
		LEFT JOIN LATERAL (
			SELECT * FROM findings f
			WHERE f.command_id = a.command_id AND f.attempt_number = a.number AND f.source = 'late_evidence'
			ORDER BY f.id DESC LIMIT 1) f ON true
		WHERE a.command_id = ANY($1) AND a.ended_at IS NOT NULL
		ORDER BY a.command_id, a.number`, ids)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	defer rows.Close()
	history := make(map[uuid.UUID][]Past, len(ids))
	for rows.Next() {
		var (
			id     uuid.UUID
			p      Past
			waitMS int64
		)
		err := rows.Scan(&id, &p.Number, &p.StartedAt, &p.EndedAt, &p.LatestEnd, &p.RefreshedAuth, &p.Settled,
			&p.Evidence, &p.Category, &p.Answer, &p.Status, &p.RetryAfter, &p.Reference, &p.Code, &p.Message, &waitMS)
		if err != nil {
			return nil, fmt.Errorf("read attempts: %w", err)
		}
		p.Wait = time.Duration(waitMS) * time.Millisecond
		history[id] = append(history[id], p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	return history, nil
}

// FactsOf gathers what the rules ask about a command.
func FactsOf(t Terms, c Locked, past []Past) outcome.Facts {
	f := outcome.Facts{
		Now: c.Now, Deadline: c.Deadline, Operation: t.Contract, Retry: t.Policy, Body: c.body(),
		OutcomeDelivered: c.Sequence > 0, CancelRequested: c.CancelRequestedAt != nil, Attempts: attemptsOf(past),
	}
	if len(past) > 1 {
		f.PreviousWait = past[len(past)-2].Wait
	}
	return f
}

// body is how often the body can be sent, as far as the rules ask: a file is opened
// again as stored bytes are read again.
func (c Locked) body() outcome.Body {
	if c.HeldBy != nil {
		return outcome.BodyOneShot
	}
	return outcome.BodyReplayable
}

// FactsBefore are the facts before an attempt. What allows one more attempt of a
// command that had its outcome is for this attempt alone: after it the outcome
// counts as delivered again, so that no other follows. An absence's resend keeps to
// the policy's own number of attempts.
func FactsBefore(t Terms, c Locked, past []Past) outcome.Facts {
	f := FactsOf(t, c, past)
	if c.Resend == "" {
		return f
	}
	f.OutcomeDelivered = false
	if c.Resend != ResendAbsence {
		f.Retry.MaxAttempts = max(f.Retry.MaxAttempts, len(past)+1)
	}
	return f
}

// InDoubt reports whether any of the attempts may have acted, by its own evidence: also
// one that an absence has settled, since what is learnt now may deny the absence.
func InDoubt(k outcome.Idempotency, past []Past) bool {
	attempts := attemptsOf(past)
	for i := range attempts {
		attempts[i].Settled = false
	}
	return outcome.BoundaryOver(k, attempts) != outcome.BoundaryNotCrossed
}

func attemptsOf(past []Past) []outcome.Attempt {
	attempts := make([]outcome.Attempt, len(past))
	for i, p := range past {
		attempts[i] = p.Attempt
	}
	return attempts
}

// FinalOf completes an outcome with the answer that gave it: the last applied
// attempt for a success, the last attempt for a rejection.
func FinalOf(out outcome.Outcome, stopped outcome.Reason, by outcome.DecidedBy, past []Past) *Final {
	f := &Final{Outcome: out, StoppedBy: stopped, DecidedBy: by}
	if out.State == outcome.StateUnresolved {
		f.AskAt = askAt(past)
		return f
	}
	for i := len(past) - 1; i >= 0; i-- {
		p := past[i]
		if out.State == outcome.StateSuccess && p.GivenAnswer() != outcome.AnswerApplied {
			continue
		}
		if out.State == outcome.StateSuccess || out.State == outcome.StateRejected {
			f.Answer = AnswerGiven{Attempt: p.Number, Status: p.Status, Reference: p.Reference, Code: p.Code, Message: p.Message}
		}
		break
	}
	return f
}

// askAt is when an upstream that is busy, or still at work, wants to be asked again, by
// the last attempt's answer.
func askAt(past []Past) time.Time {
	if len(past) == 0 {
		return time.Time{}
	}
	p := past[len(past)-1]
	busy := p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable
	wait, ok := outcome.RetryAfter(p.RetryAfter, p.EndedAt)
	if !ok || !busy && p.GivenAnswer() != outcome.AnswerPending {
		return time.Time{}
	}
	return p.EndedAt.Add(wait)
}

// Operation finds the operation of an accepted command in the version of its
// profile that it pinned.
func (s *Store) Operation(ctx context.Context, upstreamID int64, version int, name string) (*upstreams.Operation, error) {
	op, _, err := s.operation(ctx, upstreamID, version, name)
	return op, err
}

func (s *Store) operation(ctx context.Context, upstreamID int64, version int, name string) (*upstreams.Operation, *upstreams.Profile, error) {
	p, err := s.upstreams.Profile(ctx, upstreamID, version)
	if err != nil {
		return nil, nil, fmt.Errorf("profile version %d of upstream %d: %w", version, upstreamID, err)
	}
	op, ok := p.Operation(name)
	if !ok {
		return nil, nil, fmt.Errorf("profile version %d of upstream %d has no operation %q", version, upstreamID, name)
	}
	return op, p, nil
}

// Terms are what the rules ask of an accepted command's profile.
type Terms struct {
	Contract outcome.Operation
	Policy   outcome.Retry

	resultHeaders []string // those of the response that a result shows
	deadline      time.Duration
	total         time.Duration    // of one attempt
	schedule      outcome.Schedule // of lookups, where there are any
	announceAfter *time.Duration
}

// Deadline is how long a command has from the moment on that it may be sent.
func (t Terms) Deadline() time.Duration { return t.deadline }

// announcePendingAfter is how long an unresolved outcome is held back where the
// upstream accepted the command and can be asked: most such doubts end sooner.
const announcePendingAfter = 30 * time.Second

// hold is how long nobody is told of an unresolved outcome.
func (t Terms) hold(reason outcome.OutcomeReason) time.Duration {
	switch {
	case t.announceAfter != nil:
		return *t.announceAfter
	case reason == outcome.OutcomeReasonRemotePending && t.Contract.HasLookup:
		return announcePendingAfter
	default:
		return 0
	}
}

// Terms are those of the version that the command pinned. A profile that can no
// longer be read, after an upgrade for instance, promises nothing and permits no
// further attempt: it keeps no command from being read and none from its end.
func (s *Store) Terms(ctx context.Context, c Locked) (Terms, error) {
	return s.terms(ctx, c.UpstreamID, c.ProfileVersion, c.Operation)
}

func (s *Store) terms(ctx context.Context, upstreamID int64, version int, operation string) (Terms, error) {
	op, profile, err := s.operation(ctx, upstreamID, version, operation)
	var unreadable *upstreams.ParseError
	switch {
	case errors.As(err, &unreadable):
		return Terms{Contract: outcome.Operation{Idempotency: outcome.IdempotencyNone}, Policy: outcome.Retry{MaxAttempts: 1}}, nil
	case err != nil:
		return Terms{}, err
	default:
		t := Terms{
			Contract: op.Contract(), Policy: op.Policy(), resultHeaders: op.Result.Headers, deadline: profile.Deadline, total: op.Timeouts.Total,
			announceAfter: profile.AnnounceUnresolvedAfter,
		}
		if len(op.Lookups) > 0 {
			t.schedule = outcome.Schedule(op.Lookups[0].Schedule)
		}
		return t, nil
	}
}
