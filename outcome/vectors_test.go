package outcome

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// vector is one worked example of testdata/decide.jsonl. The member names of
// encoding/json are matched without regard to case, which is enough here; the
// strict reader belongs to `executor decide`.
type vector struct {
	Name, Why string
	In        struct {
		Now, Deadline time.Time
		Operation     struct {
			Idempotency           Idempotency
			Retention             span
			RetentionMargin       span  `json:"retention_margin"`
			AuthoritativeRefusals []int `json:"authoritative_refusals"`
			StoresErrors          bool  `json:"stores_errors"`
			HasLookup             bool  `json:"has_lookup"`
			CanRefreshAuth        bool  `json:"can_refresh_auth"`
		}
		Retry struct {
			MaxAttempts      int  `json:"max_attempts"`
			MinAttemptWindow span `json:"min_attempt_window"`
			Backoff          struct {
				Initial, Max span
				Jitter       Jitter
			}
			TransientStatuses []int     `json:"transient_statuses"`
			WhenBudgetEmpty   WhenEmpty `json:"when_budget_empty"`
		}
		Body             Body
		BudgetTokens     float64 `json:"budget_tokens"`
		NextTokenIn      span    `json:"next_token_in"`
		Draining         bool
		OutcomeDelivered bool `json:"outcome_delivered"`
		CancelRequested  bool `json:"cancel_requested"`
		Attempts         []struct {
			StartedAt     time.Time `json:"started_at"`
			EndedAt       time.Time `json:"ended_at"`
			Evidence      Evidence
			Category      Category
			Status        int
			Answer        Answer
			RetryAfter    string `json:"retry_after"`
			RefreshedAuth bool   `json:"refreshed_auth"`
			Settled       bool
		}
	}
	Out struct {
		Decision        Verdict
		Rule            int
		Reason          Reason
		RetryAt         time.Time `json:"retry_at"`
		AttemptBoundary Boundary  `json:"attempt_boundary"`
		Boundary        Boundary
		State           State
		OutcomeReason   OutcomeReason `json:"outcome_reason"`
		SafeToResubmit  bool          `json:"safe_to_resubmit"`
		NextAction      NextAction    `json:"next_action"`
	}
}

// span is a duration in the form of time.ParseDuration; empty is 0.
type span time.Duration

func (s *span) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

func (v vector) facts() Facts {
	in, op, retry := v.In, v.In.Operation, v.In.Retry
	f := Facts{
		Now: in.Now, Deadline: in.Deadline, Body: in.Body,
		BudgetTokens: in.BudgetTokens, NextTokenIn: time.Duration(in.NextTokenIn),
		Draining: in.Draining, OutcomeDelivered: in.OutcomeDelivered, CancelRequested: in.CancelRequested,
		Operation: Operation{
			Idempotency: op.Idempotency, Retention: time.Duration(op.Retention), RetentionMargin: time.Duration(op.RetentionMargin),
			AuthoritativeRefusals: op.AuthoritativeRefusals, StoresErrors: op.StoresErrors,
			HasLookup: op.HasLookup, CanRefreshAuth: op.CanRefreshAuth,
		},
		Retry: Retry{
			MaxAttempts: retry.MaxAttempts, MinAttemptWindow: time.Duration(retry.MinAttemptWindow),
			Backoff:           Backoff{time.Duration(retry.Backoff.Initial), time.Duration(retry.Backoff.Max), retry.Backoff.Jitter},
			TransientStatuses: retry.TransientStatuses, WhenBudgetEmpty: retry.WhenBudgetEmpty,
		},
	}
	for _, a := range in.Attempts {
		f.Attempts = append(f.Attempts, Attempt(a))
	}
	return f
}

func TestDecideVectors(t *testing.T) {
	file, err := os.Open("testdata/decide.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	count := 0
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatal(err)
		}
		count++
		t.Run(v.Name, func(t *testing.T) { v.check(t, Decide(v.facts())) })
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if count == 0 {
		t.Fatal("no vectors")
	}
}

func (v vector) check(t *testing.T, d Decision) {
	var end Outcome
	if d.Outcome != nil {
		end = *d.Outcome
	}
	got := v.Out
	got.Decision, got.Rule, got.Reason, got.RetryAt = d.Verdict, d.Rule, d.Reason, d.RetryAt
	got.AttemptBoundary, got.Boundary = d.AttemptBoundary, d.Boundary
	got.State, got.OutcomeReason, got.SafeToResubmit, got.NextAction = end.State, end.Reason, end.SafeToResubmit, end.NextAction
	if got != v.Out {
		t.Errorf("%s\n got %+v\nwant %+v", v.Why, got, v.Out)
	}
}
