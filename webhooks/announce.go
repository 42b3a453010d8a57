package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
)

// Announce writes what outcomes owe to endpoints, in the transaction that moves
// the commands: one statement that finds who wants to know, and where somebody
// does, one that writes. A tenant without endpoints costs no more than the first.
//
// An earlier outcome of the same command that is still held back, and was never
// tried, is dropped: nobody needs to hear of it any more.
func (s *Store) Announce(ctx context.Context, tx pgx.Tx, events []commands.OutcomeEvent) error {
	if len(events) == 0 {
		return nil
	}
	wanted, err := wantedBy(ctx, tx, events)
	if err != nil || len(wanted) == 0 {
		return err
	}
	deliveries, err := writeEvents(ctx, tx, wanted)
	if deliveries > 0 {
		s.nudge()
	}
	return err
}

// wanted is an event of a tenant that has endpoints.
type wanted struct {
	commands.OutcomeEvent
	about     about
	endpoints []uuid.UUID // those that want it, maybe none
}

// wantedSQL looks for the tenant's endpoints first and at the command only where
// there are some; OFFSET 0 keeps the planner to that order, whatever it believes
// of tables that grow fast.
const wantedSQL = `
	SELECT i.place::int, c.idempotency_key, c.operation, c.upstream, c.metadata,
		ARRAY(SELECT e.id FROM webhook_endpoints e WHERE e.tenant = i.tenant AND e.disabled_by <> 'unproven'
			AND (e.events = '{}' OR i.type = ANY(e.events)) AND (e.upstreams = '{}' OR c.upstream = ANY(e.upstreams)))
	FROM (
		SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[]) WITH ORDINALITY AS i(command_id, tenant, type, place)
		WHERE EXISTS (SELECT FROM webhook_endpoints e WHERE e.tenant = i.tenant) OFFSET 0
	) i CROSS JOIN LATERAL (
		SELECT c.idempotency_key, c.operation, u.name AS upstream, r.metadata::text AS metadata
		FROM commands c JOIN command_requests r ON r.command_id = c.id JOIN upstreams u ON u.id = c.upstream_id
		WHERE c.id = i.command_id AND c.tenant = i.tenant OFFSET 0
	) c`

func wantedBy(ctx context.Context, tx pgx.Tx, events []commands.OutcomeEvent) ([]wanted, error) {
	rows, err := tx.Query(ctx, wantedSQL,
		postgres.Column(events, func(e commands.OutcomeEvent) uuid.UUID { return e.CommandID }),
		postgres.Column(events, func(e commands.OutcomeEvent) string { return e.Tenant }),
		postgres.Column(events, func(e commands.OutcomeEvent) string { return e.Type }))
	if err != nil {
		return nil, fmt.Errorf("look for webhooks: %w", err)
	}
	var (
		list  []wanted
		place int
		w     wanted
	)
	_, err = pgx.ForEachRow(rows, []any{&place, &w.about.Key, &w.about.Operation, &w.about.Upstream, &w.about.Metadata, &w.endpoints}, func() error {
		list = append(list, wanted{events[place-1], w.about, append([]uuid.UUID(nil), w.endpoints...)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for webhooks: %w", err)
	}
	return list, nil
}

// owed is a delivery to be written.
type owed struct {
	event    *commands.OutcomeEvent
	endpoint uuid.UUID
}

func (o owed) heldUntil() *time.Time {
	if o.event.Hold <= 0 {
		return nil
	}
	return new(o.event.At.Add(o.event.Hold))
}

// announceSQL drops, writes events and deliveries. What was claimed is not
// dropped, nor what nobody holds back any more: it is sent.
const announceSQL = `
	WITH dropped AS (
		UPDATE webhook_deliveries d SET state = 'dropped', ended_at = clock_timestamp()
		FROM unnest($1::uuid[], $2::int[]) AS newer(command_id, sequence)
		WHERE d.command_id = newer.command_id AND d.sequence < newer.sequence
		  AND d.state = 'pending' AND d.held_until > clock_timestamp() AND d.tries = 0 AND d.claim IS NULL
	), events AS (
		INSERT INTO webhook_events (id, tenant, command_id, sequence, type, at, payload)
		SELECT * FROM unnest($3::uuid[], $4::text[], $5::uuid[], $6::int[], $7::text[], $8::timestamptz[], $9::bytea[])
	)
	INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, command_id, sequence, type, at, held_until, next_at)
	SELECT event_id, endpoint_id, tenant, command_id, sequence, type, at, held_until, coalesce(held_until, at)
	FROM unnest($10::uuid[], $11::uuid[], $12::text[], $13::uuid[], $14::int[], $15::text[], $16::timestamptz[], $17::timestamptz[])
		AS owed(event_id, endpoint_id, tenant, command_id, sequence, type, at, held_until)`

// writeEvents writes what endpoints want and drops what is overtaken. It returns
// how many deliveries are due.
func writeEvents(ctx context.Context, tx pgx.Tx, list []wanted) (int, error) {
	var (
		newer, stored []wanted // outcomes after a first one; events that somebody wants
		payloads      [][]byte
		all           []owed
	)
	for i := range list {
		w := &list[i]
		if w.Sequence > 1 {
			newer = append(newer, *w)
		}
		if len(w.endpoints) == 0 {
			continue
		}
		text, err := payload(w.OutcomeEvent, w.about)
		if err != nil {
			return 0, err
		}
		stored, payloads = append(stored, *w), append(payloads, text)
		for _, endpoint := range w.endpoints {
			all = append(all, owed{&w.OutcomeEvent, endpoint})
		}
	}
	if len(newer)+len(all) == 0 {
		return 0, nil
	}
	if _, err := tx.Exec(ctx, announceSQL, announceColumns(newer, stored, payloads, all)...); err != nil {
		return 0, fmt.Errorf("announce outcomes: %w", err)
	}
	return len(all), nil
}

// announceColumns are $1 to $17 of announceSQL, a slice each.
func announceColumns(newer, stored []wanted, payloads [][]byte, all []owed) []any {
	return []any{
		postgres.Column(newer, func(w wanted) uuid.UUID { return w.CommandID }),
		postgres.Column(newer, func(w wanted) int32 { return int32(w.Sequence) }),
		postgres.Column(stored, func(w wanted) uuid.UUID { return w.ID }),
		postgres.Column(stored, func(w wanted) string { return w.Tenant }),
		postgres.Column(stored, func(w wanted) uuid.UUID { return w.CommandID }),
		postgres.Column(stored, func(w wanted) int32 { return int32(w.Sequence) }),
		postgres.Column(stored, func(w wanted) string { return w.Type }),
		postgres.Column(stored, func(w wanted) time.Time { return w.At }),
		payloads,
		postgres.Column(all, func(o owed) uuid.UUID { return o.event.ID }),
		postgres.Column(all, func(o owed) uuid.UUID { return o.endpoint }),
		postgres.Column(all, func(o owed) string { return o.event.Tenant }),
		postgres.Column(all, func(o owed) uuid.UUID { return o.event.CommandID }),
		postgres.Column(all, func(o owed) int32 { return int32(o.event.Sequence) }),
		postgres.Column(all, func(o owed) string { return o.event.Type }),
		postgres.Column(all, func(o owed) time.Time { return o.event.At }),
		postgres.Column(all, owed.heldUntil),
	}
}
