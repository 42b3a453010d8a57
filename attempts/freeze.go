package attempts

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
	"executor/internal/groupcommit"
)

// Freeze stops sending in every process. Lookups, reads and submissions go on. An
// earlier freeze stays as it is.
func (d *Deployment) Freeze(ctx context.Context, by audit.By) (DeploymentState, error) {
	if err := d.freeze(ctx, by, noDoubt); err != nil {
		return DeploymentState{}, err
	}
	return d.Show(ctx)
}

// Doubt stops sending like Freeze, and says that the database may have lost what
// was committed last, as after a restore that left no trace: on Resume everything
// unfinished counts as possibly sent. Said again it counts from then on.
func (d *Deployment) Doubt(ctx context.Context, by audit.By) (DeploymentState, error) {
	if err := d.freeze(ctx, by, doubtAnew); err != nil {
		return DeploymentState{}, err
	}
	return d.Show(ctx)
}

// doubt is whether a freeze says that what was committed last may be lost.
type doubt int

const (
	noDoubt   doubt = iota
	doubtOnce       // for what may have been noted already
	doubtAnew       // whatever was noted before
)

// adds reports whether a freeze says more than the one that there is.
func (is doubt) adds(was standingNow) bool {
	switch is {
	case noDoubt:
		return !was.Frozen
	case doubtOnce:
		return !was.Frozen || !was.Doubtful || was.unnoted
	default:
		return true
	}
}

// freeze keeps an earlier reason. Where doubt begins the freeze counts anew, so
// that it covers what was accepted under an earlier, plain one; and so it does where the
// database was promoted or restored once more. Only Resume takes doubt back.
func (d *Deployment) freeze(ctx context.Context, by audit.By, how doubt) error {
	doubtful := how != noDoubt
	err := groupcommit.Commit(ctx, d.pool, func(tx pgx.Tx) error {
		was, err := lockDeployment(ctx, tx)
		if err != nil || !how.adds(was) {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE deployment SET frozen_at = clock_timestamp(), frozen_by = $1, frozen_reason = $2, doubtful = $3, `+notedSQL,
			by.Actor, by.Reason, doubtful)
		if err != nil {
			return err
		}
		is := standingNow{ID: was.ID, Frozen: true, FrozenBy: by.Actor, FrozenReason: by.Reason, Doubtful: doubtful}
		return noteDeployment(ctx, tx, audit.ActionDeploymentFreeze, by, was, is, nil)
	})
	if err != nil && !errors.Is(err, ErrNoDeployment) {
		return fmt.Errorf("freeze: %w", err)
	}
	return err
}

// notedSQL has a freeze say where the database stood.
const notedSQL = `doubted_system_identifier = ` + identitySQL + `, doubted_timeline = ` + timelineSQL

// standingNow is the deployment as the audit shows it.
type standingNow struct {
	ID           string `json:"id"`
	Frozen       bool   `json:"frozen"`
	FrozenBy     string `json:"frozen_by,omitempty"`
	FrozenReason string `json:"frozen_reason,omitempty"`
	Doubtful     bool   `json:"doubtful"`

	unnoted bool // see DeploymentState
}

// lockDeployment reads the deployment, which nobody else changes until the
// transaction ends.
func lockDeployment(ctx context.Context, tx pgx.Tx) (now standingNow, err error) {
	err = tx.QueryRow(ctx, `SELECT id, frozen_at IS NOT NULL, frozen_by, frozen_reason, doubtful, `+unnotedSQL+` FROM deployment FOR UPDATE`).
		Scan(&now.ID, &now.Frozen, &now.FrozenBy, &now.FrozenReason, &now.Doubtful, &now.unnoted)
	if errors.Is(err, pgx.ErrNoRows) {
		return now, ErrNoDeployment
	}
	return now, err
}

// noteDeployment writes into the deployment's own chain, as the last step of a
// transaction: what is done to it concerns every tenant.
func noteDeployment(ctx context.Context, tx pgx.Tx, action string, by audit.By, was, is, details any) error {
	return audit.Record(ctx, tx, audit.Entry{
		Tenant: audit.Deployment, Actor: by.Actor, Action: action, Subject: "deployment", Reason: by.Reason,
		Before: was, After: is, Details: details,
	})
}

// Adopt makes the data this deployment's own. Data that was another's is frozen
// and in doubt from then on, since its owner may have sent what it holds
// unfinished; Resume lets it send.
func (d *Deployment) Adopt(ctx context.Context, by audit.By) (DeploymentState, error) {
	if d.expected == "" {
		return DeploymentState{}, ErrNoDeployment
	}
	err := groupcommit.Commit(ctx, d.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			INSERT INTO deployment (id, system_identifier, timeline) VALUES ($1, `+identitySQL+`, `+timelineSQL+`)
			ON CONFLICT (only_row) DO NOTHING`, d.expected)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 1 {
			return noteDeployment(ctx, tx, audit.ActionDeploymentAdopt, by, nil, standingNow{ID: d.expected}, nil)
		}
		return d.takeOver(ctx, tx, by)
	})
	if err != nil {
		return DeploymentState{}, fmt.Errorf("adopt deployment %q: %w", d.expected, err)
	}
	return d.Show(ctx)
}

// takeOver makes another deployment's data this one's own.
func (d *Deployment) takeOver(ctx context.Context, tx pgx.Tx, by audit.By) error {
	was, err := lockDeployment(ctx, tx)
	if err != nil || was.ID == d.expected {
		return err
	}
	is := standingNow{
		ID: d.expected, Frozen: true, FrozenBy: by.Actor, Doubtful: true,
		FrozenReason: "adopted from deployment " + was.ID + ", which may have sent what is unfinished here",
	}
	_, err = tx.Exec(ctx, `
		UPDATE deployment SET id = $1, frozen_at = clock_timestamp(), frozen_by = $2, frozen_reason = $3, doubtful = true, `+notedSQL,
		is.ID, is.FrozenBy, is.FrozenReason)
	if err != nil {
		return err
	}
	return noteDeployment(ctx, tx, audit.ActionDeploymentAdopt, by, was, is, nil)
}
