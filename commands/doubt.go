package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/postgres"
	"executor/outcome"
)

// TimelineSQL is the server's timeline of this moment. pg_control_checkpoint
// tells of a promotion only at the next checkpoint.
const TimelineSQL = `('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint`

// Doubt says for which commands the database may have lost the record of an
// attempt: after a promotion or a restore, and with another deployment's data, for
// all that were accepted before. Such a command is not closed as never sent.
type Doubt struct {
	Timeline bool // the server was promoted, and nobody has taken note
	Doubtful bool // noticed: the deployment is frozen in doubt
	FrozenAt *time.Time
	Foreign  bool // the data is another deployment's, which may be sending it
}

const doubtSQL = `
	SELECT timeline <> now AND NOT (doubtful AND doubted_timeline = now), doubtful, frozen_at, $1 <> '' AND id <> $1
	FROM deployment, (SELECT ` + TimelineSQL + ` AS now) server`

// QueueDoubt reads it, for callers that ask for more in the same round trip, in
// the transaction that is about to close commands.
func (s *Store) QueueDoubt(batch *pgx.Batch, d *Doubt) {
	batch.Queue(doubtSQL, s.deployment).QueryRow(d.scan)
}

func (s *Store) doubt(ctx context.Context, tx Tx) (d Doubt, err error) {
	if err := d.scan(tx.QueryRow(ctx, doubtSQL, s.deployment)); err != nil {
		return d, fmt.Errorf("read deployment: %w", err)
	}
	return d, nil
}

func (d *Doubt) scan(row pgx.Row) error {
	err := row.Scan(&d.Timeline, &d.Doubtful, &d.FrozenAt, &d.Foreign)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	return err
}

// Covers reports whether the record of an attempt of the command may be lost.
func (d Doubt) Covers(c Locked) bool {
	if d.Doubtful && d.FrozenAt != nil && !d.Timeline {
		return !c.CreatedAt.After(*d.FrozenAt)
	}
	return d.Timeline || d.Foreign
}

// SendWindow bounds how long after its commit an attempt may still start to send.
const SendWindow = 5 * time.Second

// LatestEnd is until when an attempt of the command may be under way whose record is
// lost. None begins once the deployment is frozen; whoever is not heeds nothing here,
// and of a promotion after the freeze nobody knows whether it held until then.
func (d Doubt) LatestEnd(t Terms, c Locked) time.Time {
	last := c.Now
	if d.FrozenAt != nil && !d.Foreign && !d.Timeline {
		last = *d.FrozenAt
	}
	if end := last.Add(SendWindow + t.total); end.After(c.Now) {
		return end
	}
	return c.Now
}

// DoubtDetail marks the attempt that stands for one whose record may be lost.
const DoubtDetail = "synthetic: the database was promoted or restored, and the record of an attempt may be lost"

// possiblyLost is what the rules see of it: at some time since the command was
// accepted something may have been sent.
func possiblyLost(c Locked, number int, latest time.Time) Past {
	return Past{Number: number, LatestEnd: latest, Attempt: outcome.Attempt{
		StartedAt: c.CreatedAt, EndedAt: c.Now, Evidence: outcome.EvidenceSentNoResponse, Category: outcome.CategoryExecutorLost,
	}}
}

// recordLost puts it on record.
func recordLost(ctx context.Context, tx Tx, c Locked, number int, latest time.Time) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline,
			latest_end, ended_at, evidence, stage, category, detail, boundary, request, bytes_total, body_sha256)
		VALUES ($1, $2, $3, $4, 0, '', $5, $6, $7, $13, $7, $8, $9, $10, $11, $12, '{}', 0, '')`,
		c.ID, number, c.Tenant, c.UpstreamID, c.ProfileVersion, c.CreatedAt, c.Now, outcome.EvidenceSentNoResponse,
		outcome.StageWrite, outcome.CategoryExecutorLost, DoubtDetail, outcome.BoundaryPossiblyCrossed, latest)
	if err != nil {
		return fmt.Errorf("record a lost attempt of command %s: %w", c.ID, err)
	}
	return nil
}

// undoubted are the unresolved commands that were accepted until $1 and have no lost
// attempt on record since, in SQL.
const undoubted = `
	phase IS NOT NULL AND created_at <= $1 AND NOT EXISTS (
		SELECT FROM attempts a WHERE a.command_id = commands.id AND a.detail = $2 AND a.ended_at >= $1)`

// CountAsSent puts a lost attempt on record of unresolved commands that were accepted
// until then: one more attempt, which an absence or a person allowed, may be what was
// lost, and what is not found says nothing of it before it could show. It does so for
// a bounded number and returns how many; there may be more.
func (s *Store) CountAsSent(ctx context.Context, until time.Time) (n int, err error) {
	err = s.commit(ctx, func(ctx context.Context, tx Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT id FROM commands WHERE `+undoubted+` ORDER BY id LIMIT $3 FOR UPDATE`, until, DoubtDetail, healBatch)
		if err != nil {
			return fmt.Errorf("lock unresolved commands: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if n = len(ids); err != nil || n == 0 {
			return err
		}
		// Another may have done it while this waited for the locks.
		rows, err = tx.Query(ctx, `SELECT `+lockedColumns+` FROM commands WHERE id = ANY($3) AND `+undoubted, until, DoubtDetail, ids)
		if err != nil {
			return fmt.Errorf("read unresolved commands: %w", err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Locked])
		if err != nil {
			return fmt.Errorf("read unresolved commands: %w", err)
		}
		doubt, err := s.doubt(ctx, tx)
		if err != nil {
			return err
		}
		ends := make([]time.Time, len(list))
		for i, c := range list {
			terms, err := s.Terms(ctx, c)
			if err != nil {
				return err
			}
			ends[i] = doubt.LatestEnd(terms, c)
			if err := recordLost(ctx, tx, c, c.Attempts+1, ends[i]); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `
			UPDATE commands c SET attempts = attempts + 1, version = version + 1, blocked_until = greatest(blocked_until, latest)
			FROM unnest($1::uuid[], $2::timestamptz[]) AS lost(id, latest) WHERE c.id = lost.id`,
			postgres.Column(list, func(c Locked) uuid.UUID { return c.ID }), ends)
		if err != nil {
			return fmt.Errorf("count lost attempts of unresolved commands: %w", err)
		}
		return noteEvidence(ctx, tx, ids)
	})
	return n, err
}
