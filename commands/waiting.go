package commands

import (
	"context"
	"errors"

	"executor/upstreams"
)

// heldBack says what keeps a pending command from its turn, nil if nothing
// does. What stops everybody comes first: it holds longest.
func (r commandRow) heldBack() *Waiting {
	switch {
	case r.Frozen:
		return &Waiting{For: WaitFrozen}
	case r.PausedAt != nil:
		return &Waiting{For: WaitPaused}
	case r.WaitFor != nil && (*r.WaitFor == WaitCredential || *r.WaitFor == WaitFile):
		return &Waiting{For: *r.WaitFor} // looked for again and again; nobody knows when it is there
	case r.ThrottledUntil != nil && r.ThrottledUntil.After(r.Now) && r.ThrottledUntil.After(*r.NextAttemptAt):
		return &Waiting{For: WaitThrottle, Until: r.ThrottledUntil}
	case r.NextAttemptAt.After(r.Now):
		w := &Waiting{For: WaitBackoff, Until: r.NextAttemptAt}
		if r.WaitFor != nil {
			w.For = *r.WaitFor
		}
		return w
	default:
		return nil
	}
}

// waiting says what a pending command waits for. The open attempts of an upstream
// are counted once for all commands of a page.
func (s *Store) waiting(ctx context.Context, r commandRow, open map[int64]int) (*Waiting, error) {
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
	case up.Profile.Limits.Rate == nil:
		return &Waiting{For: WaitPermit}, nil
	}
	n, counted := open[r.UpstreamID]
	if !counted {
		err := s.pool.QueryRow(ctx, `SELECT count(*) FROM attempts WHERE ended_at IS NULL AND upstream_id = $1`, r.UpstreamID).Scan(&n)
		if err != nil {
			return nil, unavailable("count open attempts", err)
		}
		open[r.UpstreamID] = n
	}
	if n >= up.Profile.Limits.MaxInFlight {
		return &Waiting{For: WaitPermit}, nil
	}
	return &Waiting{For: WaitRate}, nil
}
