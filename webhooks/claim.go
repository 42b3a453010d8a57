package webhooks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/groupcommit"
)

// job is a claimed delivery with what is needed to send it.
type job struct {
	ID         uuid.UUID
	EventID    uuid.UUID
	EndpointID uuid.UUID
	Tenant     string
	Type       string
	URL        string
	Payload    []byte
	Step       int

	claim   uuid.UUID
	expires time.Time // by this process's clock, from before it was claimed
	signer  signer
}

// claimSQL claims what is due, of each endpoint at most what it has places for,
// of one that fails one at a time. Places are given out in turn: every endpoint's
// first delivery comes before anybody's second.
//
// Of an ordered endpoint only so many are looked at: what waits for an earlier one is
// put behind it, so that a receiver that is down for long does not leave more and more
// to be passed over by every look.
//
// An endpoint that is not verified gets its challenge and nothing else.
//
// Data of another deployment, and data that may be a copy or have lost its end,
// is nobody's to tell of: then nothing is due.
const claimSQL = `
	WITH line AS (
		SELECT e.id, e.ordered, e.verified_at IS NOT NULL AS proven, CASE WHEN e.failing_since IS NULL THEN $3 ELSE 1 END - coalesce(b.busy, 0) AS room
		FROM webhook_endpoints e LEFT JOIN unnest($4::uuid[], $5::int[]) AS b(id, busy) ON b.id = e.id
		WHERE e.disabled_at IS NULL AND e.troubled = $2 AND (e.paused_until IS NULL OR e.paused_until <= now())
		  AND coalesce((SELECT ($1 = '' OR id = $1) AND NOT doubtful FROM deployment), $1 = '')
	), blocked AS (
		SELECT w.id, least(b.next_at, now() + $10::interval) AS next_at FROM (SELECT id FROM line WHERE ordered AND proven OFFSET 0) line CROSS JOIN LATERAL (
			SELECT id, command_id, sequence, next_at FROM webhook_deliveries
			WHERE endpoint_id = line.id AND state = 'pending' AND next_at <= now() ORDER BY next_at LIMIT $9
		) w CROSS JOIN LATERAL (
			SELECT max(earlier.next_at) AS next_at FROM webhook_deliveries earlier
			WHERE earlier.command_id = w.command_id AND earlier.endpoint_id = line.id AND earlier.sequence < w.sequence AND earlier.state = 'pending'
		) b WHERE b.next_at > w.next_at
	), behind AS (
		UPDATE webhook_deliveries d SET next_at = blocked.next_at
		FROM blocked, (
			SELECT id FROM webhook_deliveries WHERE id IN (SELECT id FROM blocked) AND state = 'pending' FOR UPDATE SKIP LOCKED) still
		WHERE d.id = blocked.id AND still.id = d.id
	), due AS (
		SELECT d.id FROM (SELECT * FROM line WHERE proven OFFSET 0) line CROSS JOIN LATERAL (
			SELECT d.id, d.next_at, row_number() OVER (ORDER BY d.next_at) AS place
			FROM (
				SELECT * FROM webhook_deliveries
				WHERE endpoint_id = line.id AND state = 'pending' AND next_at <= now()
				ORDER BY next_at LIMIT CASE WHEN line.ordered THEN $9 END) d
			WHERE (d.claimed_until IS NULL OR d.claimed_until <= now())
			  AND NOT (line.ordered AND EXISTS (
				SELECT FROM webhook_deliveries earlier WHERE earlier.command_id = d.command_id AND earlier.endpoint_id = d.endpoint_id
				  AND earlier.sequence < d.sequence AND earlier.state = 'pending'))
			ORDER BY d.next_at LIMIT greatest(line.room, 0)
		) d ORDER BY d.place, d.next_at LIMIT $6
	), challenges AS (
		SELECT d.id FROM (SELECT id FROM line WHERE NOT proven AND room > 0 OFFSET 0) line JOIN webhook_deliveries d ON d.endpoint_id = line.id
		WHERE d.state = 'pending' AND d.type = 'webhook.challenge' AND d.next_at <= now() AND (d.claimed_until IS NULL OR d.claimed_until <= now())
		ORDER BY d.next_at LIMIT $6
	), free AS (
		SELECT id FROM webhook_deliveries
		WHERE id IN (SELECT id FROM due UNION ALL SELECT id FROM challenges) AND state = 'pending' AND next_at <= now() AND (claimed_until IS NULL OR claimed_until <= now())
		LIMIT $6 FOR UPDATE SKIP LOCKED
	)
	UPDATE webhook_deliveries d SET claim = $7, claimed_until = clock_timestamp() + $8::interval
	FROM free, webhook_endpoints e, webhook_events v
	WHERE d.id = free.id AND e.id = d.endpoint_id AND v.id = d.event_id
	RETURNING d.id, d.event_id, d.endpoint_id, d.tenant, d.type, e.url, v.payload, d.step`

// anythingSQL says whether a claim may find anything: most looks do not, and to plan
// claimSQL takes the database ten times as long as to answer this.
const anythingSQL = `
	SELECT EXISTS (
		SELECT FROM webhook_endpoints e CROSS JOIN LATERAL (
			SELECT FROM webhook_deliveries
			WHERE endpoint_id = e.id AND state = 'pending' AND next_at <= now() AND (claimed_until IS NULL OR claimed_until <= now()) LIMIT 1) d
		WHERE e.disabled_at IS NULL AND e.troubled = $1 AND (e.paused_until IS NULL OR e.paused_until <= now()))`

const (
	// orderedLook is how many due deliveries of an ordered endpoint one look sees.
	orderedLook = 1000
	// longestBehind is how soon a delivery is looked at again that waits for an earlier
	// one, should that end before it is due.
	longestBehind = 30 * time.Minute
)

// claims is what one look asks for.
type claims struct {
	deployment string // that this process belongs to; "" is any
	troubled   bool   // which line
	places     int    // of an endpoint in this process
	busy       map[uuid.UUID]int
	limit      int
	lasts      time.Duration
}

// claim takes due deliveries. One whose answer is lost is due again when the
// claim ends. Nobody is told of what may be lost yet: the claim's own COMMIT waits for
// the synchronous standby, and behind it is whatever it claims.
func (s *Store) claim(ctx context.Context, c claims) ([]*job, error) {
	var anything bool
	if err := s.pool.QueryRow(ctx, anythingSQL, c.troubled).Scan(&anything); err != nil {
		return nil, fmt.Errorf("look for due webhook deliveries: %w", err)
	}
	if !anything {
		return nil, nil
	}
	id, expires := uuid.New(), time.Now().Add(c.lasts)
	lanes := slices.Collect(maps.Keys(c.busy))
	counts := make([]int32, len(lanes))
	for i, lane := range lanes {
		counts[i] = int32(c.busy[lane])
	}
	var list []*job
	err := groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, claimSQL, c.deployment, c.troubled, c.places, lanes, counts, c.limit, id, c.lasts, orderedLook, longestBehind)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*job, error) {
			j := &job{claim: id, expires: expires}
			return j, row.Scan(&j.ID, &j.EventID, &j.EndpointID, &j.Tenant, &j.Type, &j.URL, &j.Payload, &j.Step)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim webhook deliveries: %w", err)
	}
	return list, s.equip(ctx, list)
}

// equip gives jobs what they are signed with.
func (s *Store) equip(ctx context.Context, list []*job) error {
	if len(list) == 0 {
		return nil
	}
	endpoints := make(map[uuid.UUID]bool)
	for _, j := range list {
		endpoints[j.EndpointID] = true
	}
	signers, err := s.signers(ctx, slices.Collect(maps.Keys(endpoints)))
	for _, j := range list {
		j.signer = signers[j.EndpointID]
	}
	return err
}
