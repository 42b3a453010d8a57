package attempts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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
	until     time.Time // monotonic clock
	wall      time.Time // wall clock: a suspended machine's monotonic clock stands still
	unbroken  time.Time // held without a gap since
	renewedAt time.Time // of the database, to notice one that went backwards
}

// errLeaseGone: the lease was ended by another process, or this database never
// had it.
var errLeaseGone = errors.New("lease gone")

// NewLease makes a lease that is not held yet.
func NewLease(pool *pgxpool.Pool, instance string, ttl time.Duration, log *slog.Logger) *Lease {
	return &Lease{pool: pool, instance: instance, ttl: ttl, log: log}
}

// Hold renews the lease, or takes a new one under the next epoch where there is
// none to renew. It reports whether the database went backwards: the row that
// this process renewed before is gone or older, as after a restore or a
// promotion that lost its tail.
func (l *Lease) Hold(ctx context.Context) (rewound bool, err error) {
	l.mu.Lock()
	epoch, last := l.epoch, l.renewedAt
	l.mu.Unlock()
	if epoch != 0 {
		rewound, err = l.renew(ctx, epoch, last)
		if !errors.Is(err, errLeaseGone) {
			return rewound, err
		}
		l.log.Warn("lease lapsed; taking a new one", "epoch", epoch, "instance", l.instance)
	}
	return rewound, l.acquire(ctx)
}

func (l *Lease) acquire(ctx context.Context) error {
	asked := time.Now()
	var (
		epoch   int64
		renewed time.Time
	)
	err := l.pool.QueryRow(ctx, `
		INSERT INTO leases (instance, acquired_at, renewed_at, expires_at)
		SELECT $1, t, t, t + $2 FROM clock_timestamp() AS t
		RETURNING epoch, renewed_at`, l.instance, l.ttl).Scan(&epoch, &renewed)
	if err != nil {
		return fmt.Errorf("acquire lease: %w", err)
	}
	l.hold(epoch, asked, renewed)
	return nil
}

func (l *Lease) renew(ctx context.Context, epoch int64, last time.Time) (rewound bool, err error) {
	asked := time.Now()
	var before, renewed time.Time
	err = l.pool.QueryRow(ctx, `
		UPDATE leases l SET renewed_at = t, expires_at = t + $2
		FROM (SELECT renewed_at FROM leases WHERE epoch = $1) old, clock_timestamp() AS t
		WHERE epoch = $1 AND instance = $3 AND ended_at IS NULL
		RETURNING old.renewed_at, l.renewed_at`, epoch, l.ttl, l.instance).Scan(&before, &renewed)
	if errors.Is(err, pgx.ErrNoRows) {
		known, err := l.known(ctx, epoch)
		if err != nil {
			return false, err
		}
		return !known, errLeaseGone
	}
	if err != nil {
		return false, fmt.Errorf("renew lease %d: %w", epoch, err)
	}
	l.hold(epoch, asked, renewed)
	return before.Before(last), nil
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
	l.epoch, l.renewedAt = epoch, renewed
	l.until, l.wall = asked.Add(l.ttl), asked.Round(0).Add(l.ttl)
}

// Held returns the epoch and until when it holds for certain, by both clocks.
func (l *Lease) Held() (epoch int64, until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.epoch, l.until, l.epoch != 0 && now.Before(l.until) && now.Round(0).Before(l.wall)
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
