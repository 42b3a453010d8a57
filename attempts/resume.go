package attempts

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/groupcommit"
	"executor/internal/postgres"
)

const movedReason = "the database was promoted or restored since it last sent: what was committed last may be lost"

// Resume lets the deployment send again. After a promotion or a restore every
// command that was accepted before the freeze and is not settled first gets a
// synthetic lost attempt, since the record of a real one may be what was lost;
// the rules then decide, whether or not anybody has noticed it before. After a plain
// freeze nothing is added. PreviewResume says what it would do. ErrNotResumed where
// the database is not fit to send with: it would be frozen again at the next look.
func (d *Deployment) Resume(ctx context.Context, by audit.By) (DeploymentState, error) {
	s, err := d.Show(ctx)
	if err != nil {
		return s, err
	}
	if s.Foreign() {
		return s, fmt.Errorf("%w: it is %q, this is %q; adopt it first", ErrOtherDeployment, s.ID, d.expected)
	}
	switch err := d.fit(ctx); {
	case errors.Is(err, postgres.ErrNotDurable):
		return s, fmt.Errorf("%w: %w", ErrNotResumed, err)
	case err != nil: // nobody knows, as the database is away for instance
		return s, fmt.Errorf("resume: %w", err)
	}
	if s, err = d.noticed(ctx, s, by.Actor); err != nil {
		return s, err
	}
	doubted := 0
	if s.Doubtful {
		if doubted, err = d.doubt(ctx, *s.FrozenAt); err != nil {
			return s, err
		}
	}
	if err := d.thaw(ctx, s, by, doubted); err != nil {
		return s, fmt.Errorf("resume: %w", err)
	}
	return d.Show(ctx)
}

// noticed makes sure that a promotion or a restore is not resumed from as if there had
// been none: no process may have run since to see it.
func (d *Deployment) noticed(ctx context.Context, s DeploymentState, actor string) (DeploymentState, error) {
	if !s.Unnoted {
		return s, nil
	}
	if err := d.freeze(ctx, audit.By{Actor: actor, Reason: movedReason}, doubtOnce); err != nil {
		return s, err
	}
	return d.Show(ctx)
}

// thaw ends the freeze that was seen, and no later one; and none on a database that
// has taken over since: that is not the one whose commands were looked at.
func (d *Deployment) thaw(ctx context.Context, s DeploymentState, by audit.By, doubted int) error {
	return groupcommit.Commit(ctx, d.pool, func(tx pgx.Tx) error {
		was, err := lockDeployment(ctx, tx)
		if err == nil && was.unnoted {
			err = fmt.Errorf("%w: the database was promoted or restored meanwhile; look whether it is the right one, and resume again", ErrNotResumed)
		}
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			UPDATE deployment SET frozen_at = NULL, frozen_by = '', frozen_reason = '', doubtful = false,
				system_identifier = `+identitySQL+`, timeline = `+timelineSQL+`
			WHERE frozen_at = $1 AND doubtful = $2`, s.FrozenAt, s.Doubtful)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		var details any
		if s.Doubtful {
			details = map[string]int{"counted_as_sent": doubted}
		}
		return noteDeployment(ctx, tx, audit.ActionDeploymentResume, by, was, standingNow{ID: was.ID}, details)
	})
}

// ResumePreview is what a resume would do now.
type ResumePreview struct {
	Doubtful bool // everything unfinished counts as possibly sent first
	Commands int  // that get a synthetic lost attempt, counted up to previewed
	More     bool // there are more than Commands
}

// previewed bounds how many commands a preview counts.
const previewed = 1000

// previewSQL counts what doubt and doubtUnresolved would find, over the indexes of
// what is pending and what is unresolved.
const previewSQL = `
	WITH frozen AS (SELECT coalesce($1::timestamptz, clock_timestamp()) AS at), open AS (
		(SELECT id, created_at FROM commands WHERE next_attempt_at IS NOT NULL)
		UNION ALL (SELECT id, created_at FROM commands WHERE phase IS NOT NULL))
	SELECT count(*) FROM (
		SELECT FROM frozen, open WHERE open.created_at <= frozen.at AND NOT EXISTS (
			SELECT FROM attempts a WHERE a.command_id = open.id AND a.detail = $2 AND a.ended_at >= frozen.at)
		LIMIT $3) found`

// PreviewResume says what Resume would do, and changes nothing.
func (d *Deployment) PreviewResume(ctx context.Context) (ResumePreview, error) {
	s, err := d.Show(ctx)
	if err != nil || !s.Doubtful && !s.Moved {
		return ResumePreview{}, err
	}
	from := s.FrozenAt
	if s.Unnoted { // it would be noticed, and the freeze count from then on
		from = nil
	}
	var n int
	err = d.pool.QueryRow(ctx, previewSQL, from, commands.DoubtDetail, previewed+1).Scan(&n)
	if err != nil {
		return ResumePreview{}, fmt.Errorf("count unfinished commands: %w", err)
	}
	return ResumePreview{Doubtful: true, Commands: min(n, previewed), More: n > previewed}, nil
}

// doubt gives every unfinished command its synthetic attempt. One that has it
// already, from a Resume that was cut off, is not given another. It returns how many
// it gave.
func (d *Deployment) doubt(ctx context.Context, frozenAt time.Time) (n int, err error) {
	if d.store == nil {
		return 0, errors.New("resume after a promotion or a restore needs a store to decide with")
	}
	for {
		rows, err := d.pool.Query(ctx, `
			SELECT c.id, c.attempts FROM commands c
			WHERE c.state = 'pending' AND c.created_at <= $1 AND NOT EXISTS (
				SELECT FROM attempts a WHERE a.command_id = c.id AND a.detail = $2 AND a.ended_at >= $1)
			LIMIT $3`, frozenAt, commands.DoubtDetail, batchRows)
		if err != nil {
			return n, fmt.Errorf("find unfinished commands: %w", err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByName[doubted])
		if err != nil {
			return n, fmt.Errorf("find unfinished commands: %w", err)
		}
		if len(list) == 0 {
			unresolved, err := d.doubtUnresolved(ctx, frozenAt)
			return n + unresolved, err
		}
		given, err := d.doubtBatch(ctx, list)
		n += given
		if err != nil {
			return n, err
		}
	}
}

// doubtUnresolved gives those their synthetic attempt that were in doubt already: one
// that was sent once more since may look as if it never had been. An attempt that is
// open stands for whatever came after it.
func (d *Deployment) doubtUnresolved(ctx context.Context, frozenAt time.Time) (all int, err error) {
	_, err = d.pool.Exec(ctx, `
		UPDATE attempts a SET latest_end = greatest(a.latest_end, clock_timestamp(), $1 + $2 + (a.latest_end - a.send_deadline))
		FROM commands c WHERE a.ended_at IS NULL AND c.id = a.command_id AND c.created_at <= $1`, frozenAt, sendWindow)
	if err != nil {
		return 0, fmt.Errorf("prolong open attempts: %w", err)
	}
	for {
		n, err := d.store.commands.CountAsSent(ctx, frozenAt)
		if err != nil {
			return all, fmt.Errorf("find unresolved commands: %w", err)
		}
		if n == 0 {
			return all, nil
		}
		all += n
	}
}

// doubted is an unfinished command and how many attempts it has on record.
type doubted struct {
	ID       uuid.UUID
	Attempts int
}

func (d *Deployment) doubtBatch(ctx context.Context, list []doubted) (given int, err error) {
	var (
		each sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, c := range list {
		each.Go(func() {
			_, err := d.store.Finish(ctx, Report{
				CommandID: c.ID, After: c.Attempts, Lost: true,
				Start: Start{CommandID: c.ID, Request: `{}`, BodySHA256: []byte{}}, Ending: lostEnding(commands.DoubtDetail),
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				given++
			case !errors.Is(err, ErrNotPending) && !errors.Is(err, errBusy): // a busy one is found again
				errs = append(errs, err)
			}
		})
	}
	each.Wait()
	return given, errors.Join(errs...)
}
