package webhooks

import (
	"context"
	"time"
)

// The statements of the hot paths, for tests of their plans.
const (
	AnnounceSQL = announceSQL
	AnythingSQL = anythingSQL
	ClaimSQL    = claimSQL
)

// HealthSQL is what Health runs.
const HealthSQL = healthSQL

// Claim takes what is due and returns how much that is.
func (s *Store) Claim(ctx context.Context) (int, error) {
	list, err := s.claim(ctx, claims{places: 1, limit: 10, lasts: time.Minute})
	return len(list), err
}
