package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/upstreams"
)

const (
	matchEvery = 2 * time.Second
	soonest    = 2 * time.Second  // from a notice to the next look at it
	keptWithin = 30 * time.Second // the longest between two looks while its command is under way
	matchBatch = 100
)

// MatchNotices looks again at the notices that are due: those whose command was not
// known, and those whose command was under way. It looks at a bounded number and
// returns how many; more may be due. The wait between two looks at a notice grows
// with its age, so that a flood of notices about others' business costs little.
func (s *Store) MatchNotices(ctx context.Context) (int, error) {
	due, err := s.dueNotices(ctx)
	if err != nil {
		return 0, err
	}
	var failed error
	for _, n := range due {
		if err := s.matchNotice(ctx, n); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return len(due), failed
}

// NoticeMatcher is a part for an Engine: it does MatchNotices again and again.
func (s *Store) NoticeMatcher() *Duty {
	return NewDuty("match notices", matchEvery, func(ctx context.Context) error {
		for {
			if n, err := s.MatchNotices(ctx); err != nil || n < matchBatch {
				return err
			}
		}
	}, s.log)
}

// dueNotices takes notices by planning the look after this one: if this process
// dies now, somebody looks then.
func (s *Store) dueNotices(ctx context.Context) ([]notice, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT id FROM notices WHERE next_at <= now() ORDER BY next_at LIMIT $1 FOR UPDATE SKIP LOCKED),
		n AS (
			UPDATE notices SET tries = tries + 1, next_at = now() + CASE state
				WHEN 'kept' THEN least(greatest($2, (now() - received_at) / 2), $3)
				ELSE greatest($2, (now() - received_at) / 2) END
			WHERE id = ANY(ARRAY(SELECT id FROM due))
			RETURNING *)
		SELECT `+noticeColumns+` FROM n JOIN upstreams u ON u.id = n.upstream_id ORDER BY n.id`, matchBatch, soonest, keptWithin)
	if err != nil {
		return nil, fmt.Errorf("look for notices that are due: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[notice])
	if err != nil {
		return nil, fmt.Errorf("look for notices that are due: %w", err)
	}
	return list, nil
}

// matchNotice looks at one, in a transaction of its own.
func (s *Store) matchNotice(ctx context.Context, n notice) error {
	id := n.CommandID
	if id == nil {
		ids, err := candidates(ctx, s.pool, n)
		if err != nil {
			return err
		}
		if len(ids) != 1 {
			return s.expire(ctx, n)
		}
		id = &ids[0]
	}
	u, err := s.upstreams.Latest(ctx, n.Tenant, n.Upstream)
	if err != nil {
		return fmt.Errorf("weigh notice %d: %w", n.ID, err)
	}
	var moved []commands.Moved
	err = s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		moved = nil
		mine, err := stillWaits(ctx, tx, n)
		if !mine || err != nil {
			return err
		}
		moved, err = s.weighAgain(ctx, tx, n, *id, u.Profile)
		return err
	})
	if err != nil {
		return fmt.Errorf("weigh notice %d: %w", n.ID, err)
	}
	s.commands.Changed(moved)
	return nil
}

// weighAgain leaves a notice alone whose command is still under way.
func (s *Store) weighAgain(ctx context.Context, tx commands.Tx, n notice, id uuid.UUID, newest *upstreams.Profile) ([]commands.Moved, error) {
	if n.State == NoticeKept {
		locked, err := s.commands.Lock(ctx, tx, []uuid.UUID{id})
		if err != nil || !locked[id].State.Final() {
			return nil, err
		}
	}
	return s.weighNotice(ctx, tx, n, id, newest)
}

// stillWaits locks the notice: another process may have been faster.
func stillWaits(ctx context.Context, tx commands.Tx, n notice) (bool, error) {
	var state NoticeState
	if err := tx.QueryRow(ctx, `SELECT state FROM notices WHERE id = $1 FOR UPDATE`, n.ID).Scan(&state); err != nil {
		return false, fmt.Errorf("lock notice %d: %w", n.ID, err)
	}
	return state == n.State, nil
}

// expire ends the wait of a notice that no command came up to. Its event stays
// known, its content goes.
func (s *Store) expire(ctx context.Context, n notice) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE notices SET state = 'expired', next_at = NULL, headers = NULL, body = NULL
		WHERE id = $1 AND state = 'unmatched' AND expires_at <= clock_timestamp()`, n.ID)
	if err != nil {
		return fmt.Errorf("end the wait of notice %d: %w", n.ID, err)
	}
	return nil
}
