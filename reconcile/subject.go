package reconcile

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/upstreams"
)

// subject is what is known of the command that a round asks about.
type subject struct {
	ID             uuid.UUID
	Operation      string
	ProfileVersion int
	State          outcome.State
	Key            string
	Params         map[string]string
	Body           []byte
	Headers        []upstreams.Header // of its request, without the credential
	Reference      string             // the newest that the upstream gave
	Link           string
	Frozen         bool // the deployment sends nothing
	Newest         int  // version of the upstream's profile
	Kept           bool // there are conclusive findings that had to wait for an attempt
}

func (s subject) question() upstreams.Question {
	return upstreams.Question{
		Key: s.Key, CommandID: s.ID, Params: s.Params, Body: s.Body, Reference: s.Reference, Link: s.Link,
	}
}

// sent is the request of the command itself, as far as it is on record.
func (s subject) sent() upstreams.Request {
	return upstreams.Request{Headers: s.Headers, Body: s.Body}
}

// subject reads the command of a doubt.
func (s *Store) subject(ctx context.Context, id uuid.UUID) (subject, error) {
	var b subject
	err := s.pool.QueryRow(ctx, `
		SELECT c.id, c.operation, c.profile_version, c.state, c.idempotency_key, r.params, r.body, r.headers,
			coalesce((
				SELECT reference FROM (
					SELECT started_at AS at, reference FROM attempts WHERE command_id = c.id AND reference <> ''
					UNION ALL SELECT at, reference FROM findings WHERE command_id = c.id AND reference <> ''
					UNION ALL SELECT started_at, reference FROM lookups WHERE command_id = c.id AND reference <> '') known
				ORDER BY at DESC LIMIT 1), ''),
			coalesce((SELECT link FROM attempts WHERE command_id = c.id AND link <> '' ORDER BY number DESC LIMIT 1), ''),
			coalesce((SELECT frozen_at IS NOT NULL FROM deployment), false), u.version,
			EXISTS (SELECT FROM findings WHERE command_id = c.id AND effect = 'kept' AND finding IN ('applied', 'refused'))
		FROM commands c JOIN command_requests r ON r.command_id = c.id JOIN upstreams u ON u.id = c.upstream_id WHERE c.id = $1`, id).Scan(
		&b.ID, &b.Operation, &b.ProfileVersion, &b.State, &b.Key, &b.Params, &b.Body, &b.Headers, &b.Reference, &b.Link, &b.Frozen, &b.Newest, &b.Kept)
	if err != nil {
		return b, fmt.Errorf("read command %s: %w", id, err)
	}
	return b, nil
}
