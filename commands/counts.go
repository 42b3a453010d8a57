package commands

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// Span is how much time one number of the tallies covers.
type Span string

const (
	SpanMinute Span = "minute"
	SpanHour   Span = "hour"
	SpanDay    Span = "day"
)

// Count is a number that may be a lower bound: then nobody counted on.
type Count struct {
	N    int64
	More bool
}

func (c Count) String() string {
	if c.More {
		return fmt.Sprintf("%d+", c.N)
	}
	return fmt.Sprint(c.N)
}

// CountUpTo is a count that was made up to bound and one more.
func CountUpTo(n, bound int64) Count { return Count{min(n, bound), n > bound} }

// Points is how many minutes a Rates has.
const Points = 60

// Rates says what happened in each of the last 60 minutes. A correction counts as
// one more outcome; nothing is taken back from an earlier minute.
type Rates struct {
	From      time.Time // the first minute begins
	PerMinute map[Tally][]int64
}

func newRates(now time.Time) Rates {
	r := Rates{From: now.Truncate(time.Minute).Add((1 - Points) * time.Minute), PerMinute: make(map[Tally][]int64)}
	for _, what := range Tallies() {
		r.PerMinute[what] = make([]int64, Points)
	}
	return r
}

func (r Rates) add(at time.Time, what Tally, n int64) {
	if i := int(at.Sub(r.From) / time.Minute); !at.Before(r.From) && i < Points && r.PerMinute[what] != nil {
		r.PerMinute[what][i] += n
	}
}

// Sum is what happened in the last minutes, the current one included.
func (r Rates) Sum(what Tally, minutes int) (sum int64) {
	points := r.PerMinute[what]
	for _, n := range points[max(0, len(points)-minutes):] {
		sum += n
	}
	return sum
}

// stocks are how many commands of a tenant there are, by upstream.
type stocks map[int64]map[Tally]int64

// The stocks of a tenant, exactly: what is folded and what is not.
const stocksSQL = `
	SELECT upstream_id, what, sum(stock)::bigint FROM (
		SELECT upstream_id, what, stock FROM tally_totals WHERE tenant = $1
		UNION ALL SELECT upstream_id, what, stock FROM tally_deltas WHERE tenant = $1) t
	GROUP BY 1, 2`

func queueStocks(batch *pgx.Batch, tenant string, into stocks) {
	batch.Queue(stocksSQL, tenant).Query(func(rows pgx.Rows) error {
		var (
			id   int64
			what Tally
			n    int64
		)
		_, err := pgx.ForEachRow(rows, []any{&id, &what, &n}, func() error {
			if into[id] == nil {
				into[id] = make(map[Tally]int64)
			}
			into[id][what] = n
			return nil
		})
		return err
	})
}

// states are the stocks of some upstreams by state. An open attempt is a command
// under way; who has no outcome and none is pending.
func (s stocks) states(executing map[int64]int64, ids ...int64) map[outcome.State]Count {
	sum := make(map[outcome.State]int64)
	for _, id := range ids {
		pending := s[id][TallyAccepted] - executing[id]
		for _, state := range outcome.States() {
			if state.Final() {
				sum[state] += s[id][Tally(state)]
				pending -= s[id][Tally(state)]
			}
		}
		sum[outcome.StateExecuting] += executing[id]
		sum[outcome.StatePending] += max(0, pending)
	}
	counts := make(map[outcome.State]Count, len(outcome.States()))
	for _, state := range outcome.States() {
		counts[state] = Count{N: sum[state]}
	}
	return counts
}

// queueOpen counts the commands of a tenant that are under way. There are never many.
func queueOpen(batch *pgx.Batch, tenant string, into map[int64]int64) {
	batch.Queue(`SELECT upstream_id, count(*) FROM attempts WHERE ended_at IS NULL AND tenant = $1 GROUP BY 1`, tenant).
		Query(func(rows pgx.Rows) error {
			var id, n int64
			_, err := pgx.ForEachRow(rows, []any{&id, &n}, func() error {
				into[id] = n
				return nil
			})
			return err
		})
}

// happened is one number of the tallies.
type happened struct {
	Span       Span
	At         time.Time
	UpstreamID int64
	What       Tally
	N          int64
}

// queueHappened reads what happened to a tenant's commands, folded or not, in the
// minutes of the last three hours and in the hours before them; hours is how many
// hours it looks back. upstreamID 0 is all of them.
func queueHappened(batch *pgx.Batch, tenant string, upstreamID int64, hours int, visit func(happened)) {
	batch.Queue(`
		SELECT span, at, upstream_id, what, n FROM tallies
		WHERE tenant = $1 AND span = 'minute' AND at > now() - make_interval(hours => $3::int) AND ($2::bigint = 0 OR upstream_id = $2)
		UNION ALL
		SELECT span, at, upstream_id, what, n FROM tallies
		WHERE tenant = $1 AND span = 'hour' AND at > now() - make_interval(hours => $3::int) AND ($2::bigint = 0 OR upstream_id = $2) AND $3::int > 1
		UNION ALL
		SELECT 'minute', at, upstream_id, what, n FROM tally_deltas
		WHERE tenant = $1 AND at > now() - make_interval(hours => $3::int) AND ($2::bigint = 0 OR upstream_id = $2)`,
		tenant, upstreamID, hours).Query(func(rows pgx.Rows) error {
		var h happened
		_, err := pgx.ForEachRow(rows, []any{&h.Span, &h.At, &h.UpstreamID, &h.What, &h.N}, func() error {
			visit(h)
			return nil
		})
		return err
	})
}
