package apikeys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/groupcommit"
)

// Store keeps the API keys. Keys in use are remembered for a few seconds, so
// that requests cost no query each.
type Store struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	cache   map[[sha256.Size]byte]cached
	loads   map[[sha256.Size]byte]*load // under way
	touches sync.WaitGroup
}

// NewStore builds a Store on the table api_keys.
func NewStore(pool *pgxpool.Pool, log *slog.Logger) *Store {
	return &Store{
		pool: pool, log: log, now: time.Now,
		cache: make(map[[sha256.Size]byte]cached), loads: make(map[[sha256.Size]byte]*load),
	}
}

// Close waits for what is written in the background.
func (s *Store) Close() { s.touches.Wait() }

const columns = `id, tenant, name, prefix, scopes, created_at, last_used_at, revoked_at`

// Create makes a key and returns its secret, which cannot be had again. ErrExists
// says that its name is taken, an *Invalid what is wrong with what was asked for.
func (s *Store) Create(ctx context.Context, tenant, name string, scopes []string, by audit.By) (Key, string, error) {
	if err := check(tenant, name, scopes); err != nil {
		return Key{}, "", &Invalid{err.Error()}
	}
	secret := newSecret()
	key := Key{
		ID: uuid.Must(uuid.NewV7()), Tenant: tenant, Name: name, Prefix: secret[:shown],
		Scopes: slices.Compact(slices.Sorted(slices.Values(scopes))), CreatedAt: s.now().UTC().Truncate(time.Microsecond),
	}
	err := groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) error { return insert(ctx, tx, key, secret, by) })
	if taken(err) {
		return Key{}, "", fmt.Errorf("%w: %s", ErrExists, name)
	}
	if err != nil {
		return Key{}, "", fmt.Errorf("create API key %s: %w", name, err)
	}
	return key, secret, nil
}

func insert(ctx context.Context, tx pgx.Tx, key Key, secret string, by audit.By) error {
	hash := sha256.Sum256([]byte(secret))
	_, err := tx.Exec(ctx, `
		INSERT INTO api_keys (id, tenant, name, prefix, hash, scopes, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		key.ID, key.Tenant, key.Name, key.Prefix, hash[:], key.Scopes, key.CreatedAt)
	if err != nil {
		return err
	}
	return key.note(ctx, tx, audit.ActionKeyCreate, by)
}

// note writes what was done to the key into the audit, as the last step of its
// transaction.
func (k Key) note(ctx context.Context, tx pgx.Tx, action string, by audit.By) error {
	return audit.Record(ctx, tx, audit.Entry{
		Tenant: k.Tenant, Actor: by.Actor, Action: action, Subject: k.Name, Reason: by.Reason,
		Details: map[string]any{"id": k.ID, "prefix": k.Prefix, "scopes": k.Scopes},
	})
}

// List reads a tenant's keys, the newest first, revoked ones too.
func (s *Store) List(ctx context.Context, tenant string) ([]Key, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+columns+` FROM api_keys WHERE tenant = $1 ORDER BY created_at DESC, id DESC`, tenant)
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByName[Key])
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return keys, nil
}

// Revoke ends a tenant's live key, named by its name, prefix or id. Requests
// with it are refused within seconds, in every process. ErrUnknown says that there
// is no such live key, ErrSeveral that there are several, and none was ended.
func (s *Store) Revoke(ctx context.Context, tenant, which string, by audit.By) (Key, error) {
	var key Key
	err := groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) (err error) {
		rows, _ := tx.Query(ctx, `
			UPDATE api_keys SET revoked_at = now()
			WHERE tenant = $1 AND revoked_at IS NULL AND (name = $2 OR prefix = $2 OR id::text = $2)
			RETURNING `+columns, tenant, which)
		if key, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Key]); err != nil {
			return err
		}
		return key.note(ctx, tx, audit.ActionKeyRevoke, by)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Key{}, fmt.Errorf("%w: %s", ErrUnknown, which)
	case errors.Is(err, pgx.ErrTooManyRows):
		return Key{}, fmt.Errorf("%w: %s", ErrSeveral, which)
	case err != nil:
		return Key{}, fmt.Errorf("revoke API key %s: %w", which, err)
	}
	s.mu.Lock()
	clear(s.cache)
	s.mu.Unlock()
	return key, nil
}

// taken reports whether a unique constraint refused a row.
func taken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505"
}
