package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
)

// Lease is this process's right to send, renewed by database time. Its epoch
// fences every attempt begun under it. What the process believes is always the
// shorter half: validity counts from before the renewal was asked for.
type Lease struct {
	pool     *pgxpool.Pool
	instance string
	ttl      time.Duration
	log      *slog.Logger

	mu        sync.Mutex
	epoch     int64
	epochs    []int64   // all this process ever held
	until     time.Time // monotonic clock
	wall      time.Time // wall clock: a suspended machine's monotonic clock stands still
	unbroken  time.Time // held without a gap since
	renewedAt time.Time // of the database, to notice one that went backwards
	rewound   bool      // it did: not held until forget
}

// errLeaseGone: the lease was ended by another process, or this database never
// had it.
var errLeaseGone = errors.New("lease gone")

// errRewound: what this process renewed before is gone or older, as after a
// restore or a promotion that lost its tail, or the database was promoted. It is
// not held until somebody has taken note.
var errRewound = errors.New("a lease went backwards or is gone, or the timeline changed: the database was promoted or restored")

const timelineSQL = commands.TimelineSQL

// promotedSQL says that the timeline is not the one on record, and that nobody
// has taken note yet.
const promotedSQL = `EXISTS (SELECT FROM deployment WHERE timeline <> ` + timelineSQL + ` AND NOT (doubtful AND frozen_at IS NOT NULL AND doubted_timeline = ` + timelineSQL + `))`

// NewLease makes a lease that is not held yet.
func NewLease(pool *pgxpool.Pool, instance string, ttl time.Duration, log *slog.Logger) *Lease {
	return &Lease{pool: pool, instance: instance, ttl: ttl, log: log}
}

// Hold renews the lease, or takes a new one under the next epoch where there is
// none to renew. With errRewound it holds nothing, now and until forget.
func (l *Lease) Hold(ctx context.Context) error {
	l.mu.Lock()
	epoch, last, rewound := l.epoch, l.renewedAt, l.rewound
	l.mu.Unlock()
	if rewound {
		return errRewound
	}
	if epoch != 0 {
		err := l.renew(ctx, epoch, last)
		if !errors.Is(err, errLeaseGone) {
			return err
		}
		l.log.Warn("lease lapsed; taking a new one", "epoch", epoch, "instance", l.instance)
	}
	return l.acquire(ctx)
}

func (l *Lease) acquire(ctx context.Context) error {
	asked := time.Now()
	var (
		epoch    int64
		renewed  time.Time
		promoted bool
	)
	err := l.pool.QueryRow(ctx, `
		INSERT INTO leases (instance, acquired_at, renewed_at, expires_at)
		SELECT $1, t, t, t + $2 FROM clock_timestamp() AS t
		RETURNING epoch, renewed_at, `+promotedSQL, l.instance, l.ttl).Scan(&epoch, &renewed, &promoted)
	switch {
	case err != nil:
		return fmt.Errorf("acquire lease: %w", err)
	case promoted:
		return l.rewind()
	}
	l.hold(epoch, asked, renewed)
	return nil
}

func (l *Lease) renew(ctx context.Context, epoch int64, last time.Time) error {
	asked := time.Now()
	var (
		before, renewed time.Time
		promoted        bool
	)
	err := l.pool.QueryRow(ctx, `
		UPDATE leases l SET renewed_at = t, expires_at = t + $2
		FROM (SELECT renewed_at FROM leases WHERE epoch = $1) old, clock_timestamp() AS t
		WHERE epoch = $1 AND instance = $3 AND ended_at IS NULL
		RETURNING old.renewed_at, l.renewed_at, `+promotedSQL, epoch, l.ttl, l.instance).Scan(&before, &renewed, &promoted)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return l.gone(ctx, epoch)
	case err != nil:
		return fmt.Errorf("renew lease %d: %w", epoch, err)
	case promoted, before.Before(last):
		return l.rewind()
	}
	l.hold(epoch, asked, renewed)
	return nil
}

// gone says why there is no lease to renew.
func (l *Lease) gone(ctx context.Context, epoch int64) error {
	known, err := l.known(ctx, epoch)
	switch {
	case err != nil:
		return err
	case !known:
		return l.rewind()
	default:
		return errLeaseGone
	}
}

// rewind lets go of the lease until somebody has taken note.
func (l *Lease) rewind() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rewound = true
	return errRewound
}

// forget starts over, as a process that never had a lease: a database that went
// backwards gives the same epochs out again, to others.
func (l *Lease) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rewound, l.epoch, l.epochs = false, 0, nil
}

// known reports whether the database ever had this process's lease.
func (l *Lease) known(ctx context.Context, epoch int64) (bool, error) {
	var known bool
	err := l.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM leases WHERE epoch = $1 AND instance = $2)`, epoch, l.instance).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("look up lease %d: %w", epoch, err)
	}
	return known, nil
}

func (l *Lease) hold(epoch int64, asked, renewed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != epoch || !asked.Before(l.until) {
		l.unbroken = asked
	}
	if l.epoch != epoch {
		l.epochs = append(l.epochs, epoch)
	}
	l.epoch, l.renewedAt = epoch, renewed
	l.until, l.wall = asked.Add(l.ttl), asked.Round(0).Add(l.ttl)
}

// Held returns the epoch and until when it holds for certain, by both clocks.
func (l *Lease) Held() (epoch int64, until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.epoch, l.until, l.epoch != 0 && !l.rewound && now.Before(l.until) && now.Round(0).Before(l.wall)
}

// Epochs are all that this process ever held. An instance's name says less: a
// process may have taken over the name of a dead one.
func (l *Lease) Epochs() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.epochs)
}

// Steady reports whether the lease was held without a gap for one lease time.
// Only then may its holder judge others: after an outage of the database
// everybody's lease has lapsed, and everybody gets the time to come back.
func (l *Lease) Steady() bool {
	_, _, ok := l.Held()
	l.mu.Lock()
	defer l.mu.Unlock()
	return ok && time.Since(l.unbroken) >= l.ttl
}

// Release ends the lease, so that others need not wait for it to lapse.
func (l *Lease) Release(ctx context.Context) error {
	l.mu.Lock()
	epoch := l.epoch
	l.epoch = 0
	l.mu.Unlock()
	if epoch == 0 {
		return nil
	}
	_, err := l.pool.Exec(ctx, `UPDATE leases SET ended_at = clock_timestamp() WHERE epoch = $1 AND ended_at IS NULL`, epoch)
	if err != nil {
		return fmt.Errorf("release lease %d: %w", epoch, err)
	}
	return nil
}
