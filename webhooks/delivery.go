package webhooks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/postgres"
)

// Delivery is one event for one endpoint.
type Delivery struct {
	ID         uuid.UUID
	EventID    uuid.UUID // the header webhook-id, the same on every try and for every endpoint
	EndpointID uuid.UUID
	Tenant     string
	CommandID  *uuid.UUID // nil for a test
	Sequence   int        // of the command's outcome
	Type       string
	At         time.Time // of the event
	State      DeliveryState
	HeldUntil  *time.Time // a later outcome before then drops it
	NextAt     time.Time  // pending: no try before it
	Tries      int
	EndedAt    *time.Time
	Status     int     // of the last try; 0: no response
	Failure    Failure // of the last try
	Detail     string  // the same in words
}

// DeliveryState is where a delivery stands.
type DeliveryState string

const (
	DeliveryPending   DeliveryState = "pending"   // due, held back, or waiting for its next try or its endpoint
	DeliveryDelivered DeliveryState = "delivered" // accepted with a 2xx
	DeliveryFailed    DeliveryState = "failed"    // given up; it can be delivered again by hand
	DeliveryDropped   DeliveryState = "dropped"   // never sent: it was overtaken while held back, or its endpoint is gone
)

// DeliveryStates lists them.
func DeliveryStates() []DeliveryState {
	return []DeliveryState{DeliveryPending, DeliveryDelivered, DeliveryFailed, DeliveryDropped}
}

// Try is one request to an endpoint and what came of it.
type Try struct {
	Number   int
	Instance string
	At       time.Time
	Duration time.Duration // to the response's header, or to the failure
	Status   int           // 0: no response
	Failure  Failure
	Detail   string
	Excerpt  string // the beginning of the response, printable
	NextAt   *time.Time
}

// Account is a delivery with all that is on record of it.
type Account struct {
	Delivery
	Payload []byte
	Log     []Try // oldest first
}

// DeliveryFilter selects deliveries of one tenant, newest first.
type DeliveryFilter struct {
	Tenant   string
	Endpoint *uuid.UUID
	Command  *uuid.UUID
	Event    *uuid.UUID // the header webhook-id
	States   []string
	Type     string
	Since    *time.Time // of the event
	Until    *time.Time // exclusive
	Cursor   string
	Limit    int // 0 is 50; at most MaxPage
}

const (
	defaultPage = 50
	// MaxPage bounds a page of a list.
	MaxPage = 100
)

const selectDeliveries = `
	SELECT id, event_id, endpoint_id, tenant, command_id, sequence, type, at, state, held_until, next_at, tries, ended_at,
		status, failure, detail
	FROM webhook_deliveries `

// Deliveries reads a page of the log, newest first, and the cursor of the next
// page ("" at the end).
func (s *Store) Deliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, string, error) {
	limit := min(f.Limit, MaxPage)
	if limit <= 0 {
		limit = defaultPage
	}
	where, args, err := f.conditions()
	if err != nil {
		return nil, "", err
	}
	list, err := deliveries(ctx, s.pool, where+fmt.Sprintf(` ORDER BY at DESC, id DESC LIMIT %d`, limit+1), args...)
	if err != nil {
		return nil, "", unavailable("read webhook deliveries", err)
	}
	if len(list) <= limit {
		return list, "", nil
	}
	return list[:limit], postgres.Cursor(list[limit-1].At, list[limit-1].ID), nil
}

// DeliveriesOf reads every delivery about a command, oldest first.
func (s *Store) DeliveriesOf(ctx context.Context, tenant string, command uuid.UUID) ([]Delivery, error) {
	list, err := deliveries(ctx, s.pool, `WHERE tenant = $1 AND command_id = $2 ORDER BY sequence, id`, tenant, command)
	if err != nil {
		return nil, unavailable("read webhook deliveries", err)
	}
	return list, nil
}

func deliveries(ctx context.Context, q querier, where string, args ...any) ([]Delivery, error) {
	rows, err := q.Query(ctx, selectDeliveries+where, args...)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Delivery])
	for i := range list {
		list[i].Failure, list[i].Detail = coarse(list[i].Failure, list[i].Detail)
	}
	return list, err
}

// conditions turns the filter into a WHERE with its arguments; nothing of the
// filter enters the SQL text.
func (f DeliveryFilter) conditions() (string, []any, error) {
	var w postgres.Where
	w.And("tenant = ?", f.Tenant) // $1
	for _, state := range f.States {
		if !slices.Contains(DeliveryStates(), DeliveryState(state)) {
			return "", nil, invalid("state", "unknown_state", "There is no state %q.", state)
		}
	}
	switch {
	case len(f.States) == 1 && f.States[0] == string(DeliveryFailed):
		w.And("state = 'failed'") // lets the planner see the partial index
	case len(f.States) > 0:
		w.And("state = ANY(?)", f.States)
	}
	if f.Endpoint != nil {
		w.And("endpoint_id = ?", *f.Endpoint)
	}
	if f.Command != nil {
		w.And("command_id = ?", *f.Command)
	}
	if f.Event != nil {
		w.And("event_id = ?", *f.Event)
	}
	if f.Type != "" {
		w.And("type = ?", f.Type)
	}
	if f.Since != nil {
		w.And("at >= ?", *f.Since)
	}
	if f.Until != nil {
		w.And("at < ?", *f.Until)
	}
	if f.Cursor != "" {
		at, id, ok := postgres.ParseCursor(f.Cursor)
		if !ok {
			return "", nil, ErrBadCursor
		}
		w.And("(at, id) < (?, ?)", at, id)
	}
	sql, args := w.Build()
	return sql, args, nil
}

// Delivery reads one with its payload and its log. Another tenant's id is
// ErrNotFound.
func (s *Store) Delivery(ctx context.Context, tenant string, id uuid.UUID) (Account, error) {
	list, err := deliveries(ctx, s.pool, `WHERE tenant = $1 AND id = $2`, tenant, id)
	if err != nil {
		return Account{}, unavailable("read webhook delivery", err)
	}
	if len(list) == 0 {
		return Account{}, ErrNotFound
	}
	a := Account{Delivery: list[0]}
	if err := s.pool.QueryRow(ctx, `SELECT payload FROM webhook_events WHERE id = $1`, a.EventID).Scan(&a.Payload); err != nil {
		return Account{}, unavailable("read webhook event", err)
	}
	a.Payload = hideChallenge(a.Delivery, a.Payload)
	if a.Log, err = s.tries(ctx, id); err != nil {
		return Account{}, unavailable("read webhook tries", err)
	}
	return a, nil
}

func (s *Store) tries(ctx context.Context, id uuid.UUID) ([]Try, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT number, instance, at, duration_ms, status, failure, detail, excerpt, next_at
		FROM webhook_tries WHERE delivery_id = $1 ORDER BY number`, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Try, err error) {
		var ms int
		err = row.Scan(&t.Number, &t.Instance, &t.At, &ms, &t.Status, &t.Failure, &t.Detail, &t.Excerpt, &t.NextAt)
		t.Duration = time.Duration(ms) * time.Millisecond
		t.Failure, t.Detail = coarse(t.Failure, t.Detail)
		return t, err
	})
}
