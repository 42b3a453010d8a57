package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/upstreams"
)

var (
	// ErrNoDeployment: the data has no deployment id yet; `executor migrate`
	// adopts one on an empty database.
	ErrNoDeployment = errors.New("the data has no deployment id")
	// ErrOtherDeployment: the data belongs to another deployment.
	ErrOtherDeployment = errors.New("the data belongs to another deployment")
	// ErrNotResumed: sending stays off, for the reason that is wrapped too.
	ErrNotResumed = errors.New("the deployment is not resumed")
)

// DeploymentState is whose data this is, and whether sending stands still.
type DeploymentState struct {
	ID           string // of the data
	Expected     string // this process's; "" where it is not known
	FrozenAt     *time.Time
	FrozenBy     string
	FrozenReason string
	Doubtful     bool  // a promotion or a restore: on resume everything unfinished counts as possibly sent
	Timeline     int64 // of the database when it last sent; grows with every promotion
	Moved        bool  // the database was promoted or restored since it last sent: resuming will find it doubtful
	Unnoted      bool  // and nobody has frozen it for that yet
}

// Frozen reports whether nobody sends.
func (d DeploymentState) Frozen() bool { return d.FrozenAt != nil }

// SeenBy is the state as somebody of one tenant may see it: the reason of a freeze
// is for all of them, the name of another tenant is not. A person is on record as
// TENANT/NAME, a machine and who has the database by other names.
func (d DeploymentState) SeenBy(tenant string) DeploymentState {
	if of, _, named := strings.Cut(d.FrozenBy, "/"); named && of != tenant {
		d.FrozenBy = "an operator of the deployment"
	}
	return d
}

// Foreign reports whether the data is another deployment's than this process's,
// which then sends nothing.
func (d DeploymentState) Foreign() bool { return d.Expected != "" && d.ID != d.Expected }

// Deployment guards the data against being used by two: a copy of production
// sends nothing, and neither does a database that may have lost its tail.
type Deployment struct {
	pool     *pgxpool.Pool
	expected string
	store    *Store                      // nil where only to show or freeze
	fit      func(context.Context) error // see Demand
}

// NewDeployment builds a Deployment. Resume after a promotion or a restore
// needs the store, since it decides about commands.
func NewDeployment(pool *pgxpool.Pool, expected string, store *Store) *Deployment {
	fit := func(context.Context) error { return nil }
	return &Deployment{pool: pool, expected: expected, store: store, fit: fit}
}

// Demand has Resume ask first whether the database is fit to send with. Its error says
// what is to be mended.
func (d *Deployment) Demand(fit func(context.Context, *pgxpool.Pool) error) {
	d.fit = func(ctx context.Context) error { return fit(ctx, d.pool) }
}

// OpenDeployment builds a Deployment for a tool that runs no engine.
func OpenDeployment(pool *pgxpool.Pool, expected string, cmds *commands.Store, ups *upstreams.Store) *Deployment {
	lease := NewLease(pool, "operator", 0, slog.New(slog.DiscardHandler))
	return NewDeployment(pool, expected, NewStore(pool, cmds, ups, lease))
}

// Show reads the state.
func (d *Deployment) Show(ctx context.Context) (DeploymentState, error) {
	s := DeploymentState{Expected: d.expected}
	err := d.pool.QueryRow(ctx, `SELECT id, frozen_at, frozen_by, frozen_reason, doubtful, timeline, `+movedSQL+`, `+unnotedSQL+` FROM deployment`).
		Scan(&s.ID, &s.FrozenAt, &s.FrozenBy, &s.FrozenReason, &s.Doubtful, &s.Timeline, &s.Moved, &s.Unnoted)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, ErrNoDeployment
	}
	if err != nil {
		return s, fmt.Errorf("read deployment: %w", err)
	}
	return s, nil
}

// Check is asked once at the start of a process. It freezes what must not send:
// a database that was promoted or restored since it last sent, or any on request.
// Data of another deployment is left alone: a process does not send with it until
// somebody adopts it.
func (d *Deployment) Check(ctx context.Context, instance string, frozen bool) (DeploymentState, error) {
	s, err := d.Show(ctx)
	if err != nil {
		return s, err
	}
	switch {
	case s.Foreign(): // this process alone sends nothing: a wrong id must not stop the owner's
		return s, nil
	case s.Unnoted:
		err = d.freeze(ctx, audit.By{Actor: instance, Reason: movedReason}, doubtOnce)
	case frozen:
		err = d.freeze(ctx, audit.By{Actor: instance, Reason: "started with --frozen"}, noDoubt)
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

// Hop is the name by which a deployment recognises its own requests. Two that have
// the same id in different databases have different names.
func Hop(ctx context.Context, pool *pgxpool.Pool, deployment string) (string, error) {
	var database string
	if err := pool.QueryRow(ctx, `SELECT `+identitySQL).Scan(&database); err != nil {
		return "", fmt.Errorf("read the database's identity: %w", err)
	}
	return egress.Hop(deployment, database), nil
}

// movedSQL tells of a row of the table deployment.
const movedSQL = `(system_identifier <> ` + identitySQL + ` OR timeline <> ` + timelineSQL + `)`

// unnotedSQL: it was moved, and that is not what it is frozen for. One that was frozen
// in doubt and promoted again may have lost a resume in between, and what was sent then.
const unnotedSQL = `(` + movedSQL + ` AND NOT (doubtful AND frozen_at IS NOT NULL
	AND doubted_system_identifier = ` + identitySQL + ` AND doubted_timeline = ` + timelineSQL + `))`

// Moved reports whether the database was promoted or restored since it last sent.
func (d *Deployment) Moved(ctx context.Context) (moved bool, err error) {
	err = d.pool.QueryRow(ctx, `SELECT `+movedSQL+` FROM deployment`).Scan(&moved)
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
