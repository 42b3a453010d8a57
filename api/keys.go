package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Key is an API key without its secret, of which only the SHA-256 is stored.
type Key struct {
	ID         uuid.UUID
	Tenant     string
	Name       string   // the actor of what is done with it; one live key a name
	Prefix     string   // the beginning of the secret, to tell keys apart
	Scopes     []string // see Scopes
	CreatedAt  time.Time
	LastUsedAt *time.Time // within a minute or so
	RevokedAt  *time.Time
}

// Allows reports whether the key has the scope.
func (k Key) Allows(scope Scope) bool {
	return slices.Contains(k.Scopes, string(scope)) || slices.Contains(k.Scopes, string(ScopeAdmin))
}

// Scopes lists what a key can be allowed. admin includes the others.
func Scopes() []Scope {
	return []Scope{ScopeCommandsWrite, ScopeCommandsRead, ScopeReviewsWrite, ScopeAdmin}
}

var (
	// ErrUnknownKey: no such API key, or it was revoked.
	ErrUnknownKey = errors.New("unknown API key")
	// ErrKeyExists: the tenant has a live key of that name.
	ErrKeyExists = errors.New("an API key of that name exists")
)

const (
	keyMark      = "exk_"           // what every secret begins with, so that scanners find leaked ones
	keyDigits    = 43               // base62 digits of 32 bytes
	keyShown     = len(keyMark) + 6 // of it in Key.Prefix
	keyFreshness = 3 * time.Second  // how long a revoked key may still work
	keyTouch     = time.Minute      // how exact LastUsedAt is
	keysCached   = 10_000
)

// KeyStore keeps the API keys. Keys in use are remembered for a few seconds, so
// that requests cost no query each.
type KeyStore struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	cache   map[[sha256.Size]byte]cachedKey
	loads   map[[sha256.Size]byte]*keyLoad // under way
	touches sync.WaitGroup
}

type cachedKey struct {
	key   Key
	until time.Time
}

// keyLoad is one query that all who present the same key wait for.
type keyLoad struct {
	done chan struct{}
	key  Key
	err  error
}

// NewKeyStore builds a KeyStore on the table api_keys.
func NewKeyStore(pool *pgxpool.Pool, log *slog.Logger) *KeyStore {
	return &KeyStore{
		pool: pool, log: log, now: time.Now,
		cache: make(map[[sha256.Size]byte]cachedKey), loads: make(map[[sha256.Size]byte]*keyLoad),
	}
}

// Close waits for what is written in the background.
func (s *KeyStore) Close() { s.touches.Wait() }

var keyNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}$`)

// Create makes a key and returns its secret, which cannot be had again.
func (s *KeyStore) Create(ctx context.Context, tenant, name string, scopes []string) (Key, string, error) {
	switch {
	case tenant == "":
		return Key{}, "", errors.New("an API key needs a tenant")
	case !keyNames.MatchString(name):
		return Key{}, "", fmt.Errorf("the name %q does not fit: up to 100 letters, digits, spaces and . _ @ -, a letter or digit first", name)
	case len(scopes) == 0:
		return Key{}, "", fmt.Errorf("an API key needs a scope: %s", scopeList())
	}
	for _, scope := range scopes {
		if !slices.Contains(Scopes(), Scope(scope)) {
			return Key{}, "", fmt.Errorf("unknown scope %q: choose from %s", scope, scopeList())
		}
	}
	secret := newSecret()
	key := Key{
		ID: uuid.Must(uuid.NewV7()), Tenant: tenant, Name: name, Prefix: secret[:keyShown],
		Scopes: slices.Compact(slices.Sorted(slices.Values(scopes))), CreatedAt: s.now().UTC().Truncate(time.Microsecond),
	}
	hash := sha256.Sum256([]byte(secret))
	_, err := s.pool.Exec(ctx, `
		INSERT INTO api_keys (id, tenant, name, prefix, hash, scopes, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		key.ID, key.Tenant, key.Name, key.Prefix, hash[:], key.Scopes, key.CreatedAt)
	if taken(err) {
		return Key{}, "", fmt.Errorf("%w: %s", ErrKeyExists, name)
	}
	if err != nil {
		return Key{}, "", fmt.Errorf("create API key %s: %w", name, err)
	}
	return key, secret, nil
}

// List reads a tenant's keys, the newest first, revoked ones too.
func (s *KeyStore) List(ctx context.Context, tenant string) ([]Key, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+keyColumns+` FROM api_keys WHERE tenant = $1 ORDER BY created_at DESC, id DESC`, tenant)
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByName[Key])
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return keys, nil
}

// Revoke ends a tenant's live key, named by its name, prefix or id. Requests
// with it are refused within seconds, in every process.
func (s *KeyStore) Revoke(ctx context.Context, tenant, which string) (Key, error) {
	rows, _ := s.pool.Query(ctx, `
		UPDATE api_keys SET revoked_at = now()
		WHERE tenant = $1 AND revoked_at IS NULL AND (name = $2 OR prefix = $2 OR id::text = $2)
		RETURNING `+keyColumns, tenant, which)
	key, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Key])
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, fmt.Errorf("%w: %s", ErrUnknownKey, which)
	}
	if err != nil {
		return Key{}, fmt.Errorf("revoke API key %s: %w", which, err)
	}
	s.mu.Lock()
	clear(s.cache)
	s.mu.Unlock()
	return key, nil
}

// Authenticate finds the key of a secret; ErrUnknownKey if there is none.
func (s *KeyStore) Authenticate(ctx context.Context, secret string) (Key, error) {
	if len(secret) != len(keyMark)+keyDigits || !strings.HasPrefix(secret, keyMark) {
		return Key{}, ErrUnknownKey
	}
	hash := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	if c, ok := s.cache[hash]; ok && s.now().Before(c.until) {
		s.mu.Unlock()
		return c.key, nil
	}
	load, running := s.loads[hash]
	if !running {
		load = &keyLoad{done: make(chan struct{})}
		s.loads[hash] = load
		go s.load(context.WithoutCancel(ctx), hash, load)
	}
	s.mu.Unlock()
	select {
	case <-load.done:
		return load.key, load.err
	case <-ctx.Done():
		return Key{}, ctx.Err()
	}
}

// load reads one key for everybody who presented it meanwhile.
func (s *KeyStore) load(ctx context.Context, hash [sha256.Size]byte, load *keyLoad) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asked := s.now() // a revocation after this moment may not be in the answer
	load.key, load.err = s.read(ctx, hash)
	s.mu.Lock()
	delete(s.loads, hash)
	if load.err == nil {
		if len(s.cache) >= keysCached {
			clear(s.cache)
		}
		s.cache[hash] = cachedKey{key: load.key, until: asked.Add(keyFreshness)}
	}
	s.mu.Unlock()
	if load.err == nil && s.stale(load.key) {
		s.touches.Go(func() { s.touch(load.key.ID) })
	}
	close(load.done)
}

const keyColumns = `id, tenant, name, prefix, scopes, created_at, last_used_at, revoked_at`

func (s *KeyStore) read(ctx context.Context, hash [sha256.Size]byte) (Key, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+keyColumns+` FROM api_keys WHERE hash = $1 AND revoked_at IS NULL`, hash[:])
	key, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Key])
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, ErrUnknownKey
	}
	if err != nil {
		return Key{}, fmt.Errorf("read API key: %w", err)
	}
	return key, nil
}

func (s *KeyStore) stale(k Key) bool {
	return k.LastUsedAt == nil || s.now().Sub(*k.LastUsedAt) >= keyTouch
}

// touch notes that a key was used. Nobody waits for it; several processes may
// do it at once, and one of them writes.
func (s *KeyStore) touch(id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := s.pool.Exec(ctx, `
		UPDATE api_keys SET last_used_at = now()
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= now() - make_interval(secs => $2))`, id, keyTouch.Seconds())
	if err != nil {
		s.log.Warn("note the use of an API key", "key_id", id, "error", err)
	}
}

// newSecret makes a key's secret: the mark and 32 random bytes in base62.
func newSecret() string {
	var random [32]byte
	rand.Read(random[:]) // never fails: it ends the program instead
	digits := new(big.Int).SetBytes(random[:]).Text(62)
	return keyMark + strings.Repeat("0", keyDigits-len(digits)) + digits
}

func scopeList() string {
	var names []string
	for _, scope := range Scopes() {
		names = append(names, string(scope))
	}
	return strings.Join(names, ", ")
}

// taken reports whether a unique constraition refused a row.
func taken(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505"
}
