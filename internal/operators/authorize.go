package operators

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	// ErrSignedOut: there is no such session any more.
	ErrSignedOut = errors.New("not signed in")
	// ErrNoRole: the operator has no role in the tenant.
	ErrNoRole = errors.New("no role in this tenant")
)

// Access is who makes a request, and what they may do.
type Access struct {
	Operator Operator
	Session  uuid.UUID // as List has it
	Tenant   string
	Role     Role // in the tenant
}

// Authorize tells who makes a request under a token (scs.SessionManager.Token), as
// things stand now. Without a tenant it is the first that the operator has a role
// in. ErrNoRole comes with an Access that has no role. It notes, once a minute at
// most, that the session is in use.
func (s *Sessions) Authorize(ctx context.Context, token, tenant string) (Access, error) {
	rows, _ := s.pool.Query(ctx, `
		WITH seen AS (
			UPDATE operator_sessions s SET last_seen_at = now()
			WHERE s.token = $1 AND s.ended_at IS NULL AND s.last_seen_at <= now() - make_interval(secs => $2))
		SELECT s.id AS session, `+operatorColumns+`
		FROM operator_sessions s JOIN operators o ON o.id = s.operator_id
		WHERE s.token = $1 AND `+alive, hashToken(token), sessionTouch.Seconds())
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[sessionOfOperator])
	if errors.Is(err, pgx.ErrNoRows) {
		return Access{}, ErrSignedOut
	}
	if err != nil {
		return Access{}, fmt.Errorf("look for a session: %w", err)
	}
	a := Access{Operator: found.Operator, Session: found.Session, Tenant: tenant}
	if tenant == "" && len(a.Operator.Roles) > 0 {
		a.Tenant = a.Operator.Roles[0].Tenant
	}
	if a.Role = a.Operator.Role(a.Tenant); a.Role == "" {
		return a, ErrNoRole
	}
	return a, nil
}

type sessionOfOperator struct {
	Session uuid.UUID
	Operator
}

// hashToken is what an scs.SessionManager with HashTokenInStore gives its store.
func hashToken(token string) string {
	hash := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(hash[:])
}

// Session is a session as its operator sees it.
type Session struct {
	ID         uuid.UUID
	CreatedAt  time.Time
	LastSeenAt time.Time // within a minute or so
	Address    string    // of the sign-in
	UserAgent  string
	ExpiresAt  time.Time
}

// maxSessions bounds List.
const maxSessions = 200

// List reads an operator's sessions that are alive, the newest first.
func (s *Sessions) List(ctx context.Context, operator uuid.UUID) ([]Session, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT s.id, s.created_at, s.last_seen_at, s.address, s.user_agent, s.expires_at
		FROM operator_sessions s JOIN operators o ON o.id = s.operator_id
		WHERE s.operator_id = $1 AND `+alive+`
		ORDER BY s.created_at DESC, s.id LIMIT $2`, operator, maxSessions)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[Session])
	if err != nil {
		return nil, fmt.Errorf("list the sessions of operator %s: %w", operator, err)
	}
	return list, nil
}

// Revoke ends one of an operator's sessions; ErrUnknown if there is none such.
func (s *Sessions) Revoke(ctx context.Context, operator, session uuid.UUID) error {
	tag, err := s.pool.Exec(ctx, `UPDATE operator_sessions SET `+ended+` WHERE operator_id = $1 AND id = $2 AND ended_at IS NULL`, operator, session)
	if err != nil {
		return fmt.Errorf("revoke session %s: %w", session, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("%w: it has no such session", ErrUnknown)
	}
	return nil
}

// RevokeAll ends an operator's sessions but one; uuid.Nil excepts none. It returns
// how many there were. Store.EndSessions is for those of somebody else.
func (s *Sessions) RevokeAll(ctx context.Context, operator, except uuid.UUID) (int, error) {
	tag, err := s.pool.Exec(ctx, `UPDATE operator_sessions SET `+ended+` WHERE operator_id = $1 AND id <> $2 AND ended_at IS NULL`, operator, except)
	if err != nil {
		return 0, fmt.Errorf("revoke the sessions of operator %s: %w", operator, err)
	}
	return int(tag.RowsAffected()), nil
}
