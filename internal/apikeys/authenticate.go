package apikeys

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	freshness  = 3 * time.Second // how long a revoked key may still work
	touchAfter = time.Minute     // how exact LastUsedAt is
	cacheSize  = 10_000
)

// cached is a key that was read not long ago.
type cached struct {
	key   Key
	until time.Time
}

// load is one query that all who present the same key wait for.
type load struct {
	done chan struct{}
	key  Key
	err  error
}

// Authenticate finds the key of a secret; ErrUnknown if there is none.
func (s *Store) Authenticate(ctx context.Context, secret string) (Key, error) {
	if len(secret) != len(mark)+digits || !strings.HasPrefix(secret, mark) {
		return Key{}, ErrUnknown
	}
	hash := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	if c, ok := s.cache[hash]; ok && s.now().Before(c.until) {
		s.mu.Unlock()
		return c.key, nil
	}
	l, running := s.loads[hash]
	if !running {
		l = &load{done: make(chan struct{})}
		s.loads[hash] = l
		go s.load(context.WithoutCancel(ctx), hash, l)
	}
	s.mu.Unlock()
	select {
	case <-l.done:
		return l.key, l.err
	case <-ctx.Done():
		return Key{}, ctx.Err()
	}
}

// load reads one key for everybody who presented it meanwhile.
func (s *Store) load(ctx context.Context, hash [sha256.Size]byte, l *load) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	asked := s.now() // a revocation after this moment may not be in the answer
	l.key, l.err = s.read(ctx, hash)
	s.mu.Lock()
	delete(s.loads, hash)
	if l.err == nil {
		if len(s.cache) >= cacheSize {
			clear(s.cache)
		}
		s.cache[hash] = cached{key: l.key, until: asked.Add(freshness)}
	}
	s.mu.Unlock()
	if l.err == nil && s.stale(l.key) {
		s.touches.Go(func() { s.touch(l.key.ID) })
	}
	close(l.done)
}

func (s *Store) read(ctx context.Context, hash [sha256.Size]byte) (Key, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+columns+` FROM api_keys WHERE hash = $1 AND revoked_at IS NULL`, hash[:])
	key, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Key])
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, ErrUnknown
	}
	if err != nil {
		return Key{}, fmt.Errorf("read API key: %w", err)
	}
	return key, nil
}

func (s *Store) stale(k Key) bool {
	return k.LastUsedAt == nil || s.now().Sub(*k.LastUsedAt) >= touchAfter
}

// touch notes that a key was used. Nobody waits for it; several processes may
// do it at once, and one of them writes.
func (s *Store) touch(id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := s.pool.Exec(ctx, `
		UPDATE api_keys SET last_used_at = now()
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= now() - make_interval(secs => $2))`, id, touchAfter.Seconds())
	if err != nil {
		s.log.Warn("note the use of an API key", "key_id", id, "error", err)
	}
}
