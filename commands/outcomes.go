package commands

import (
	"strings"
	"time"

	"executor/outcome"
)

// storedOutcome is the column commands.outcome: small, without the response
// body, which stays on its attempt.
type storedOutcome struct {
	State          outcome.State         `json:"state"`
	Reason         outcome.OutcomeReason `json:"reason"`
	StoppedBy      outcome.Reason        `json:"stopped_by"`
	WaitedFor      WaitFor               `json:"waited_for,omitempty"`
	DecidedBy      outcome.DecidedBy     `json:"decided_by"`
	DecidedAt      time.Time             `json:"decided_at"`
	Sequence       int                   `json:"sequence"`
	SafeToResubmit bool                  `json:"safe_to_resubmit"`
	NextAction     outcome.NextAction    `json:"next_action"`
	Incomplete     bool                  `json:"incomplete,omitempty"`
	Attempt        int                   `json:"attempt,omitempty"`
	Status         int                   `json:"status,omitempty"`
	Reference      string                `json:"reference,omitempty"`
	Code           string                `json:"code,omitempty"`
	Message        string                `json:"message,omitempty"`
}

func newStoredOutcome(m Move) storedOutcome {
	f := m.Outcome
	return storedOutcome{
		State: m.To, Reason: f.Reason, StoppedBy: f.StoppedBy, WaitedFor: f.WaitedFor, DecidedBy: f.DecidedBy, DecidedAt: m.Command.Now.UTC(),
		Sequence: m.sequence(), SafeToResubmit: f.SafeToResubmit, NextAction: f.NextAction,
		Incomplete: f.Incomplete, Attempt: f.Answer.Attempt, Status: f.Answer.Status,
		Reference: CleanText(f.Answer.Reference), Code: CleanText(f.Answer.Code), Message: CleanText(f.Answer.Message),
	}
}

// CleanText makes text from an upstream fit for a text column: PostgreSQL
// refuses NUL and invalid UTF-8, and an outcome must never fail to be stored.
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}

// view turns the stored column into what readers get; kept is what the attempt
// kept of a result.
func (o storedOutcome) view(kept Result) *Outcome {
	v := &Outcome{
		State: o.State, Reason: o.Reason, StoppedBy: o.StoppedBy, WaitedFor: o.WaitedFor, DecidedBy: o.DecidedBy, DecidedAt: o.DecidedAt,
		Sequence: o.Sequence, SafeToResubmit: o.SafeToResubmit, NextAction: o.NextAction,
	}
	switch o.State {
	case outcome.StateSuccess:
		v.Result = &kept
		v.Result.Status, v.Result.Reference = o.Status, o.Reference
		v.Result.Incomplete = o.Incomplete || kept.Incomplete
	case outcome.StateRejected:
		v.Rejection = &Rejection{Status: o.Status, Code: o.Code, Message: o.Message}
	}
	return v
}
