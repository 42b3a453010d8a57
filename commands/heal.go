package commands

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// healBatch bounds how many commands one round mends.
	healBatch = 500
	// healPage bounds how many it looks at: a long backlog that is well looked
	// after costs each round the same, and is gone through page by page.
	healPage = 5000
)

// overdueBy is how long a pending command may be due without a keeper before
// the sweeper gives it a new job, in SQL.
const overdueBy = `interval '10 seconds'`

// Heal finds pending commands that nobody looks after, because their job is
// gone, its worker died, or the process that claimed them lost its lease, and
// gives each a new job. It trusts our own rows only: deleting every row of the
// queue's tables costs seconds, never a command. Each call goes on where the last
// one ended. It returns how many it mended.
func (s *Store) Heal(ctx context.Context) (int, error) {
	s.healing.Lock()
	defer s.healing.Unlock()
	var (
		n, seen int
		last    *time.Time
	)
	err := s.commit(ctx, func(ctx context.Context, tx Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT count(*), max(next_attempt_at) FROM (
				SELECT next_attempt_at FROM commands
				WHERE next_attempt_at > $1 AND next_attempt_at < now() - `+overdueBy+`
				ORDER BY next_attempt_at LIMIT $2) page`, s.healed, healPage).Scan(&seen, &last)
		if err != nil {
			return fmt.Errorf("look for overdue commands: %w", err)
		}
		if n = 0; seen == 0 {
			return nil
		}
		n, err = s.healBetween(ctx, tx, s.healed, *last)
		return err
	})
	switch {
	case err != nil, n == healBatch: // the same page again
	case seen == healPage:
		s.healed = *last
	default:
		s.healed = time.Time{}
	}
	return n, err
}

// stranded is the condition of a command c, in SQL, whose claim and whose job are
// both worth nothing; $1 is LiveJobStates.
const stranded = `
	c.state = 'pending' AND c.held_by IS NULL
	AND NOT EXISTS (SELECT FROM leases l WHERE l.epoch = c.claimed_by AND l.ended_at IS NULL)
	AND NOT EXISTS (
		SELECT FROM river_job j WHERE j.id = c.job_id AND j.state = ANY($1::river_job_state[])
			AND (j.state <> 'running' OR EXISTS (
				SELECT FROM leases l WHERE l.instance = j.attempted_by[array_upper(j.attempted_by, 1)] AND l.ended_at IS NULL)))`

// healBetween locks first and looks once more then: another healer may have given
// a command its job after the first statement began, and that statement finds the
// new row of the command, not the new row of the queue.
func (s *Store) healBetween(ctx context.Context, tx Tx, after, until time.Time) (int, error) {
	rows, err := tx.Query(ctx, `
		SELECT c.id FROM commands c
		WHERE `+stranded+` AND c.next_attempt_at > $3 AND c.next_attempt_at <= $4
		ORDER BY c.next_attempt_at LIMIT $2 FOR UPDATE OF c SKIP LOCKED`, LiveJobStates(), healBatch, after, until)
	if err != nil {
		return 0, fmt.Errorf("lock stranded commands: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	rows, err = tx.Query(ctx, `
		SELECT `+lockedColumns+` FROM commands c WHERE c.id = ANY($2) AND `+stranded, LiveJobStates(), ids)
	if err != nil {
		return 0, fmt.Errorf("read stranded commands: %w", err)
	}
	return s.requeue(ctx, tx, rows)
}

// Unclaim hands the pending commands that were claimed under ended leases to
// the queue, at once. It returns how many there were.
func (s *Store) Unclaim(ctx context.Context) (int, error) {
	var n int
	err := s.commit(ctx, func(ctx context.Context, tx Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT `+lockedColumns+` FROM commands c
			WHERE c.claimed_by IS NOT NULL AND c.held_by IS NULL
				AND NOT EXISTS (SELECT FROM leases l WHERE l.epoch = c.claimed_by AND l.ended_at IS NULL)
			LIMIT $1 FOR UPDATE OF c SKIP LOCKED`, healBatch)
		if err != nil {
			return fmt.Errorf("find claims of ended leases: %w", err)
		}
		n, err = s.requeue(ctx, tx, rows)
		return err
	})
	return n, err
}

func (s *Store) requeue(ctx context.Context, tx Tx, rows pgx.Rows) (int, error) {
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Locked])
	if err != nil {
		return 0, fmt.Errorf("find commands to queue: %w", err)
	}
	waiting := make([]queued, len(list))
	for i, c := range list {
		waiting[i] = queued{c.ID, c.UpstreamID, priorityOf(int(c.Priority)), *c.NextAttemptAt, c.Now}
	}
	return len(list), s.queue(ctx, tx, waiting)
}

// Due is a pending command that may be started.
type Due struct {
	ID         uuid.UUID
	UpstreamID int64
	Priority   int16
}

// Claimed lists the pending commands claimed under a lease.
func (s *Store) Claimed(ctx context.Context, epoch int64) ([]Due, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, upstream_id, priority FROM commands WHERE claimed_by = $1 AND state = 'pending'`, epoch)
	if err != nil {
		return nil, fmt.Errorf("read claims of lease %d: %w", epoch, err)
	}
	return collectDue(rows)
}

// Running lists the overdue commands whose job runs in a process, as far as the
// queue's rows tell. The queue gives up on writing a job's end after seconds and
// rescues the job after an hour; only its process knows that it does not run.
func (s *Store) Running(ctx context.Context, instance string) ([]Due, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT c.id, c.upstream_id, c.priority
		FROM river_job j JOIN commands c ON c.id = CASE WHEN j.kind = $2 THEN (j.args ->> 'id')::uuid END AND c.job_id = j.id
		WHERE j.state = 'running' AND j.attempted_by[array_upper(j.attempted_by, 1)] = $1
			AND c.state = 'pending' AND c.next_attempt_at < now() - `+overdueBy, instance, AttemptArgs{}.Kind())
	if err != nil {
		return nil, fmt.Errorf("read jobs of %s: %w", instance, err)
	}
	return collectDue(rows)
}

func collectDue(rows pgx.Rows) ([]Due, error) {
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Due])
	if err != nil {
		return nil, fmt.Errorf("read due commands: %w", err)
	}
	return list, nil
}
