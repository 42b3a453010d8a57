package commands

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"executor/outcome"
	"executor/upstreams"
)

// UpstreamStatus is how one upstream of a tenant does.
type UpstreamStatus struct {
	ID             int64
	Name           string
	Version        int
	Profile        *upstreams.Profile // the newest; nil if it can no longer be read
	PausedAt       *time.Time
	PausedBy       string
	PausedReason   string
	ThrottledUntil *time.Time       // may be over
	InFlight       int64            // open attempts: permits in use, of all processes
	MaxInFlight    int              // permits there are
	Rate           *upstreams.Rate  // nil: none
	BudgetTokens   float64          // left in the retry budget
	Budget         upstreams.Budget // Burst is its capacity
	States         map[outcome.State]Count
	Rates          Rates
	Waits          map[WaitFor]int64 // what the next of its pending commands wait for, as far as it is written down
	Trouble        *Trouble          // nil: none
}

// UpstreamOverview is one upstream in more detail.
type UpstreamOverview struct {
	UpstreamStatus
	At       time.Time       // of the database
	LastHour map[Tally]int64 // how often in the last 60 minutes
	LastDay  map[Tally]int64 // and in the last 24 hours, to the minute at its end and to the hour at its beginning
	Newest   []Command       // at most 20
	Looked   *Scanned        // how far it looked for them; nil: as far as there are any
}

const (
	newestCommands = 20
	hoursOfDay     = 24
)

// upstreamRow is a row of the table upstreams.
type upstreamRow struct {
	ID             int64
	Name           string
	Version        int
	PausedAt       *time.Time
	PausedBy       string
	PausedReason   string
	ThrottledUntil *time.Time
	BudgetTokens   float64
	BudgetAt       time.Time
	Now            time.Time
}

// standing is what was read about some upstreams of a tenant in one snapshot.
type standing struct {
	now       time.Time
	rows      []upstreamRow
	stocks    stocks
	executing map[int64]int64
	waits     map[int64]map[WaitFor]int64
	happened  []happened
}

// waitsSample bounds how many pending commands are asked what they wait for: those
// that were due within the last minute or are due next.
const waitsSample = 2000

// look reads how a tenant's upstreams stand; name "" is all of them.
func (s *Store) look(ctx context.Context, tenant, name string, hours int) (*standing, error) {
	st := &standing{stocks: stocks{}, executing: map[int64]int64{}, waits: map[int64]map[WaitFor]int64{}}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, s.pool, snapshot, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT id, name, version, paused_at, paused_by, paused_reason, throttled_until, budget_tokens, budget_at, now() AS now
			FROM upstreams WHERE tenant = $1 AND ($2::text = '' OR name = $2) ORDER BY name`, tenant, name)
		if err != nil {
			return err
		}
		if st.rows, err = pgx.CollectRows(rows, pgx.RowToStructByName[upstreamRow]); err != nil {
			return err
		}
		var id int64
		if name != "" {
			if len(st.rows) == 0 {
				return upstreams.ErrNotFound
			}
			id = st.rows[0].ID
		}
		batch := &pgx.Batch{}
		batch.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&st.now) })
		queueStocks(batch, tenant, st.stocks)
		queueOpen(batch, tenant, st.executing)
		queueWaits(batch, tenant, st.waits)
		queueHappened(batch, tenant, id, hours, func(h happened) { st.happened = append(st.happened, h) })
		return tx.SendBatch(ctx, batch).Close()
	})
	switch {
	case errors.Is(err, upstreams.ErrNotFound):
		return nil, fmt.Errorf("upstream %s: %w", name, err)
	case err != nil:
		return nil, unavailable("read how upstreams stand", err)
	}
	return st, nil
}

func queueWaits(batch *pgx.Batch, tenant string, into map[int64]map[WaitFor]int64) {
	batch.Queue(`
		SELECT upstream_id, wait_for, count(*) FROM (
			SELECT tenant, upstream_id, wait_for FROM commands
			WHERE next_attempt_at > now() - interval '1 minute' ORDER BY next_attempt_at LIMIT $2) next
		WHERE tenant = $1 AND wait_for IS NOT NULL GROUP BY 1, 2`, tenant, waitsSample).Query(func(rows pgx.Rows) error {
		var (
			id, n int64
			what  WaitFor
		)
		_, err := pgx.ForEachRow(rows, []any{&id, &what, &n}, func() error {
			if into[id] == nil {
				into[id] = make(map[WaitFor]int64)
			}
			into[id][what] = n
			return nil
		})
		return err
	})
}

// statuses puts it together, upstream by upstream.
func (s *Store) statuses(ctx context.Context, st *standing) ([]UpstreamStatus, error) {
	rates := make(map[int64]Rates, len(st.rows))
	for _, row := range st.rows {
		rates[row.ID] = newRates(st.now)
	}
	for _, h := range st.happened {
		if r, ok := rates[h.UpstreamID]; ok && h.Span == SpanMinute {
			r.add(h.At, h.What, h.N)
		}
	}
	list := make([]UpstreamStatus, len(st.rows))
	for i, row := range st.rows {
		u := UpstreamStatus{
			ID: row.ID, Name: row.Name, Version: row.Version, PausedAt: row.PausedAt, PausedBy: row.PausedBy,
			PausedReason: row.PausedReason, ThrottledUntil: row.ThrottledUntil, InFlight: st.executing[row.ID],
			States: st.stocks.states(st.executing, row.ID), Rates: rates[row.ID], Waits: st.waits[row.ID],
		}
		profile, err := s.upstreams.Profile(ctx, row.ID, row.Version)
		var unreadable *upstreams.ParseError
		switch {
		case errors.As(err, &unreadable): // shown as its trouble
		case err != nil:
			return nil, unavailable("read the profile of upstream "+row.Name, err)
		default:
			u.Profile, u.MaxInFlight, u.Rate, u.Budget = profile, profile.Limits.MaxInFlight, profile.Limits.Rate, profile.Retry.Budget
			u.BudgetTokens = tokensAt(row.BudgetTokens, row.BudgetAt, row.Now, u.Budget)
		}
		u.Trouble = u.trouble(st.now)
		list[i] = u
	}
	return list, nil
}

// Upstreams reads how the upstreams of a tenant do, by name.
func (s *Store) Upstreams(ctx context.Context, tenant string) ([]UpstreamStatus, error) {
	st, err := s.look(ctx, tenant, "", 1)
	if err != nil {
		return nil, err
	}
	return s.statuses(ctx, st)
}

// UpstreamOverview reads one upstream in more detail. Another tenant's is
// upstreams.ErrNotFound.
func (s *Store) UpstreamOverview(ctx context.Context, tenant, name string) (*UpstreamOverview, error) {
	if name == "" || CleanText(name) != name {
		return nil, upstreams.ErrNotFound
	}
	st, err := s.look(ctx, tenant, name, hoursOfDay)
	if err != nil {
		return nil, err
	}
	list, err := s.statuses(ctx, st)
	if err != nil {
		return nil, err
	}
	o := &UpstreamOverview{UpstreamStatus: list[0], At: st.now, LastHour: map[Tally]int64{}, LastDay: map[Tally]int64{}}
	for _, h := range st.happened {
		o.LastDay[h.What] += h.N
	}
	for _, what := range Tallies() {
		o.LastHour[what] = o.Rates.Sum(what, Points)
	}
	page, err := s.Page(ctx, Filter{Tenant: tenant, Upstream: name, Limit: newestCommands, Scan: ScanPage})
	if err != nil {
		return nil, err
	}
	o.Newest, o.Looked = page.Commands, page.Scanned
	return o, nil
}
