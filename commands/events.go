package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"executor/internal/postgres"
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
	PreviousState outcome.State // of the outcome before; "" for the first
	Data          json.RawMessage

	Hold time.Duration // nobody is told before; a later outcome drops it then
}

// EventType is the type of the event that announces a final state.
func EventType(state outcome.State) string { return "command." + string(state) }

// EventCorrected is the type of the event that announces a person's correction.
const EventCorrected = "command.corrected"

func newOutcomeEvent(m Move) OutcomeEvent {
	stored := newStoredOutcome(m)
	data := encodeJSON(struct {
		storedOutcome
		PreviousState *outcome.State `json:"previous_state"` // null for the first
	}{stored, onlyIf(m.Command.Announced != "", m.Command.Announced)})
	kind := EventType(m.To)
	if m.Correction {
		kind = EventCorrected
	}
	return OutcomeEvent{
		ID: uuid.Must(uuid.NewV7()), CommandID: m.Command.ID, Tenant: m.Command.Tenant, Number: m.Command.Version + 1,
		Type: kind, At: m.Command.Now, Sequence: stored.Sequence, Actor: m.Actor,
		PreviousState: m.Command.Announced, Data: json.RawMessage(data),
	}
}

// insertEvents writes events of one or many commands.
func insertEvents(ctx context.Context, tx Tx, events []OutcomeEvent) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO events (id, command_id, tenant, number, type, at, sequence, actor, data)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::timestamptz[], $7::int[], $8::text[], $9::json[])`,
		postgres.Column(events, func(e OutcomeEvent) uuid.UUID { return e.ID }),
		postgres.Column(events, func(e OutcomeEvent) uuid.UUID { return e.CommandID }),
		postgres.Column(events, func(e OutcomeEvent) string { return e.Tenant }),
		postgres.Column(events, func(e OutcomeEvent) int32 { return int32(e.Number) }),
		postgres.Column(events, func(e OutcomeEvent) string { return e.Type }),
		postgres.Column(events, func(e OutcomeEvent) time.Time { return e.At }),
		postgres.Column(events, func(e OutcomeEvent) int32 { return int32(e.Sequence) }),
		postgres.Column(events, func(e OutcomeEvent) string { return e.Actor }),
		postgres.Column(events, func(e OutcomeEvent) string { return string(e.Data) }))
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// insertEvent writes an event that is no outcome: it has no sequence.
func insertEvent(ctx context.Context, tx Tx, e OutcomeEvent) error {
	e.ID = uuid.Must(uuid.NewV7())
	if e.Data == nil {
		e.Data = json.RawMessage(`{}`)
	}
	return insertEvents(ctx, tx, []OutcomeEvent{e})
}

// rfc3339 makes to_char write a moment in UTC as the rest of the API does.
const rfc3339 = `YYYY-MM-DD"T"HH24:MI:SS.US"Z"`

// Events reads a command's account in order: its acceptance, its attempts and
// what was announced. The first two stand in their own tables and are shown as
// events, not stored a second time.
func (s *Store) Events(ctx context.Context, tenant string, id uuid.UUID) ([]Event, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT kind, number, id, type, at, sequence, actor, data::text FROM (
			SELECT 0 AS kind, 0 AS number, NULL::uuid AS id, 'command.accepted' AS type, c.created_at AS at, 0 AS sequence,
				r.submitted_by AS actor, json_build_object('profile_version', c.profile_version, 'deadline', to_char(c.deadline AT TIME ZONE 'UTC', '`+rfc3339+`')) AS data
			FROM commands c JOIN command_requests r ON r.command_id = c.id WHERE c.tenant = $1 AND c.id = $2
			UNION ALL
			SELECT 1, number, NULL, 'attempt.started', started_at, 0, instance, json_build_object('attempt', number)
			FROM attempts WHERE tenant = $1 AND command_id = $2
			UNION ALL
			SELECT 2, number, NULL, 'attempt.ended', ended_at, 0, instance, json_build_object('attempt', number,
				'evidence', evidence, 'category', category, 'answer', nullif(answer, ''), 'status', nullif(status, 0),
				'decision', decision, 'reason', reason, 'retry_at', to_char(retry_at AT TIME ZONE 'UTC', '`+rfc3339+`'))
			FROM attempts WHERE tenant = $1 AND command_id = $2 AND ended_at IS NOT NULL
			UNION ALL
			SELECT 3, number, id, type, at, sequence, actor, data FROM events WHERE tenant = $1 AND command_id = $2
			UNION ALL
			SELECT 2, id::int, NULL, 'evidence.late', at, 0, actor, json_build_object('attempt', attempt_number, 'evidence', evidence,
				'category', category, 'answer', nullif(answer, ''), 'status', nullif(status, 0), 'effect', effect)
			FROM findings WHERE tenant = $1 AND command_id = $2 AND source = 'late_evidence'
			UNION ALL
			SELECT 2, id::int, NULL, 'evidence.' || source, at, 0, actor, json_build_object('finding', finding, 'status', nullif(status, 0),
				'reference', nullif(reference, ''), 'code', nullif(code, ''), 'message', nullif(message, ''), 'effect', effect)
			FROM findings WHERE tenant = $1 AND command_id = $2 AND source <> 'late_evidence'
			UNION ALL
			SELECT 2, n.id::int, NULL, 'notice.received', n.received_at, 0, u.name, json_build_object('event_id', n.event_id,
				'weight', n.weight, 'finding', n.finding, 'effect', nullif(n.effect, ''))
			FROM notices n JOIN upstreams u ON u.id = n.upstream_id WHERE n.tenant = $1 AND n.command_id = $2
			UNION ALL
			SELECT 2, id::int, NULL, 'lookup.ended', ended_at, 0, instance, json_build_object('round', round, 'question', question,
				'finding', finding, 'counts', counts, 'status', nullif(status, 0), 'category', nullif(category, ''), 'detail', nullif(detail, ''))
			FROM lookups WHERE tenant = $1 AND command_id = $2
		) account ORDER BY at, kind, number`, tenant, id)
	if err != nil {
		return nil, unavailable("read events", err)
	}
	defer rows.Close()
	var list []Event
	for rows.Next() {
		var (
			e            Event
			kind, number int
			stored       *uuid.UUID
			data         string
		)
		if err := rows.Scan(&kind, &number, &stored, &e.Type, &e.At, &e.Sequence, &e.Actor, &data); err != nil {
			return nil, unavailable("read events", err)
		}
		e.Number, e.Data = len(list)+1, json.RawMessage(data)
		e.ID = uuid.NewSHA1(id, []byte(fmt.Sprintf("%s/%d", e.Type, number)))
		if stored != nil {
			e.ID = *stored
		}
		list = append(list, e)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable("read events", err)
	}
	if len(list) == 0 {
		return nil, ErrNotFound
	}
	return list, nil
}
