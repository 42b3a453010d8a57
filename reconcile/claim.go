package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
	"executor/outcome"
)

// claimed is a doubt that this process follows up until its claim ends. Nobody
// else asks about the command meanwhile.
type claimed struct {
	CommandID  uuid.UUID
	Tenant     string
	UpstreamID int64
	Claim      uuid.UUID
	NextAt     time.Time // when the round was due
}

// room is how many doubts about commands of an upstream may be claimed.
type room struct {
	upstreamID int64
	rounds     int
}

// claimDue takes doubts whose next round is due and that nobody holds. Each
// upstream is looked at by itself: a long backlog of one hides nothing of another.
// With data of another deployment there is nothing to take.
func (s *Store) claimDue(ctx context.Context, rooms []room, bound time.Duration, expected string) ([]claimed, error) {
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT d.command_id
			FROM unnest($1::bigint[], $2::int[]) AS lane(upstream_id, rounds)
			CROSS JOIN LATERAL (
				SELECT command_id FROM doubts
				WHERE upstream_id = lane.upstream_id AND next_at <= now() AND (claimed_until IS NULL OR claimed_until <= now())
				ORDER BY next_at LIMIT lane.rounds FOR UPDATE SKIP LOCKED) d
			WHERE NOT EXISTS (SELECT FROM deployment WHERE $4 <> '' AND id <> $4))
		UPDATE doubts d SET claim = gen_random_uuid(), claimed_until = now() + $3
		FROM due WHERE d.command_id = due.command_id
		RETURNING d.command_id, d.tenant, d.upstream_id, d.claim, d.next_at`,
		postgres.Column(rooms, func(r room) int64 { return r.upstreamID }),
		postgres.Column(rooms, func(r room) int32 { return int32(r.rounds) }), bound, expected)
	if err != nil {
		return nil, fmt.Errorf("claim doubts: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[claimed])
	if err != nil {
		return nil, fmt.Errorf("claim doubts: %w", err)
	}
	return list, nil
}

// errLost: the claim has ended, the command is settled, or the process stops.
var errLost = errors.New("the round was given up before all was asked")

// hold is a claim as this process sees it: it ends here no later than in the
// database.
type hold struct {
	until    time.Time // by both clocks of this machine
	now      time.Time // of the database, when it was renewed
	received time.Time // when the answer was here
}

// renew prolongs a claim that is still ours, or answers errLost.
func (s *Store) renew(ctx context.Context, c claimed, bound time.Duration) (hold, error) {
	h := hold{until: time.Now().Add(bound)}
	err := s.pool.QueryRow(ctx, `
		UPDATE doubts SET claimed_until = clock_timestamp() + $3
		WHERE command_id = $1 AND claim = $2 AND claimed_until > clock_timestamp()
		RETURNING clock_timestamp()`, c.CommandID, c.Claim, bound).Scan(&h.now)
	if errors.Is(err, pgx.ErrNoRows) {
		return hold{}, errLost
	}
	if err != nil {
		return hold{}, fmt.Errorf("renew the claim on command %s: %w", c.CommandID, err)
	}
	h.received = time.Now()
	return h, nil
}

// release ends a claim under which nothing was asked, if it is still ours. A command
// that is not unresolved has no round to come. If that fails, the claim ends by
// itself.
func (s *Store) release(ctx context.Context, c claimed) error {
	return s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		locked, err := s.commands.Lock(ctx, tx, []uuid.UUID{c.CommandID})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE doubts SET claim = NULL, claimed_until = NULL, next_at = CASE WHEN $3 THEN next_at END
			WHERE command_id = $1 AND claim = $2`, c.CommandID, c.Claim, locked[c.CommandID].State == outcome.StateUnresolved)
		if err != nil {
			return fmt.Errorf("release the claim on command %s: %w", c.CommandID, err)
		}
		return nil
	})
}

// covers reports whether the claim lasts for that long from now on. One clock
// stands still while the machine sleeps, the other can be set: both are asked.
func (h hold) covers(d time.Duration) bool {
	end := time.Now().Add(d)
	return !end.After(h.until) && !end.Round(0).After(h.until.Round(0))
}

// moment is the database's time, rather too early than too late.
func (h hold) moment() time.Time {
	return h.now.Add(time.Since(h.received)).Truncate(time.Microsecond)
}
