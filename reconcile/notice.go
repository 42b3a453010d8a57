package reconcile

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// NoticeBytes is how large the body of a notice may be.
const NoticeBytes = 256 << 10

// noticeRetention is how long a notice waits for a command that it names.
const noticeRetention = 30 * 24 * time.Hour

var (
	// ErrNoNotices: the tenant has no such upstream, or its profile takes no notices.
	ErrNoNotices = errors.New("the upstream sends no notices")
	// ErrNoticeTooLarge: the body is larger than NoticeBytes.
	ErrNoticeTooLarge = fmt.Errorf("a notice is at most %d KiB", NoticeBytes>>10)
)

// Secrets resolves references to secrets; egress.Secrets does.
type Secrets interface {
	Lookup(ref string) (egress.Secret, error)
}

// NamedBy is how a notice names its command.
type NamedBy string

const (
	NamedByKey       NamedBy = "key" // ours, or the one on the wire
	NamedByID        NamedBy = "id"
	NamedByReference NamedBy = "reference" // the upstream's own name for what was done
)

// NoticeState is where a notice stands.
type NoticeState string

const (
	NoticeUnmatched NoticeState = "unmatched" // there is no command of this name, or more than one
	NoticeKept      NoticeState = "kept"      // its command is under way: weighed again when it is not
	NoticeDone      NoticeState = "done"
	NoticeIgnored   NoticeState = "ignored" // it names no command
	NoticeExpired   NoticeState = "expired" // no command came up to it; its content is dropped
)

// NoticeEffect is what became of a notice: what Learn made of it, or that it is a
// reason to look.
type NoticeEffect string

const (
	NoticeEffectSettled  NoticeEffect = "settled"
	NoticeEffectKept     NoticeEffect = "kept"
	NoticeEffectNone     NoticeEffect = "none"
	NoticeEffectConflict NoticeEffect = "conflict"
	NoticeEffectLookup   NoticeEffect = "lookup"   // a round of lookups is made at once
	NoticeEffectReported NoticeEffect = "reported" // the profile lets findings move nothing
)

// Received is what became of a delivery.
type Received struct {
	Duplicate bool // the event is known; nothing was done
	Matched   bool // a command of this name is there
}

// notice is a row of that table while it is weighed.
type notice struct {
	ID         int64
	Tenant     string
	UpstreamID int64
	Upstream   string
	EventID    string
	ReceivedAt time.Time
	NamedBy    NamedBy
	Name       string
	Weight     string
	Finding    outcome.Finding
	Reference  string
	Code       string
	Message    string
	Rule       string
	State      NoticeState
	CommandID  *uuid.UUID
}

// Receive takes a notice that claims to come from an upstream. Once it returns
// without an error the notice is durable, with everything that follows from it. A
// copy does nothing: whoever is in doubt may send again.
//
// Errors are ErrNoNotices, ErrNoticeTooLarge, *upstreams.UnverifiedNotice,
// *upstreams.UnreadableNotice, and commands.ErrUnavailable.
func (s *Store) Receive(ctx context.Context, tenant, upstream string, header http.Header, body []byte) (Received, error) {
	if len(body) > NoticeBytes {
		return Received{}, ErrNoticeTooLarge
	}
	u, err := s.upstreams.Latest(ctx, tenant, upstream)
	switch {
	case errors.Is(err, upstreams.ErrNotFound):
		s.log.Info("notice refused", "upstream", upstream, "tenant", tenant, "reason", ErrNoNotices)
		return Received{}, ErrNoNotices
	case err != nil:
		return Received{}, fmt.Errorf("%w: %w", commands.ErrUnavailable, err)
	case u.Profile.Notices == nil:
		s.log.Info("notice refused", "upstream", u.Name, "tenant", u.Tenant, "reason", ErrNoNotices)
		return Received{}, ErrNoNotices
	}
	secrets, err := s.noticeSecrets(u)
	if err != nil {
		return Received{}, err
	}
	if err := u.Profile.Notices.Verify(secrets, header, body, time.Now()); err != nil {
		s.log.Info("notice refused", "upstream", u.Name, "tenant", u.Tenant, "reason", err)
		return Received{}, err
	}
	a, err := readArrival(u, secrets, header, body)
	if err != nil {
		return Received{}, err
	}
	return s.takeIn(ctx, a)
}

// noticeSecrets are those that can be resolved: while one is being replaced by
// another, either may not be there.
func (s *Store) noticeSecrets(u upstreams.Upstream) ([]egress.Secret, error) {
	if s.secrets == nil {
		return nil, fmt.Errorf("%w: notices of %s cannot be verified: no secrets are configured", commands.ErrUnavailable, u.Name)
	}
	var (
		found   []egress.Secret
		missing error
	)
	for _, ref := range u.Profile.Notices.Signature.Secrets {
		secret, err := s.secrets.Lookup(ref)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		found = append(found, secret)
	}
	if len(found) == 0 {
		s.log.Error("notices cannot be verified", "upstream", u.Name, "tenant", u.Tenant, "error", missing)
		return nil, fmt.Errorf("%w: notices of %s cannot be verified: %w", commands.ErrUnavailable, u.Name, missing)
	}
	return found, nil
}

// takeIn writes a notice down and weighs it, all or nothing.
func (s *Store) takeIn(ctx context.Context, a arrival) (Received, error) {
	var (
		received Received
		moved    []commands.Moved
	)
	err := s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		received, moved = Received{}, nil
		n, err := a.insert(ctx, tx)
		if errors.Is(err, pgx.ErrNoRows) {
			received.Duplicate = true
			return nil
		}
		if err != nil || n.State == NoticeIgnored {
			return err
		}
		ids, err := candidates(ctx, tx, n)
		if err != nil {
			return err
		}
		if len(ids) != 1 {
			return a.noteAmbiguity(ctx, tx, n, len(ids))
		}
		received.Matched = true
		moved, err = s.weighNotice(ctx, tx, n, ids[0], a.upstream.Profile)
		return err
	})
	if err != nil {
		return Received{}, fmt.Errorf("take in a notice of %s: %w", a.upstream.Name, err)
	}
	s.commands.Changed(moved)
	return received, nil
}

const noticeColumns = `n.id, n.tenant, n.upstream_id, u.name AS upstream, n.event_id, n.received_at, n.named_by, n.name, n.weight, n.finding,
	n.reference, n.code, n.message, n.rule, n.state, n.command_id`

// insert keeps the event, unless it is known: then pgx.ErrNoRows. Of two copies at
// once the second waits for what becomes of the first.
func (a arrival) insert(ctx context.Context, tx pgx.Tx) (notice, error) {
	sum := sha256.Sum256(a.raw)
	rows, err := tx.Query(ctx, `
		WITH n AS (
			INSERT INTO notices (tenant, upstream_id, event_id, profile_version, received_at, named_by, name, weight, finding,
				reference, code, message, rule, notes, headers, body, body_sha256, state, next_at, expires_at)
			VALUES ($1, $2, $3, $4, clock_timestamp(), $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
				CASE WHEN $17 = 'unmatched' THEN clock_timestamp() + $18 END, clock_timestamp() + $19)
			ON CONFLICT (upstream_id, event_id) DO NOTHING
			RETURNING *)
		SELECT `+noticeColumns+` FROM n JOIN upstreams u ON u.id = n.upstream_id`,
		a.upstream.Tenant, a.upstream.ID, a.EventID, a.upstream.Version, a.By, a.Value, a.weight, a.Finding,
		a.Reference, a.Code, a.Message, a.Rule, jsonText(a.notes()), jsonText(a.headers), a.body, sum[:], a.state(),
		soonest, noticeRetention)
	if err != nil {
		return notice{}, fmt.Errorf("keep notice: %w", err)
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[notice])
}

// noteAmbiguity says why a notice waits although there are commands of its name.
func (a arrival) noteAmbiguity(ctx context.Context, tx pgx.Tx, n notice, commands int) error {
	if commands == 0 {
		return nil
	}
	notes := append(a.notes(), fmt.Sprintf("%d commands have this %s: which of them is meant is not known", commands, n.NamedBy))
	if _, err := tx.Exec(ctx, `UPDATE notices SET notes = $2 WHERE id = $1`, n.ID, jsonText(notes)); err != nil {
		return fmt.Errorf("keep notice: %w", err)
	}
	return nil
}
