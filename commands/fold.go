package commands

import (
	"context"
	"fmt"
)

// foldBatch bounds the rows of differences that one call folds.
const foldBatch = 20000

// Fold adds the rows of differences to the tallies, and older minutes to hours and
// older hours to days. All of it is one transaction: whoever reads the three tables
// in one snapshot counts everything once, at whatever moment the process dies. One
// process folds at a time; another that comes meanwhile leaves it to that one. It
// returns how many rows of differences it folded.
func (s *Store) Fold(ctx context.Context) (n int64, err error) {
	err = s.commit(ctx, func(ctx context.Context, tx Tx) error {
		var mine bool
		err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended('tally_deltas', 0))`).Scan(&mine)
		if n = 0; err != nil || !mine {
			return err
		}
		if n, err = foldDeltas(ctx, tx); err != nil {
			return err
		}
		return foldSpans(ctx, tx)
	})
	if err != nil {
		return 0, fmt.Errorf("fold tallies: %w", err)
	}
	return n, nil
}

// foldDeltas takes rows that are there and adds what it took; what is written
// meanwhile stays for the next time.
func foldDeltas(ctx context.Context, tx Tx) (n int64, err error) {
	err = tx.QueryRow(ctx, `
		WITH taken AS (
			DELETE FROM tally_deltas WHERE ctid = ANY(ARRAY(SELECT ctid FROM tally_deltas LIMIT $1))
			RETURNING *
		), stocks AS (
			INSERT INTO tally_totals (tenant, upstream_id, what, stock)
			SELECT tenant, upstream_id, what, sum(stock) FROM taken WHERE what <> 'retried' GROUP BY 1, 2, 3
			ON CONFLICT (tenant, upstream_id, what) DO UPDATE SET stock = tally_totals.stock + excluded.stock
		), minutes AS (
			INSERT INTO tallies (tenant, span, at, upstream_id, what, n)
			SELECT tenant, 'minute', at, upstream_id, what, sum(n) FROM taken GROUP BY 1, 3, 4, 5 HAVING sum(n) > 0
			ON CONFLICT (tenant, span, at, upstream_id, what) DO UPDATE SET n = tallies.n + excluded.n
		)
		SELECT count(*) FROM taken`, foldBatch).Scan(&n)
	return n, err
}

// foldSpans keeps the minutes of three hours and the hours of eight days.
func foldSpans(ctx context.Context, tx Tx) error {
	for _, fold := range []struct{ from, to, keep string }{{"minute", "hour", "3 hours"}, {"hour", "day", "8 days"}} {
		_, err := tx.Exec(ctx, `
			WITH old AS (
				DELETE FROM tallies WHERE span = $1::text AND at < date_trunc($2::text, now() - $3::text::interval, 'UTC')
				RETURNING *
			)
			INSERT INTO tallies (tenant, span, at, upstream_id, what, n)
			SELECT tenant, $2::text, date_trunc($2::text, at, 'UTC'), upstream_id, what, sum(n) FROM old GROUP BY 1, 3, 4, 5
			ON CONFLICT (tenant, span, at, upstream_id, what) DO UPDATE SET n = tallies.n + excluded.n`,
			fold.from, fold.to, fold.keep)
		if err != nil {
			return err
		}
	}
	return nil
}
