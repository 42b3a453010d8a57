package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/upstreams"
)

var (
	// ErrNoDeployment: the data has no deployment id yet; `executor migrate`
	// adopts one on an empty database.
	ErrNoDeployment = errors.New("the data has no deployment id")
	// ErrOtherDeployment: the data belongs to another deployment.
	ErrOtherDeployment = errors.New("the data belongs to another deployment")
)

// DeploymentState is whose data this is, and whether sending stands still.
type DeploymentState struct {
	ID           string // of the data
	Expected     string // this process's; "" where it is not known
	FrozenAt     *time.Time
	FrozenBy     string
	FrozenReason string
	Doubtful     bool // a promotion or a restore: on resume everything unfinished counts as possibly sent
}

// Frozen reports whether nobody sends.
func (d DeploymentState) Frozen() bool { return d.FrozenAt != nil }

// Foreign reports whether the data is another deployment's than this process's,
// which then sends nothing.
func (d DeploymentState) Foreign() bool { return d.Expected != "" && d.ID != d.Expected }

// Deployment guards the data against being used by two: a copy of production
// sends nothing, and neither does a database that may have lost its tail.
type Deployment struct {
	pool     *pgxpool.Pool
	expected string
	store    *Store // nil where only to show or freeze
}

// NewDeployment builds a Deployment. Resume after a promotion or a restore
// needs the store, since it decides about commands.
func NewDeployment(pool *pgxpool.Pool, expected string, store *Store) *Deployment {
	return &Deployment{pool: pool, expected: expected, store: store}
}

// OpenDeployment builds a Deployment for a tool that runs no engine.
func OpenDeployment(pool *pgxpool.Pool, expected string, cmds *commands.Store, ups *upstreams.Store) *Deployment {
	lease := NewLease(pool, "operator", 0, slog.New(slog.DiscardHandler))
	return NewDeployment(pool, expected, NewStore(pool, cmds, ups, lease))
}

// Show reads the state.
func (d *Deployment) Show(ctx context.Context) (DeploymentState, error) {
	s := DeploymentState{Expected: d.expected}
	err := d.pool.QueryRow(ctx, `SELECT id, frozen_at, frozen_by, frozen_reason, doubtful FROM deployment`).
		Scan(&s.ID, &s.FrozenAt, &s.FrozenBy, &s.FrozenReason, &s.Doubtful)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, ErrNoDeployment
	}
	if err != nil {
		return s, fmt.Errorf("read deployment: %w", err)
	}
	return s, nil
}

// Freeze stops sending in every process. Lookups, reads and submissions go on.
func (d *Deployment) Freeze(ctx context.Context, reason, actor string) (DeploymentState, error) {
	if err := d.freeze(ctx, actor, reason, false); err != nil {
		return DeploymentState{}, err
	}
	return d.Show(ctx)
}

// Doubt stops sending like Freeze, and says that the database may have lost what
// was committed last, as after a restore that left no trace: on Resume everything
// unfinished counts as possibly sent.
func (d *Deployment) Doubt(ctx context.Context, reason, actor string) (DeploymentState, error) {
	if err := d.freeze(ctx, actor, reason, true); err != nil {
		return DeploymentState{}, err
	}
	return d.Show(ctx)
}

// freeze keeps an earlier reason. Where doubt begins the freeze counts anew, so
// that it covers what was accepted under an earlier, plain one. Only Resume takes
// doubt back.
func (d *Deployment) freeze(ctx context.Context, actor, reason string, doubtful bool) error {
	tag, err := d.pool.Exec(ctx, `
		UPDATE deployment SET
			frozen_at = CASE WHEN frozen_at IS NULL OR ($3 AND NOT doubtful) THEN clock_timestamp() ELSE frozen_at END,
			frozen_by = CASE WHEN frozen_at IS NULL OR ($3 AND NOT doubtful) THEN $1 ELSE frozen_by END,
			frozen_reason = CASE WHEN frozen_at IS NULL OR ($3 AND NOT doubtful) THEN $2 ELSE frozen_reason END,
			doubtful = doubtful OR $3`, actor, reason, doubtful)
	if err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNoDeployment
	}
	return nil
}

// noticed makes sure that a promotion or a restore is not resumed from as if there had
// been none: no process may have run since to see it.
func (d *Deployment) noticed(ctx context.Context, s DeploymentState, actor string) (DeploymentState, error) {
	moved, err := d.Moved(ctx)
	if err != nil || !moved || s.Doubtful {
		return s, err
	}
	if err := d.freeze(ctx, actor, movedReason, true); err != nil {
		return s, err
	}
	return d.Show(ctx)
}

const movedReason = "the database was promoted or restored since it last sent: what was committed last may be lost"

// Check is asked once at the start of a process. It freezes what must not send:
// a database that was promoted or restored since it last sent, or any on request.
// Data of another deployment is left alone: a process does not send with it until
// somebody adopts it.
func (d *Deployment) Check(ctx context.Context, instance string, frozen bool) (DeploymentState, error) {
	s, err := d.Show(ctx)
	if err != nil {
		return s, err
	}
	moved, err := d.Moved(ctx)
	if err != nil {
		return s, err
	}
	switch {
	case s.Foreign(): // this process alone sends nothing: a wrong id must not stop the owner's
		return s, nil
	case moved:
		err = d.freeze(ctx, instance, movedReason, true)
	case frozen:
		err = d.freeze(ctx, instance, "started with --frozen", false)
	}
	if err != nil {
		return s, err
	}
	return d.Show(ctx)
}

// identitySQL names the database that holds the data: a copy or a restore has
// another one, on another server or beside the first.
const identitySQL = `(SELECT system_identifier::text FROM pg_control_system()) || '/' ||
	(SELECT oid::text FROM pg_database WHERE datname = current_database())`

// Moved reports whether the database was promoted or restored since it last sent.
func (d *Deployment) Moved(ctx context.Context) (moved bool, err error) {
	err = d.pool.QueryRow(ctx, `SELECT system_identifier <> `+identitySQL+` OR timeline <> `+timelineSQL+` FROM deployment`).Scan(&moved)
	if err != nil {
		return false, fmt.Errorf("compare the database's identity: %w", err)
	}
	return moved, nil
}

// AdoptEmpty names the owner of a database without data, and reports whether it
// did. A database that has commands and no owner is a copy of something: only a
// person adopts it.
func (d *Deployment) AdoptEmpty(ctx context.Context) (bool, error) {
	tag, err := d.pool.Exec(ctx, `
		INSERT INTO deployment (id, system_identifier, timeline)
		SELECT $1, `+identitySQL+`, `+timelineSQL+` WHERE NOT EXISTS (SELECT FROM commands)
		ON CONFLICT (only_row) DO NOTHING`, d.expected)
	if err != nil {
		return false, fmt.Errorf("adopt the deployment id %s: %w", d.expected, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Adopt makes the data this deployment's own. Data that was another's is frozen
// and in doubt from then on, since its owner may have sent what it holds
// unfinished; Resume lets it send.
func (d *Deployment) Adopt(ctx context.Context, actor string) (DeploymentState, error) {
	if d.expected == "" {
		return DeploymentState{}, ErrNoDeployment
	}
	_, err := d.pool.Exec(ctx, `
		INSERT INTO deployment (id, system_identifier, timeline)
		VALUES ($1, `+identitySQL+`, `+timelineSQL+`)
		ON CONFLICT (only_row) DO UPDATE SET
			id = excluded.id,
			frozen_at = CASE WHEN deployment.id = excluded.id THEN deployment.frozen_at ELSE clock_timestamp() END,
			frozen_by = CASE WHEN deployment.id = excluded.id THEN deployment.frozen_by ELSE $2 END,
			frozen_reason = CASE WHEN deployment.id = excluded.id THEN deployment.frozen_reason
				ELSE 'adopted from deployment ' || deployment.id || ', which may have sent what is unfinished here' END,
			doubtful = deployment.doubtful OR deployment.id <> excluded.id`, d.expected, actor)
	if err != nil {
		return DeploymentState{}, fmt.Errorf("adopt deployment %q: %w", d.expected, err)
	}
	return d.Show(ctx)
}

// Resume lets the deployment send again. After a promotion or a restore every
// command that was accepted before the freeze and is not settled first gets a
// synthetic lost attempt, since the record of a real one may be what was lost;
// the rules then decide, whether or not anybody has noticed it before. After a plain
// freeze nothing is added.
func (d *Deployment) Resume(ctx context.Context, actor string) (DeploymentState, error) {
	s, err := d.Show(ctx)
	if err != nil {
		return s, err
	}
	if d.expected != "" && s.ID != d.expected {
		return s, fmt.Errorf("%w: it is %q, this is %q; adopt it first", ErrOtherDeployment, s.ID, d.expected)
	}
	if s, err = d.noticed(ctx, s, actor); err != nil {
		return s, err
	}
	if s.Doubtful {
		if err := d.doubt(ctx, *s.FrozenAt); err != nil {
			return s, err
		}
	}
	_, err = d.pool.Exec(ctx, `
		UPDATE deployment SET frozen_at = NULL, frozen_by = '', frozen_reason = '', doubtful = false,
			system_identifier = `+identitySQL+`, timeline = `+timelineSQL+`
		WHERE frozen_at IS NOT DISTINCT FROM $1 AND doubtful = $2`, s.FrozenAt, s.Doubtful)
	if err != nil {
		return s, fmt.Errorf("resume: %w", err)
	}
	return d.Show(ctx)
}

// doubt gives every unfinished command its synthetic attempt. One that has it
// already, from a Resume that was cut off, is not given another.
func (d *Deployment) doubt(ctx context.Context, frozenAt time.Time) error {
	if d.store == nil {
		return errors.New("resume after a promotion or a restore needs a store to decide with")
	}
	for {
		rows, err := d.pool.Query(ctx, `
			SELECT c.id, c.attempts FROM commands c
			WHERE c.state = 'pending' AND c.created_at <= $1 AND NOT EXISTS (
				SELECT FROM attempts a WHERE a.command_id = c.id AND a.detail = $2 AND a.ended_at >= $1)
			LIMIT $3`, frozenAt, commands.DoubtDetail, batchRows)
		if err != nil {
			return fmt.Errorf("find unfinished commands: %w", err)
		}
		list, err := pgx.CollectRows(rows, pgx.RowToStructByName[doubted])
		if err != nil {
			return fmt.Errorf("find unfinished commands: %w", err)
		}
		if len(list) == 0 {
			return d.doubtUnresolved(ctx, frozenAt)
		}
		if err := d.doubtBatch(ctx, list); err != nil {
			return err
		}
	}
}

// doubtUnresolved gives those their synthetic attempt that were in doubt already: one
// that was sent once more since may look as if it never had been. An attempt that is
// open stands for whatever came after it.
func (d *Deployment) doubtUnresolved(ctx context.Context, frozenAt time.Time) error {
	_, err := d.pool.Exec(ctx, `
		UPDATE attempts a SET latest_end = greatest(a.latest_end, clock_timestamp())
		FROM commands c WHERE a.ended_at IS NULL AND c.id = a.command_id AND c.created_at <= $1`, frozenAt)
	if err != nil {
		return fmt.Errorf("prolong open attempts: %w", err)
	}
	for {
		n, err := d.store.commands.CountAsSent(ctx, frozenAt)
		if err != nil {
			return fmt.Errorf("find unresolved commands: %w", err)
		}
		if n == 0 {
			return nil
		}
	}
}

// doubted is an unfinished command and how many attempts it has on record.
type doubted struct {
	ID       uuid.UUID
	Attempts int
}

func (d *Deployment) doubtBatch(ctx context.Context, list []doubted) error {
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
			if err != nil && !errors.Is(err, ErrNotPending) && !errors.Is(err, errBusy) { // a busy one is found again
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	each.Wait()
	return errors.Join(errs...)
}
