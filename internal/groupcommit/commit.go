package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/postgres"
)

// ErrUnknown means that the answer to COMMIT was lost: the transaction took
// place, or did not, or still may in a moment. A plain read right afterwards
// proves nothing; repeat the same guarded write, which queues behind it.
var ErrUnknown = errors.New("it is unknown whether the transaction was committed")

// errUnreplicated: the server gave up waiting for its synchronous standby, because
// somebody cancelled the wait. The transaction took place there and can be seen, and
// is gone if the standby takes over.
var errUnreplicated = errors.New("the commit was not replicated")

const (
	// commitBound is generous, because giving up on a COMMIT is what makes its
	// outcome unknown. It also ends the wait for a synchronous standby, which
	// makes an unreplicated commit visible.
	commitBound = 30 * time.Second
	// rollbackBound: a connection that cannot roll back in this time is closed.
	rollbackBound = 5 * time.Second
	// tries of a transaction that lost against another one.
	tries = 4
)

// Commit runs fn in a transaction and commits it. Any error but ErrUnknown is
// definite: nothing of it was committed.
//
// The context governs the way to COMMIT; from there on it is not heeded. A
// transaction that failed because of another one (deadlock, serialization) is
// run again a few times, so fn must set anew whatever it leaves behind.
func Commit(ctx context.Context, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) error {
	_, err := commit(ctx, pool, fn)
	return err
}

// commit also tells whether the error is of the connection rather than of what
// fn did: then it would hit any other transaction just the same.
func commit(ctx context.Context, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) (disconnected bool, err error) {
	for try := 1; ; try++ {
		disconnected, err = commitOnce(ctx, pool, fn)
		if try == tries || !lostRace(err) || !pause(ctx, try) {
			return disconnected, err
		}
	}
}

func commitOnce(ctx context.Context, pool *pgxpool.Pool, fn func(tx pgx.Tx) error) (disconnected bool, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return true, fmt.Errorf("begin a transaction: %w", err)
	}
	defer conn.Release()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return true, fmt.Errorf("begin a transaction: %w", err)
	}
	ended := false
	defer func() {
		if !ended { // also when fn panics
			rollback(ctx, tx)
		}
	}()
	if err := fn(tx); err != nil {
		return tx.Conn().IsClosed(), err // COMMIT was never sent
	}
	ended = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitBound)
	defer cancel()
	before := postgres.Unreplicated(conn.Conn().PgConn())
	err = tx.Commit(ctx)
	switch {
	case err == nil && postgres.Unreplicated(conn.Conn().PgConn()) > before:
		return false, fmt.Errorf("%w: %w", ErrUnknown, errUnreplicated)
	case err == nil:
		return false, nil
	case certain(err):
		return false, fmt.Errorf("commit: %w", err)
	default:
		return false, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
}

func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackBound)
	defer cancel()
	_ = tx.Rollback(ctx) // if it fails the connection is closed, which rolls back too
}

// certain tells whether the error of a COMMIT proves that nothing was
// committed. Everything not listed is doubt.
func certain(err error) bool {
	var pgErr *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback): // the server said ROLLBACK
		return true
	case pgconn.SafeToRetry(err): // COMMIT was not sent
		return true
	case errors.As(err, &pgErr):
		return refused(pgErr)
	default:
		return false
	}
}

// refused tells whether the server turned the COMMIT down. A server or pooler
// that goes away says so at any moment, after the commit too.
func refused(err *pgconn.PgError) bool {
	const completionUnknown = "40003"
	switch {
	case err.SeverityUnlocalized != "ERROR": // FATAL, PANIC
		return false
	case strings.HasPrefix(err.Code, "08"), strings.HasPrefix(err.Code, "57P"), err.Code == completionUnknown:
		return false
	default:
		return true
	}
}

// lostRace tells whether the transaction failed for another one's sake and may
// work when it is run again.
func lostRace(err error) bool {
	const serializationFailure, deadlockDetected = "40001", "40P01"
	var pgErr *pgconn.PgError
	return !errors.Is(err, ErrUnknown) && errors.As(err, &pgErr) &&
		(pgErr.Code == serializationFailure || pgErr.Code == deadlockDetected)
}

// pause gives the winner a moment, longer with every try and never the same for
// two losers. It tells whether there is time left.
func pause(ctx context.Context, try int) bool {
	select {
	case <-time.After(time.Duration(rand.Int64N(int64(10*time.Millisecond) << try))):
		return true
	case <-ctx.Done():
		return false
	}
}
