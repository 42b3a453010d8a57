package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
)

// OutcomeEvent is an outcome as it is announced: its id and sequence stay the
// same over every delivery.
type OutcomeEvent struct {
	ID            uuid.UUID
	CommandID     uuid.UUID
	Tenant        string
	Number        int // the command's version with it
	Type          string
	At            time.Time
	Sequence      int
	Actor         string
	PreviousState outcome.State
	Data          json.RawMessage
}

// EventType is the type of the event that announces a final state.
func EventType(state outcome.State) string { return "command." + string(state) }

func newOutcomeEvent(m Move) OutcomeEvent {
	stored := newStoredOutcome(m)
	data, _ := json.Marshal(struct { // strings, numbers and times always encode
		storedOutcome
		PreviousState outcome.State `json:"previous_state"`
	}{stored, m.Command.State})
	return OutcomeEvent{
		ID: uuid.Must(uuid.NewV7()), CommandID: m.Command.ID, Tenant: m.Command.Tenant, Number: m.Command.Version + 1,
		Type: EventType(m.To), At: m.Command.Now, Sequence: stored.Sequence, Actor: m.Actor,
		PreviousState: m.Command.State, Data: data,
	}
}

func insertOutcomeEvents(ctx context.Context, tx Tx, events []OutcomeEvent) error {
	n := len(events)
	var (
		ids, commands = make([]uuid.UUID, n), make([]uuid.UUID, n)
		tenants       = make([]string, n)
		numbers       = make([]int32, n)
		types         = make([]string, n)
		at            = make([]time.Time, n)
		sequences     = make([]int32, n)
		actors        = make([]string, n)
		data          = make([]string, n)
	)
	for i, e := range events {
		ids[i], commands[i], tenants[i], numbers[i] = e.ID, e.CommandID, e.Tenant, int32(e.Number)
		types[i], at[i], sequences[i], actors[i], data[i] = e.Type, e.At, int32(e.Sequence), e.Actor, string(e.Data)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO events (id, command_id, tenant, number, type, at, sequence, actor, data)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::timestamptz[], $7::int[], $8::text[], $9::json[])`,
		ids, commands, tenants, numbers, types, at, sequences, actors, data)
	if err != nil {
		return fmt.Errorf("write outcome events: %w", err)
	}
	return nil
}

// insertEvent writes an event that is no outcome: it has no sequence.
func insertEvent(ctx context.Context, tx Tx, e OutcomeEvent) error {
	e.ID = uuid.Must(uuid.NewV7())
	if e.Data == nil {
		e.Data = json.RawMessage(`{}`)
	}
	return insertOutcomeEvents(ctx, tx, []OutcomeEvent{e})
}

// storedOutcome is the column commands.outcome: small, without the response
// body, which stays on its attempt.
type storedOutcome struct {
	State          outcome.State         `json:"state"`
	Reason         outcome.OutcomeReason `json:"reason"`
	StoppedBy      outcome.Reason        `json:"stopped_by"`
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
		State: m.To, Reason: f.Reason, StoppedBy: f.StoppedBy, DecidedBy: f.DecidedBy, DecidedAt: m.Command.Now.UTC(),
		Sequence: m.Command.Sequence + 1, SafeToResubmit: f.SafeToResubmit, NextAction: f.NextAction,
		Incomplete: f.Incomplete, Attempt: f.Answer.Attempt, Status: f.Answer.Status,
		Reference: CleanText(f.Answer.Reference), Code: CleanText(f.Answer.Code), Message: CleanText(f.Answer.Message),
	}
}

// CleanText makes text from an upstream fit for a text column: PostgreSQL
// refuses NUL and invalid UTF-8, and an outcome must never fail to be stored.
func CleanText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}

// outcomeView turns the stored column into what readers get; the result's body
// is added by the reader.
func (o storedOutcome) view() *Outcome {
	v := &Outcome{
		State: o.State, Reason: o.Reason, StoppedBy: o.StoppedBy, DecidedBy: o.DecidedBy, DecidedAt: o.DecidedAt,
		Sequence: o.Sequence, SafeToResubmit: o.SafeToResubmit, NextAction: o.NextAction,
	}
	switch o.State {
	case outcome.StateSuccess:
		v.Result = &Result{Status: o.Status, Reference: o.Reference, Incomplete: o.Incomplete}
	case outcome.StateRejected:
		v.Rejection = &Rejection{Status: o.Status, Code: o.Code, Message: o.Message}
	}
	return v
}
