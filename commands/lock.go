package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// Locked is a command's moving part, read under its row lock.
type Locked struct {
	ID                uuid.UUID
	Tenant            string
	UpstreamID        int64
	Operation         string
	ProfileVersion    int
	State             outcome.State
	Version           int
	Sequence          int
	Priority          int16
	CreatedAt         time.Time
	Deadline          time.Time
	NextAttemptAt     *time.Time
	WaitFor           *WaitFor
	Attempts          int
	BlockedUntil      *time.Time
	CancelRequestedAt *time.Time
	HeldBy            *int64         // a one-shot command: the lease of the process that has its body
	Resend            Resend         // set: it may be sent once more, and why
	Phase             string         // lookup | review; unresolved only
	Announced         outcome.State  // of the last outcome; "" before the first
	StoppedBy         outcome.Reason // of the last outcome
	Now               time.Time      // of the database
}

// Resend is what allows one more attempt of a command that was unresolved.
type Resend string

const (
	ResendAbsence  Resend = "absence"  // lookups confirmed that nothing arrived
	ResendReplay   Resend = "replay"   // the upstream is asked by repeating, under a key that lives
	ResendOperator Resend = "operator" // a person authorised it
)

const lockedColumns = `id, tenant, upstream_id, operation, profile_version, state, version, sequence, priority,
	created_at, deadline, next_attempt_at, wait_for, attempts, blocked_until, cancel_requested_at, held_by,
	coalesce(resend, '') AS resend, coalesce(phase, '') AS phase, coalesce(outcome ->> 'state', '') AS announced,
	coalesce(outcome ->> 'stopped_by', '') AS stopped_by, clock_timestamp() AS now`

const lockSQL = `SELECT ` + lockedColumns + ` FROM commands WHERE id = ANY($1) ORDER BY id FOR UPDATE`

// Lock locks commands in the order of their ids and reads them. Ids that do
// not exist are left out.
func (s *Store) Lock(ctx context.Context, tx Tx, ids []uuid.UUID) (map[uuid.UUID]Locked, error) {
	rows, err := tx.Query(ctx, lockSQL, ids)
	if err != nil {
		return nil, fmt.Errorf("lock commands: %w", err)
	}
	return collectLocked(rows)
}

func collectLocked(rows pgx.Rows) (map[uuid.UUID]Locked, error) {
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Locked])
	if err != nil {
		return nil, fmt.Errorf("lock commands: %w", err)
	}
	byID := make(map[uuid.UUID]Locked, len(list))
	for _, l := range list {
		byID[l.ID] = l
	}
	return byID, nil
}

// Gone tells which of the commands, that a QueueLock left out, are not there at all:
// the database lost them, in a promotion or a restore.
func (s *Store) Gone(ctx context.Context, q Querier, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := q.Query(ctx, `SELECT id FROM unnest($1::uuid[]) AS id WHERE NOT EXISTS (SELECT FROM commands c WHERE c.id = id.id)`, ids)
	if err != nil {
		return nil, fmt.Errorf("look for commands that are gone: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("look for commands that are gone: %w", err)
	}
	gone := make(map[uuid.UUID]bool, len(list))
	for _, id := range list {
		gone[id] = true
	}
	return gone, nil
}

// QueueLock locks what nobody else holds, for batches of many commands: one row
// that is held for long must not hold up the others. Ids that are held elsewhere
// are left out; whoever asked asks again.
func (s *Store) QueueLock(batch *pgx.Batch, ids []uuid.UUID, got func(map[uuid.UUID]Locked)) {
	batch.Queue(lockSQL+` SKIP LOCKED`, ids).Query(func(rows pgx.Rows) error {
		list, err := collectLocked(rows)
		got(list)
		return err
	})
}
