package upstreams

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrNotFound: the tenant has no upstream of that name, or it has no such version.
var ErrNotFound = errors.New("upstream not found")

// Upstream is one remote service of a tenant as the database knows it.
type Upstream struct {
	ID             int64
	Tenant         string
	Name           string
	Version        int // the newest; Profile is of this version
	Profile        *Profile
	PausedAt       *time.Time
	PausedBy       string
	PausedReason   string
	ThrottledUntil *time.Time
	BudgetTokens   float64 // of the retry budget, as last stored
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

// Version is one applied version of a profile.
type Version struct {
	Version   int
	SHA256    []byte
	AppliedAt time.Time
	AppliedBy string
}

// latestAge is how old what Latest returns may be.
const latestAge = time.Second

// Store keeps profiles as numbered versions. A version never changes, so that a
// parsed one is kept for good.
type Store struct {
	pool *pgxpool.Pool

	mu     sync.Mutex
	parsed map[versionKey]*Profile
	latest map[nameKey]seen
}

type versionKey struct {
	id      int64
	version int
}

type nameKey struct{ tenant, name string }

type seen struct {
	upstream Upstream
	at       time.Time
}

// NewStore builds a Store.
func NewStore(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool, parsed: make(map[versionKey]*Profile), latest: make(map[nameKey]seen)}
}

// Apply makes a profile the newest version of its upstream, or the first one of
// a new upstream. The same source again is no new version. It reports whether
// anything changed.
func (s *Store) Apply(ctx context.Context, p *Profile, actor string) (Upstream, bool, error) {
	sum := sha256.Sum256(p.Source)
	var changed bool
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var err error
		changed, err = apply(ctx, tx, p, sum[:], actor)
		return err
	})
	if err != nil {
		return Upstream{}, false, fmt.Errorf("apply profile of %s: %w", p.Upstream, err)
	}
	s.forget(p.Tenant, p.Upstream)
	u, err := s.Get(ctx, p.Tenant, p.Upstream)
	return u, changed, err
}

// apply locks the upstream's row, so that two that apply at once number their
// versions one after the other.
func apply(ctx context.Context, tx pgx.Tx, p *Profile, sum []byte, actor string) (bool, error) {
	_, err := tx.Exec(ctx, `
		INSERT INTO upstreams (tenant, name, version, budget_tokens, budget_at, created_at, updated_at)
		VALUES ($1, $2, 0, $3, now(), now(), now()) ON CONFLICT (tenant, name) DO NOTHING`,
		p.Tenant, p.Upstream, float64(p.Retry.Budget.Burst))
	if err != nil {
		return false, err
	}
	var (
		id      int64
		version int
		newest  []byte
	)
	err = tx.QueryRow(ctx, `SELECT id, version FROM upstreams WHERE tenant = $1 AND name = $2 FOR UPDATE`, p.Tenant, p.Upstream).Scan(&id, &version)
	if err != nil {
		return false, err
	}
	err = tx.QueryRow(ctx, `SELECT sha256 FROM upstream_versions WHERE upstream_id = $1 AND version = $2`, id, version).Scan(&newest)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, err
	}
	if bytes.Equal(newest, sum) {
		return false, nil
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO upstream_versions (upstream_id, version, source, sha256, applied_at, applied_by)
		VALUES ($1, $2, $3, $4, now(), $5)`, id, version+1, string(p.Source), sum, actor)
	if err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, `UPDATE upstreams SET version = $2, updated_at = now() WHERE id = $1`, id, version+1)
	return err == nil, err
}

const selectUpstreams = `
	SELECT u.id, u.tenant, u.name, u.version, u.paused_at, u.paused_by, u.paused_reason, u.throttled_until, u.budget_tokens,
		u.created_at, u.updated_at
	FROM upstreams u `

// Get reads an upstream with its newest profile.
func (s *Store) Get(ctx context.Context, tenant, name string) (Upstream, error) {
	u, err := s.one(ctx, `WHERE u.tenant = $1 AND u.name = $2`, tenant, name)
	if err == nil {
		s.remember(u)
	}
	return u, err
}

// Latest is Get for the hot path: what it returns may be a second old.
func (s *Store) Latest(ctx context.Context, tenant, name string) (Upstream, error) {
	s.mu.Lock()
	known, ok := s.latest[nameKey{tenant, name}]
	s.mu.Unlock()
	if ok && time.Since(known.at) < latestAge {
		return known.upstream, nil
	}
	return s.Get(ctx, tenant, name)
}

// ByID reads an upstream by its number.
func (s *Store) ByID(ctx context.Context, id int64) (Upstream, error) {
	return s.one(ctx, `WHERE u.id = $1`, id)
}

// List reads a tenant's upstreams by name.
func (s *Store) List(ctx context.Context, tenant string) ([]Upstream, error) {
	return s.many(ctx, `WHERE u.tenant = $1 ORDER BY u.name`, tenant)
}

// All reads every tenant's upstreams.
func (s *Store) All(ctx context.Context) ([]Upstream, error) { return s.many(ctx, `ORDER BY u.id`) }

func (s *Store) one(ctx context.Context, where string, args ...any) (Upstream, error) {
	list, err := s.many(ctx, where, args...)
	if err != nil {
		return Upstream{}, err
	}
	if len(list) == 0 {
		return Upstream{}, ErrNotFound
	}
	return list[0], nil
}

func (s *Store) many(ctx context.Context, where string, args ...any) ([]Upstream, error) {
	rows, err := s.pool.Query(ctx, selectUpstreams+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read upstreams: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Upstream, error) {
		var u Upstream
		err := row.Scan(&u.ID, &u.Tenant, &u.Name, &u.Version, &u.PausedAt, &u.PausedBy, &u.PausedReason, &u.ThrottledUntil,
			&u.BudgetTokens, &u.CreatedAt, &u.UpdatedAt)
		return u, err
	})
	if err != nil {
		return nil, fmt.Errorf("read upstreams: %w", err)
	}
	for i := range list {
		if list[i].Profile, err = s.Profile(ctx, list[i].ID, list[i].Version); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Profile returns a version of a profile, parsed once and kept.
func (s *Store) Profile(ctx context.Context, id int64, version int) (*Profile, error) {
	key := versionKey{id, version}
	s.mu.Lock()
	p := s.parsed[key]
	s.mu.Unlock()
	if p != nil {
		return p, nil
	}
	var name, source string
	err := s.pool.QueryRow(ctx, `
		SELECT u.name, v.source FROM upstream_versions v JOIN upstreams u ON u.id = v.upstream_id
		WHERE v.upstream_id = $1 AND v.version = $2`, id, version).Scan(&name, &source)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read version %d of upstream %d: %w", version, id, err)
	}
	if p, err = Parse(fmt.Sprintf("%s (version %d)", name, version), []byte(source)); err != nil {
		return nil, fmt.Errorf("version %d of upstream %s no longer parses: %w", version, name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parsed[key] = p
	return p, nil
}

// Versions lists the versions of a profile, the newest first.
func (s *Store) Versions(ctx context.Context, tenant, name string) ([]Version, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT v.version, v.sha256, v.applied_at, v.applied_by FROM upstream_versions v JOIN upstreams u ON u.id = v.upstream_id
		WHERE u.tenant = $1 AND u.name = $2 ORDER BY v.version DESC`, tenant, name)
	if err != nil {
		return nil, fmt.Errorf("read versions of upstream %s: %w", name, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Version])
	if err != nil {
		return nil, fmt.Errorf("read versions of upstream %s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, ErrNotFound
	}
	return list, nil
}

// Pause holds back every command of an upstream; their deadlines run on.
func (s *Store) Pause(ctx context.Context, tenant, name, reason, actor string) (Upstream, error) {
	return s.setPause(ctx, `
		UPDATE upstreams SET paused_at = coalesce(paused_at, now()), paused_by = $3, paused_reason = $4, updated_at = now()
		WHERE tenant = $1 AND name = $2`, tenant, name, actor, reason)
}

// Resume lets them go.
func (s *Store) Resume(ctx context.Context, tenant, name, actor string) (Upstream, error) {
	return s.setPause(ctx, `
		UPDATE upstreams SET paused_at = NULL, paused_by = '', paused_reason = '', updated_at = now()
		WHERE tenant = $1 AND name = $2 AND $3 <> ''`, tenant, name, actor)
}

func (s *Store) setPause(ctx context.Context, sql, tenant, name string, args ...any) (Upstream, error) {
	tag, err := s.pool.Exec(ctx, sql, append([]any{tenant, name}, args...)...)
	if err != nil {
		return Upstream{}, fmt.Errorf("pause or resume upstream %s: %w", name, err)
	}
	if tag.RowsAffected() == 0 {
		return Upstream{}, ErrNotFound
	}
	return s.Get(ctx, tenant, name)
}

func (s *Store) remember(u Upstream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest[nameKey{u.Tenant, u.Name}] = seen{u, time.Now()}
}

func (s *Store) forget(tenant, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.latest, nameKey{tenant, name})
}
