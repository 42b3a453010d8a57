package commands

import (
	"context"
	"time"

	"executor/outcome"
)

// Overview is how the commands of one tenant stand, read through indexes and
// tallies alone, however many commands there are.
type Overview struct {
	At               time.Time // of the database
	Total            int64     // commands ever accepted
	States           map[outcome.State]Count
	Rates            Rates            // of all upstreams
	Upstreams        []UpstreamStatus // by name
	DeadlineSoon     []Command        // pending, their deadline within 15 minutes, the nearest first; at most 10
	OldestUnresolved []Command        // the oldest first; at most 5
	Conflicts        Count            // settled commands with open evidence against them
}

// Troubled are the upstreams that need a look.
func (o Overview) Troubled() []UpstreamStatus {
	var list []UpstreamStatus
	for _, u := range o.Upstreams {
		if u.Trouble != nil {
			list = append(list, u)
		}
	}
	return list
}

const (
	soonest          = 10
	oldestUnresolved = 5
	// soonSample bounds how many commands, of all tenants, are looked at for a
	// deadline that is near.
	soonSample = 20000
	// CountBound is up to where counts go that have to look at rows.
	CountBound = 10000
	// conflictBound is lower: each is joined with its command.
	conflictBound = 1000
)

// Overview reads it.
func (s *Store) Overview(ctx context.Context, tenant string) (Overview, error) {
	st, err := s.look(ctx, tenant, "", 1)
	if err != nil {
		return Overview{}, err
	}
	o := Overview{At: st.now, Rates: newRates(st.now)}
	if o.Upstreams, err = s.statuses(ctx, st); err != nil {
		return Overview{}, err
	}
	ids := make([]int64, len(st.rows))
	for i, row := range st.rows {
		ids[i] = row.ID
		o.Total += st.stocks[row.ID][TallyAccepted]
	}
	o.States = st.stocks.states(st.executing, ids...)
	for _, h := range st.happened {
		if h.Span == SpanMinute {
			o.Rates.add(h.At, h.What, h.N)
		}
	}
	return o, s.addUrgent(ctx, tenant, &o)
}

// addUrgent adds what somebody may want to do something about.
func (s *Store) addUrgent(ctx context.Context, tenant string, o *Overview) error {
	var err error
	o.DeadlineSoon, err = s.read(ctx, `
		WHERE c.id = ANY(ARRAY(
			SELECT id FROM (
				SELECT id, tenant, deadline FROM commands
				WHERE next_attempt_at IS NOT NULL AND deadline <= now() + interval '15 minutes'
				ORDER BY deadline LIMIT $3) soon
			WHERE tenant = $1 ORDER BY deadline LIMIT $2))
		ORDER BY c.deadline, c.id`, tenant, soonest, soonSample)
	if err != nil {
		return err
	}
	o.OldestUnresolved, err = s.read(ctx, `
		WHERE c.id = ANY(ARRAY(
			SELECT id FROM commands WHERE tenant = $1 AND phase IS NOT NULL ORDER BY created_at, id LIMIT $2))
		ORDER BY c.created_at, c.id`, tenant, oldestUnresolved)
	if err != nil {
		return err
	}
	var n int64
	err = s.pool.QueryRow(ctx, `
		SELECT count(DISTINCT command_id) FROM (
			SELECT command_id FROM findings
			WHERE tenant = $1 AND effect = 'conflict' AND resolved_at IS NULL LIMIT $2) open`, tenant, conflictBound+1).Scan(&n)
	if err != nil {
		return unavailable("count conflicts", err)
	}
	o.Conflicts = CountUpTo(n, conflictBound)
	return nil
}
