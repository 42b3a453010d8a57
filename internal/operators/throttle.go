package operators

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"executor/internal/clientaddr"
)

// What slows down those who guess. A stranger who keeps guessing keeps the name
// waiting, but never for longer than maxWait at a time, and a link (Store.UseLink)
// lets its operator in meanwhile.
const (
	nameLimit    = 5                // failures for a name until one has to wait
	addressLimit = 20               // failures from an address until one has to wait
	firstWait    = 10 * time.Second // doubles with every further failure
	maxWait      = 15 * time.Minute
	forgetAfter  = time.Hour // without a failure: counting begins anew
	forgetAtOnce = 100       // rows that one sign-in clears away
	maxCrowd     = 64        // how many sign in to one process at once
	crowdWait    = 5 * time.Second
)

// WaitError: too many sign-ins failed, or are under way. The next is looked at after
// the wait.
type WaitError struct{ Wait time.Duration }

func (e *WaitError) Error() string {
	return fmt.Sprintf("too many sign-ins: wait %s and try again", e.Wait)
}

// waitAfter is the wait that the so-manieth failure brings.
func waitAfter(failures, limit int) time.Duration {
	if failures < limit {
		return 0
	}
	return min(firstWait<<min(failures-limit, 10), maxWait)
}

// subject is somebody whose failures are counted.
type subject struct {
	hash  []byte
	limit int
}

// subjectsOf are the address, if there is one, and the name, in the order in which
// everybody locks them.
func subjectsOf(name, address string) []subject {
	var list []subject
	if address != "" {
		list = append(list, subject{hashOf("address", clientaddr.Network(address)), addressLimit})
	}
	return append(list, subject{hashOfName(name), nameLimit})
}

func hashOfName(name string) []byte { return hashOf("name", strings.ToLower(name)) }

func hashOf(kind, text string) []byte {
	sum := sha256.Sum256([]byte(kind + "\x00" + text))
	return sum[:]
}

// tally is a try that counts as a failure until it succeeds.
type tally struct {
	subject  subject
	failures int // with this one
}

// count counts a failure before the password is looked at, so that many at once
// get no more tries than one after the other. A *WaitError counts nothing.
func (s *Store) count(ctx context.Context, name, address string) ([]tally, error) {
	var tallies []tally
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tallies = nil // it may run again
		for _, subject := range subjectsOf(name, address) {
			failures, err := countOne(ctx, tx, subject)
			if err != nil {
				return err
			}
			tallies = append(tallies, tally{subject, failures})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return tallies, s.forget(ctx)
}

func countOne(ctx context.Context, tx pgx.Tx, who subject) (failures int, err error) {
	var last, blocked, now time.Time
	batch := &pgx.Batch{}
	// Locks the row whether it is new or not, and if a success deletes it meanwhile.
	batch.Queue(`
		INSERT INTO sign_in_failures AS f (subject, failures, blocked_until, at) VALUES ($1, 0, now(), now())
		ON CONFLICT (subject) DO UPDATE SET at = f.at
		RETURNING failures, at, blocked_until`, who.hash).
		QueryRow(func(r pgx.Row) error { return r.Scan(&failures, &last, &blocked) })
	batch.Queue(`SELECT clock_timestamp()`).QueryRow(func(r pgx.Row) error { return r.Scan(&now) })
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return 0, fmt.Errorf("read failed sign-ins: %w", err)
	}
	if wait := blocked.Sub(now); wait > 0 {
		return 0, &WaitError{Wait: (wait + time.Second - 1).Truncate(time.Second)}
	}
	if now.Sub(last) > forgetAfter {
		failures = 0
	}
	failures++
	_, err = tx.Exec(ctx, `UPDATE sign_in_failures SET failures = $2, at = $3, blocked_until = $4 WHERE subject = $1`,
		who.hash, failures, now, now.Add(waitAfter(failures, who.limit)))
	if err != nil {
		return 0, fmt.Errorf("count a failed sign-in: %w", err)
	}
	return failures, nil
}

// takeBack undoes count after a success: the name begins anew, the address has one
// failure less, since others may guess from there.
func takeBack(ctx context.Context, tx pgx.Tx, tallies []tally) error {
	for _, t := range tallies {
		sql, args := `
			UPDATE sign_in_failures SET failures = failures - 1,
				blocked_until = CASE WHEN failures = $2 OR failures <= $3 THEN now() ELSE blocked_until END
			WHERE subject = $1 AND failures > 0`, []any{t.subject.hash, t.failures, t.subject.limit}
		if t.subject.limit == nameLimit {
			sql, args = forgive, args[:1]
		}
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("take a failed sign-in back: %w", err)
		}
	}
	return nil
}

const forgive = `DELETE FROM sign_in_failures WHERE subject = $1`

// forget clears away what no longer counts. It is a transaction of its own, so that
// it holds nothing that a sign-in waits for.
func (s *Store) forget(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, `
		DELETE FROM sign_in_failures WHERE subject IN (
			SELECT subject FROM sign_in_failures WHERE at < now() - make_interval(secs => $1)
			ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`, forgetAfter.Seconds(), forgetAtOnce)
	if err != nil {
		return fmt.Errorf("forget failed sign-ins: %w", err)
	}
	return nil
}
