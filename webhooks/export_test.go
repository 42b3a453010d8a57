package webhooks

// The statements of the hot paths, for tests of their plans.
const (
	AnnounceSQL = announceSQL
	ClaimSQL    = claimSQL
)

// HealthSQL is what Health runs.
const HealthSQL = healthSQL
