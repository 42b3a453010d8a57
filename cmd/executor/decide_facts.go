package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"executor/outcome"
)

// factsJSON is one input line of decide.
type factsJSON struct {
	Now       string        `json:"now"`
	Deadline  string        `json:"deadline"`
	Operation operationJSON `json:"operation"`
	Retry     retryJSON     `json:"retry"`
	Body      string        `json:"body"`

	BudgetTokens *float64 `json:"budget_tokens"`
	NextTokenIn  string   `json:"next_token_in"`

	Draining         bool          `json:"draining"`
	OutcomeDelivered bool          `json:"outcome_delivered"`
	CancelRequested  bool          `json:"cancel_requested"`
	Attempts         []attemptJSON `json:"attempts"`
}

type operationJSON struct {
	Idempotency           string `json:"idempotency"`
	Retention             string `json:"retention"`
	RetentionMargin       string `json:"retention_margin"`
	AuthoritativeRefusals []int  `json:"authoritative_refusals"`
	StoresErrors          bool   `json:"stores_errors"`
	HasLookup             bool   `json:"has_lookup"`
	CanRefreshAuth        bool   `json:"can_refresh_auth"`
}

type retryJSON struct {
	MaxAttempts      *int   `json:"max_attempts"`
	MinAttemptWindow string `json:"min_attempt_window"`
	Backoff          struct {
		Initial string `json:"initial"`
		Max     string `json:"max"`
		Jitter  string `json:"jitter"`
	} `json:"backoff"`
	TransientStatuses []int  `json:"transient_statuses"`
	WhenBudgetEmpty   string `json:"when_budget_empty"`
}

type attemptJSON struct {
	StartedAt     string `json:"started_at"`
	EndedAt       string `json:"ended_at"`
	Evidence      string `json:"evidence"`
	Category      string `json:"category"`
	Status        int    `json:"status"`
	Answer        string `json:"answer"`
	RetryAfter    string `json:"retry_after"`
	RefreshedAuth bool   `json:"refreshed_auth"`
	Settled       bool   `json:"settled"`
}

// decisionJSON is one output line of decide.
type decisionJSON struct {
	Decision        outcome.Verdict       `json:"decision"`
	Rule            int                   `json:"rule"`
	Reason          outcome.Reason        `json:"reason"`
	RetryAt         string                `json:"retry_at,omitempty"`
	AttemptBoundary outcome.Boundary      `json:"attempt_boundary"`
	Boundary        outcome.Boundary      `json:"boundary"`
	State           outcome.State         `json:"state"`
	OutcomeReason   outcome.OutcomeReason `json:"outcome_reason"`
	SafeToResubmit  *bool                 `json:"safe_to_resubmit"`
	NextAction      outcome.NextAction    `json:"next_action"`
	Incomplete      bool                  `json:"incomplete,omitempty"`
	Notes           []string              `json:"notes,omitempty"`
}

func newDecisionJSON(d outcome.Decision) decisionJSON {
	out := decisionJSON{
		Decision:        d.Verdict,
		Rule:            d.Rule,
		Reason:          d.Reason,
		AttemptBoundary: d.AttemptBoundary,
		Boundary:        d.Boundary,
		Notes:           d.Notes,
	}
	if !d.RetryAt.IsZero() {
		out.RetryAt = d.RetryAt.UTC().Format(time.RFC3339Nano)
	}
	if o := d.Outcome; o != nil {
		out.State, out.OutcomeReason, out.NextAction, out.Incomplete = o.State, o.Reason, o.NextAction, o.Incomplete
		out.SafeToResubmit = &o.SafeToResubmit
	}
	return out
}

// parseFacts reads one line of facts. Its error names every member that is
// wrong, in one line.
func parseFacts(line []byte) (outcome.Facts, error) {
	var in factsJSON
	if err := parseStrict(line, &in); err != nil {
		return outcome.Facts{}, err
	}
	var r factsReader
	facts := r.facts(in)
	if len(r.wrong) > 0 {
		return outcome.Facts{}, errors.New(strings.Join(r.wrong, "; "))
	}
	return facts, nil
}

// factsReader turns JSON into facts and collects what is wrong with it.
type factsReader struct{ wrong []string }

func (r *factsReader) complain(member, format string, args ...any) {
	r.wrong = append(r.wrong, member+": "+fmt.Sprintf(format, args...))
}

func (r *factsReader) facts(in factsJSON) outcome.Facts {
	f := outcome.Facts{
		Deadline:         r.time("deadline", in.Deadline),
		Operation:        r.operation(in.Operation),
		Retry:            r.retry(in.Retry),
		Body:             word(r, "body", in.Body, outcome.BodyReplayable, outcome.Bodies()),
		BudgetTokens:     valueOr(in.BudgetTokens, 10),
		NextTokenIn:      r.duration("next_token_in", in.NextTokenIn, 0),
		Draining:         in.Draining,
		OutcomeDelivered: in.OutcomeDelivered,
		CancelRequested:  in.CancelRequested,
	}
	for i, a := range in.Attempts {
		f.Attempts = append(f.Attempts, r.attempt(fmt.Sprintf("attempts[%d].", i), a))
	}
	if in.Now == "" && len(f.Attempts) > 0 {
		f.Now = f.Attempts[len(f.Attempts)-1].EndedAt
	} else {
		f.Now = r.time("now", in.Now)
	}
	return f
}

func (r *factsReader) operation(in operationJSON) outcome.Operation {
	return outcome.Operation{
		Idempotency:           word(r, "operation.idempotency", in.Idempotency, outcome.IdempotencyNone, outcome.Idempotencies()),
		Retention:             r.duration("operation.retention", in.Retention, 0),
		RetentionMargin:       r.duration("operation.retention_margin", in.RetentionMargin, 0),
		AuthoritativeRefusals: r.statuses("operation.authoritative_refusals", in.AuthoritativeRefusals),
		StoresErrors:          in.StoresErrors,
		HasLookup:             in.HasLookup,
		CanRefreshAuth:        in.CanRefreshAuth,
	}
}

func (r *factsReader) retry(in retryJSON) outcome.Retry {
	retry := outcome.Retry{
		MaxAttempts:      valueOr(in.MaxAttempts, 5),
		MinAttemptWindow: r.duration("retry.min_attempt_window", in.MinAttemptWindow, time.Second),
		Backoff: outcome.Backoff{
			Initial: r.duration("retry.backoff.initial", in.Backoff.Initial, time.Second),
			Max:     r.duration("retry.backoff.max", in.Backoff.Max, 30*time.Second),
			Jitter:  word(r, "retry.backoff.jitter", in.Backoff.Jitter, outcome.JitterNone, outcome.Jitters()),
		},
		TransientStatuses: r.statuses("retry.transient_statuses", in.TransientStatuses),
		WhenBudgetEmpty:   word(r, "retry.when_budget_empty", in.WhenBudgetEmpty, outcome.WhenEmptyWait, outcome.WhenEmpties()),
	}
	if retry.MaxAttempts < 1 {
		r.complain("retry.max_attempts", "is %d; at least 1 is needed", retry.MaxAttempts)
	}
	return retry
}

func (r *factsReader) attempt(at string, in attemptJSON) outcome.Attempt {
	if in.Status != 0 {
		r.statuses(at+"status", []int{in.Status})
	}
	return outcome.Attempt{
		StartedAt:     r.time(at+"started_at", in.StartedAt),
		EndedAt:       r.time(at+"ended_at", in.EndedAt),
		Evidence:      word(r, at+"evidence", in.Evidence, "", outcome.Evidences()),
		Category:      word(r, at+"category", in.Category, outcome.CategoryNone, outcome.Categories()),
		Status:        in.Status,
		Answer:        word(r, at+"answer", in.Answer, outcome.AnswerNone, append(outcome.Answers(), outcome.AnswerNone)),
		RetryAfter:    in.RetryAfter,
		RefreshedAuth: in.RefreshedAuth,
		Settled:       in.Settled,
	}
}

func (r *factsReader) time(member, s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	switch {
	case s == "":
		r.complain(member, "is missing")
	case err != nil:
		r.complain(member, "%q is no RFC 3339 time such as 2026-01-01T00:00:00Z", s)
	}
	return t
}

func (r *factsReader) duration(member, s string, otherwise time.Duration) time.Duration {
	if s == "" {
		return otherwise
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		r.complain(member, "%q is no duration such as 90s or 24h", s)
	case d < 0:
		r.complain(member, "%q is negative", s)
	}
	return d
}

func (r *factsReader) statuses(member string, list []int) []int {
	for _, status := range list {
		if status < 100 || status > 999 {
			r.complain(member, "%d is no HTTP status", status)
		}
	}
	return list
}

// word reads a word of an enum. One left out is the given default, or missing
// if that is in no list.
func word[T ~string](r *factsReader, member, s string, otherwise T, list []T) T {
	v := T(s)
	if s == "" {
		v = otherwise
	}
	switch {
	case slices.Contains(list, v):
	case s == "":
		r.complain(member, "is missing")
	default:
		r.complain(member, "%q is none of %s", s, joinWords(list))
	}
	return v
}

func joinWords[T ~string](list []T) string {
	var words []string
	for _, w := range list {
		if w != "" {
			words = append(words, string(w))
		}
	}
	return strings.Join(words, ", ")
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
