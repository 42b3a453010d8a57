package upstreams

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// latestAge is how old an answer of Latest may be.
const latestAge = time.Second

type nameKey struct{ tenant, name string }

// latestEntry is taken while it is loaded, so that one caller loads for all. The
// others wait no longer than they want to.
type latestEntry struct {
	taken    chan struct{} // holds one value while somebody reads or loads
	upstream Upstream
	loadedAt time.Time // zero = not loaded
}

// Latest is Get for the hot path: the answer may be up to a second old, but
// knows what was applied, paused or resumed through this Store.
func (s *Store) Latest(ctx context.Context, tenant, name string) (Upstream, error) {
	e := s.entry(tenant, name)
	select {
	case e.taken <- struct{}{}:
	case <-ctx.Done():
		return Upstream{}, fmt.Errorf("latest upstream %s of %s: %w", name, tenant, ctx.Err())
	}
	defer func() { <-e.taken }()
	if !e.loadedAt.IsZero() && time.Since(e.loadedAt) < latestAge {
		return e.upstream, nil
	}
	asked := time.Now()
	u, err := s.Get(ctx, tenant, name)
	if errors.Is(err, ErrNotFound) {
		s.forget(tenant, name) // names that callers make up are not kept
	}
	if err != nil {
		return Upstream{}, err
	}
	e.upstream, e.loadedAt = u, asked
	return u, nil
}

func (s *Store) entry(tenant, name string) *latestEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := nameKey{tenant, name}
	if s.latest[key] == nil {
		s.latest[key] = &latestEntry{taken: make(chan struct{}, 1)}
	}
	return s.latest[key]
}

func (s *Store) forget(tenant, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.latest, nameKey{tenant, name})
}
