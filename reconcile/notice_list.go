package reconcile

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// Notice is what an upstream told about a command by itself.
type Notice struct {
	ID             int64
	EventID        string // the upstream's; a copy has the same
	ReceivedAt     time.Time
	MatchedAt      time.Time // the command was found to be meant
	ProfileVersion int
	NamedBy        NamedBy
	Name           string // by which it names the command
	Weight         string // conclusive or hint
	Finding        outcome.Finding
	Reference      string
	Code           string
	Message        string
	Rule           string // of the profile, that gave the finding
	Notes          []string
	Headers        http.Header // redacted
	Body           []byte      // redacted
	BodySHA256     []byte      // as it came
	State          NoticeState
	Effect         NoticeEffect
}

// shownNotices bounds how many notices of a command are read at once: how many there
// are is up to the upstream.
const shownNotices = 200

// Notices reads what the upstream told about a command, the newest 200, in the order
// in which they came.
func (s *Store) Notices(ctx context.Context, tenant string, id uuid.UUID) ([]Notice, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, event_id, received_at, matched_at, profile_version, named_by, name, weight, finding, reference, code, message, rule,
			notes, headers, body, body_sha256, state, effect
		FROM notices WHERE tenant = $1 AND command_id = $2 ORDER BY id DESC LIMIT $3`, tenant, id, shownNotices)
	if err != nil {
		return nil, unavailable("read notices", err)
	}
	list, err := pgx.CollectRows(rows, scanNotice)
	if err != nil {
		return nil, unavailable("read notices", err)
	}
	slices.Reverse(list)
	return list, nil
}

func scanNotice(row pgx.CollectableRow) (n Notice, err error) {
	var notes, headers []byte
	err = row.Scan(&n.ID, &n.EventID, &n.ReceivedAt, &n.MatchedAt, &n.ProfileVersion, &n.NamedBy, &n.Name, &n.Weight, &n.Finding,
		&n.Reference, &n.Code, &n.Message, &n.Rule, &notes, &headers, &n.Body, &n.BodySHA256, &n.State, &n.Effect)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(notes, &n.Notes); err != nil {
		return n, err
	}
	return n, json.Unmarshal(headers, &n.Headers)
}
