package operators

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Sessions is the store of an scs.SessionManager, which has to have
// HashTokenInStore set and Codec as its codec: Manager makes one.
type Sessions struct{ pool *pgxpool.Pool }

var _ scs.CtxStore = (*Sessions)(nil)

// NewSessions builds the Sessions.
func NewSessions(pool *pgxpool.Pool) *Sessions { return &Sessions{pool: pool} }

// Manager is a session manager on this store, to be given its times and its cookie.
func (s *Sessions) Manager() *scs.SessionManager {
	m := scs.New()
	m.Store, m.Codec, m.HashTokenInStore = s, Codec{}, true
	return m
}

// Start begins a session of an operator who has just signed in, under a new token:
// one that was planted before the sign-in is worth nothing.
func (s *Sessions) Start(ctx context.Context, m *scs.SessionManager, o Operator, address, userAgent string) error {
	if err := m.RenewToken(ctx); err != nil {
		return err
	}
	m.Put(ctx, KeyOperator, o.ID.String())
	m.Put(ctx, KeyEpoch, strconv.Itoa(o.Epoch))
	m.Put(ctx, KeyAddress, address)
	m.Put(ctx, KeyUserAgent, userAgent)
	return nil
}

const (
	sessionGrace   = time.Hour // a session's row stays so long after it expired: no request lasts longer
	sessionBatch   = 100       // rows that a new session clears away
	sessionTouch   = time.Minute
	maxUserAgent   = 300 // bytes
	maxAddress     = 100
	withoutContext = 10 * time.Second // the bound of calls that come without a context
)

// ErrNoOperator: a session of nobody is not kept, or strangers could fill the table.
var ErrNoOperator = errors.New("only sessions of an operator are kept")

// owner is what a session's values say of whose it is.
type owner struct {
	operator           uuid.UUID
	epoch              int
	address, userAgent string
}

func ownerOf(data []byte) (owner, error) {
	_, values, err := Codec{}.Decode(data)
	if err != nil {
		return owner{}, err
	}
	text := func(key string) string { s, _ := values[key].(string); return s }
	id, err := uuid.Parse(text(KeyOperator))
	if err != nil {
		return owner{}, ErrNoOperator
	}
	epoch, err := strconv.Atoi(text(KeyEpoch))
	if err != nil {
		return owner{}, ErrNoOperator
	}
	return owner{id, epoch, shortened(text(KeyAddress), maxAddress), shortened(text(KeyUserAgent), maxUserAgent)}, nil
}

func shortened(s string, limit int) string {
	return printable(s[:min(len(s), limit)])
}

// CommitCtx writes a session. One that was ended meanwhile stays so, and one whose
// operator was disabled or got another password does not begin. Of one that has not
// changed a later expiry is written, once a minute at most.
func (s *Sessions) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	o, err := ownerOf(data)
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(`
		INSERT INTO operator_sessions AS s (token, operator_id, epoch, created_at, last_seen_at, address, user_agent, expires_at, data)
		SELECT $1, o.id, o.epoch, now(), now(), $4, $5, $6::timestamptz, $7::bytea FROM operators o
		WHERE o.id = $2 AND o.epoch = $3 AND o.disabled_at IS NULL AND NOT EXISTS (
			SELECT FROM operator_sessions kept
			WHERE kept.token = $1 AND kept.data = $7 AND kept.expires_at > $6 - make_interval(secs => $8) AND kept.expires_at <= $6)
		ON CONFLICT (token) DO UPDATE SET last_seen_at = now(), expires_at = excluded.expires_at, data = excluded.data
		WHERE s.ended_at IS NULL AND s.operator_id = excluded.operator_id`,
		token, o.operator, o.epoch, o.address, o.userAgent, expiry, data, sessionTouch.Seconds())
	batch.Queue(`
		DELETE FROM operator_sessions WHERE token IN (
			SELECT token FROM operator_sessions WHERE expires_at < now() - make_interval(secs => $1)
			ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, sessionGrace.Seconds(), sessionBatch)
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("write a session: %w", err)
	}
	return nil
}

// FindCtx reads the data of a session that is alive.
func (s *Sessions) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT s.data FROM operator_sessions s JOIN operators o ON o.id = s.operator_id
		WHERE s.token = $1 AND `+alive, token).Scan(&data)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read a session: %w", err)
	}
	return data, true, nil
}

// alive is true of a session s of an operator o who may go on with it.
const alive = `(s.ended_at IS NULL AND s.expires_at > now() AND s.epoch = o.epoch AND o.disabled_at IS NULL)`

// DeleteCtx ends a session, as does signing out.
func (s *Sessions) DeleteCtx(ctx context.Context, token string) error {
	if _, err := s.pool.Exec(ctx, `UPDATE operator_sessions SET `+ended+` WHERE token = $1 AND ended_at IS NULL`, token); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// ended leaves nothing of a session but that it was.
const ended = `ended_at = now(), data = ''`

// Commit is CommitCtx for callers without a context.
func (s *Sessions) Commit(token string, data []byte, expiry time.Time) error {
	ctx, cancel := context.WithTimeout(context.Background(), withoutContext)
	defer cancel()
	return s.CommitCtx(ctx, token, data, expiry)
}

// Find is FindCtx for callers without a context.
func (s *Sessions) Find(token string) (data []byte, found bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), withoutContext)
	defer cancel()
	return s.FindCtx(ctx, token)
}

// Delete is DeleteCtx for callers without a context.
func (s *Sessions) Delete(token string) error {
	ctx, cancel := context.WithTimeout(context.Background(), withoutContext)
	defer cancel()
	return s.DeleteCtx(ctx, token)
}
