package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"executor/outcome"
	"executor/upstreams"
)

// inLine reports whether a command is due and not held back by anything but its
// place in the line.
func (r commandRow) inLine() bool {
	return r.State == outcome.StatePending && r.heldBack() == nil
}

// heldBack says what keeps a pending command from its turn, nil if nothing
// does. What stops everybody comes first: it holds longest.
func (r commandRow) heldBack() *Waiting {
	switch {
	case r.Frozen:
		return &Waiting{For: WaitFrozen}
	case r.PausedAt != nil:
		return &Waiting{For: WaitPaused}
	case r.WaitFor != nil && *r.WaitFor == WaitCredential:
		return &Waiting{For: WaitCredential} // looked for again and again; nobody knows when it is there
	case r.NextAttemptAt.After(r.Now):
		w := &Waiting{For: WaitBackoff, Until: r.NextAttemptAt}
		if r.WaitFor != nil {
			w.For = *r.WaitFor
		}
		return w
	case r.ThrottledUntil != nil && r.ThrottledUntil.After(r.Now):
		return &Waiting{For: WaitThrottle, Until: r.ThrottledUntil}
	default:
		return nil
	}
}

// waiting says what a pending command waits for, at an upstream with so many
// open attempts.
func (s *Store) waiting(ctx context.Context, r commandRow, open int) (*Waiting, error) {
	if w := r.heldBack(); w != nil {
		return w, nil
	}
	up, err := s.upstreams.Latest(ctx, r.Tenant, r.Upstream)
	var unreadable *upstreams.ParseError
	switch {
	case errors.As(err, &unreadable): // whoever mends the profile reads about it in the log
		return nil, nil
	case err != nil:
		return nil, unavailable("read upstream", err)
	}
	if limits := up.Profile.Limits; limits.Rate != nil && open < limits.MaxInFlight {
		return &Waiting{For: WaitRate}, nil
	}
	return &Waiting{For: WaitPermit}, nil
}

// openAttempts counts the attempts under way at each of the upstreams.
func (s *Store) openAttempts(ctx context.Context, upstreams []int64) (map[int64]int, error) {
	if len(upstreams) == 0 {
		return nil, nil
	}
	rows, err := s.pool.Query(ctx, `
		SELECT upstream_id, count(*) FROM attempts WHERE ended_at IS NULL AND upstream_id = ANY($1) GROUP BY upstream_id`, upstreams)
	if err != nil {
		return nil, fmt.Errorf("count open attempts: %w", err)
	}
	var (
		open = make(map[int64]int)
		id   int64
		n    int
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &n}, func() error { open[id] = n; return nil })
	if err != nil {
		return nil, fmt.Errorf("count open attempts: %w", err)
	}
	return open, nil
}
