package upstreams

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/groupcommit"
)

// ErrNotFound: no such upstream for this tenant, or no such version of it.
var ErrNotFound = errors.New("upstream not found")

// ErrStale: the upstream is not any more as somebody saw it who wants to change it.
// Nothing was changed.
var ErrStale = errors.New("upstream changed meanwhile")

// Upstream is a profile in the database, with what changes while it is in use.
type Upstream struct {
	ID             int64
	Tenant         string
	Name           string
	Version        int      // the newest; commands pin the one they were accepted under
	Profile        *Profile // of that version
	PausedAt       *time.Time
	PausedBy       string
	PausedReason   string
	ThrottledUntil *time.Time
	BudgetTokens   float64 // left in the retry budget; 0 also where commands wait for tokens
	CreatedAt      time.Time
	UpdatedAt      time.Time
	Unreadable     error // why the newest version cannot be read; from All only
}

// Version is one applied version. It never changes.
type Version struct {
	Version   int
	SHA256    []byte // of the source
	AppliedAt time.Time
	AppliedBy string
}

// Store keeps upstreams in the tables upstreams and upstream_versions.
type Store struct {
	pool *pgxpool.Pool

	reading  sync.Mutex // one version at a time is read
	mu       sync.Mutex
	versions map[versionKey]parsed // read so far; they never change
	latest   map[nameKey]*latestEntry
}

type versionKey struct {
	id      int64
	version int
}

// NewStore makes a store on a migrated database.
func NewStore(pool *pgxpool.Pool) *Store {
	return &Store{pool: pool, versions: map[versionKey]parsed{}, latest: map[nameKey]*latestEntry{}}
}

// upstreamRow is a row of the table upstreams.
type upstreamRow struct {
	ID             int64
	Tenant         string
	Name           string
	Version        int
	PausedAt       *time.Time
	PausedBy       string
	PausedReason   string
	ThrottledUntil *time.Time
	BudgetTokens   float64
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

const upstreamColumns = `id, tenant, name, version, paused_at, paused_by, paused_reason, throttled_until, budget_tokens, created_at, updated_at`

// Apply makes the profile the newest version of its upstream, and makes the
// upstream if there is none. The source that is the newest already changes
// nothing. A *CredentialError says that a credential would go to another origin
// than before.
func (s *Store) Apply(ctx context.Context, p *Profile, by audit.By) (Upstream, bool, error) {
	return s.apply(ctx, p, by, func(upstreamRow) error { return nil })
}

// ApplyOver is Apply by somebody who has seen one version, 0 where there was no
// upstream: ErrStale if another is the newest by now, unless it has the same source.
func (s *Store) ApplyOver(ctx context.Context, p *Profile, seen int, by audit.By) (Upstream, bool, error) {
	return s.apply(ctx, p, by, func(row upstreamRow) error {
		if row.Version != seen {
			return ErrStale
		}
		return nil
	})
}

// apply asks guard about the upstream as it is, before it changes.
func (s *Store) apply(ctx context.Context, p *Profile, by audit.By, guard func(upstreamRow) error) (Upstream, bool, error) {
	var row upstreamRow
	changed := false
	err := groupcommit.Commit(ctx, s.pool, func(tx pgx.Tx) error {
		var err error
		changed = false
		if row, err = lockUpstream(ctx, tx, p); err != nil {
			return err
		}
		sum := sha256.Sum256(p.Source)
		same, err := hasSource(ctx, tx, row, sum[:])
		if err != nil || same {
			return err
		}
		if err := guard(row); err != nil {
			return err
		}
		if err := checkCredentials(ctx, tx, row, p); err != nil {
			return err
		}
		changed = true
		if row, err = addVersion(ctx, tx, row, p, sum[:], by.Actor); err != nil {
			return err
		}
		return noteVersion(ctx, tx, row, sum[:], by)
	})
	if err != nil {
		return Upstream{}, false, fmt.Errorf("apply upstream %s of %s: %w", p.Upstream, p.Tenant, err)
	}
	if changed {
		s.keep(versionKey{row.ID, row.Version}, parsed{profile: p}) // to read it again would be to parse it again
	}
	s.forget(row.Tenant, row.Name)
	u, err := s.withProfile(ctx, row)
	return u, changed, err
}

// lockUpstream locks the upstream's row, made at version 0 if it is new. Its
// retry budget starts full.
func lockUpstream(ctx context.Context, tx pgx.Tx, p *Profile) (upstreamRow, error) {
	_, err := tx.Exec(ctx, `
		INSERT INTO upstreams (tenant, name, version, budget_tokens, budget_at, created_at, updated_at)
		VALUES ($1, $2, 0, $3, now(), now(), now())
		ON CONFLICT (tenant, name) DO NOTHING`, p.Tenant, p.Upstream, float64(p.Retry.Budget.Burst))
	if err != nil {
		return upstreamRow{}, err
	}
	return one(tx.Query(ctx, `SELECT `+upstreamColumns+` FROM upstreams WHERE tenant = $1 AND name = $2 FOR UPDATE`, p.Tenant, p.Upstream))
}

// hasSource says whether the newest version has this source.
func hasSource(ctx context.Context, tx pgx.Tx, row upstreamRow, sum []byte) (bool, error) {
	var newest []byte
	err := tx.QueryRow(ctx, `SELECT sha256 FROM upstream_versions WHERE upstream_id = $1 AND version = $2`, row.ID, row.Version).Scan(&newest)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return bytes.Equal(newest, sum), err
}

func addVersion(ctx context.Context, tx pgx.Tx, row upstreamRow, p *Profile, sum []byte, actor string) (upstreamRow, error) {
	_, err := tx.Exec(ctx, `
		INSERT INTO upstream_versions (upstream_id, version, source, sha256, applied_at, applied_by)
		VALUES ($1, $2, $3, $4, now(), $5)`, row.ID, row.Version+1, string(p.Source), sum, actor)
	if err != nil {
		return upstreamRow{}, err
	}
	return one(tx.Query(ctx, `
		UPDATE upstreams SET version = version + 1, budget_tokens = least(budget_tokens, $2),
			throttled_until = CASE WHEN $3 THEN throttled_until END, updated_at = now()
		WHERE id = $1
		RETURNING `+upstreamColumns, row.ID, float64(p.Retry.Budget.Burst), p.Retry.ThrottlePausesUpstream))
}

// noteVersion writes the new version and the one it follows into the audit, as the
// last step of the transaction.
func noteVersion(ctx context.Context, tx pgx.Tx, row upstreamRow, sum []byte, by audit.By) error {
	type version struct {
		Version int `json:"version"`
	}
	e := audit.Entry{
		Tenant: row.Tenant, Actor: by.Actor, Action: audit.ActionProfileApply, Subject: row.Name, Reason: by.Reason,
		After: version{row.Version}, Details: map[string]string{"sha256": hex.EncodeToString(sum)},
	}
	if row.Version > 1 {
		e.Before = version{row.Version - 1}
	}
	return audit.Record(ctx, tx, e)
}

// one reads the only row of a query.
func one(rows pgx.Rows, err error) (upstreamRow, error) {
	if err != nil {
		return upstreamRow{}, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[upstreamRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return upstreamRow{}, ErrNotFound
	}
	return row, err
}

// Get reads an upstream with its newest profile.
func (s *Store) Get(ctx context.Context, tenant, name string) (Upstream, error) {
	row, err := one(s.pool.Query(ctx, `SELECT `+upstreamColumns+` FROM upstreams WHERE tenant = $1 AND name = $2`, tenant, name))
	if err != nil {
		return Upstream{}, fmt.Errorf("get upstream %s of %s: %w", name, tenant, err)
	}
	return s.withProfile(ctx, row)
}

// ByID reads an upstream by its number.
func (s *Store) ByID(ctx context.Context, id int64) (Upstream, error) {
	row, err := one(s.pool.Query(ctx, `SELECT `+upstreamColumns+` FROM upstreams WHERE id = $1`, id))
	if err != nil {
		return Upstream{}, fmt.Errorf("get upstream %d: %w", id, err)
	}
	return s.withProfile(ctx, row)
}

// List reads the upstreams of a tenant, by name.
func (s *Store) List(ctx context.Context, tenant string) ([]Upstream, error) {
	list, err := s.list(ctx, `SELECT `+upstreamColumns+` FROM upstreams WHERE tenant = $1 ORDER BY name`, tenant)
	for _, u := range list {
		err = errors.Join(err, u.Unreadable)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Tenants lists the tenants that have upstreams.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	rows, _ := s.pool.Query(ctx, `SELECT DISTINCT tenant FROM upstreams ORDER BY tenant`)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	return list, nil
}

// All reads the upstreams of all tenants, by number. One whose newest version can
// no longer be read does not keep the others back: it comes as Unreadable, with an
// empty profile.
func (s *Store) All(ctx context.Context) ([]Upstream, error) {
	return s.list(ctx, `SELECT `+upstreamColumns+` FROM upstreams ORDER BY id`)
}

// list reads upstreams, some of them Unreadable perhaps.
func (s *Store) list(ctx context.Context, query string, args ...any) ([]Upstream, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list upstreams: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[upstreamRow])
	if err != nil {
		return nil, fmt.Errorf("list upstreams: %w", err)
	}
	out := make([]Upstream, 0, len(found))
	for _, row := range found {
		u, err := s.withProfile(ctx, row)
		var unreadable *ParseError
		switch {
		case errors.As(err, &unreadable):
			u = row.upstream(&Profile{Upstream: row.Name, Tenant: row.Tenant})
			u.Unreadable = err
		case err != nil:
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

// Versions reads the versions of an upstream, the newest first.
func (s *Store) Versions(ctx context.Context, tenant, name string) ([]Version, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT v.version, v.sha256, v.applied_at, v.applied_by
		FROM upstream_versions v JOIN upstreams u ON u.id = v.upstream_id
		WHERE u.tenant = $1 AND u.name = $2
		ORDER BY v.version DESC`, tenant, name)
	if err != nil {
		return nil, fmt.Errorf("versions of upstream %s of %s: %w", name, tenant, err)
	}
	versions, err := pgx.CollectRows(rows, pgx.RowToStructByName[Version])
	if err == nil && len(versions) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("versions of upstream %s of %s: %w", name, tenant, err)
	}
	return versions, nil
}

// Profile gives the profile of one version, which never changes. It may be asked
// inside a transaction: what is not known yet is read over a connection of its own,
// so that no transaction waits for a second one of the pool, which all others may
// have taken to wait for the same.
func (s *Store) Profile(ctx context.Context, id int64, version int) (*Profile, error) {
	key := versionKey{id, version}
	if known, ok := s.known(key); ok {
		return known.profile, known.err
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if known, ok := s.known(key); ok { // somebody else has read it meanwhile
		return known.profile, known.err
	}
	source, err := s.source(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("profile version %d of upstream %d: %w", version, id, err)
	}
	p, err := parseStored(fmt.Sprintf("upstream %d version %d", id, version), []byte(source))
	if err != nil {
		err = fmt.Errorf("profile version %d of upstream %d, stored earlier, is not valid any more: %w", version, id, err)
	}
	s.keep(key, parsed{p, err})
	return p, err
}

func (s *Store) keep(key versionKey, p parsed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[key] = p
}

// parsed is what became of a version's source.
type parsed struct {
	profile *Profile
	err     error
}

func (s *Store) known(key versionKey) (parsed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.versions[key]
	return p, ok
}

// source reads a version over a connection of its own.
func (s *Store) source(ctx context.Context, key versionKey) (source string, err error) {
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return "", err
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(bound)
	}()
	err = conn.QueryRow(ctx, `SELECT source FROM upstream_versions WHERE upstream_id = $1 AND version = $2`, key.id, key.version).Scan(&source)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	return source, err
}

func (s *Store) withProfile(ctx context.Context, row upstreamRow) (Upstream, error) {
	p, err := s.Profile(ctx, row.ID, row.Version)
	if err != nil {
		return Upstream{}, err
	}
	return row.upstream(p), nil
}

func (row upstreamRow) upstream(p *Profile) Upstream {
	return Upstream{
		ID: row.ID, Tenant: row.Tenant, Name: row.Name, Version: row.Version, Profile: p,
		PausedAt: row.PausedAt, PausedBy: row.PausedBy, PausedReason: row.PausedReason,
		ThrottledUntil: row.ThrottledUntil, BudgetTokens: max(0, row.BudgetTokens),
		CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt,
	}
}

// Names lists the upstreams of a tenant by name, also those whose newest version
// can no longer be read.
func (s *Store) Names(ctx context.Context, tenant string) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT name FROM upstreams WHERE tenant = $1 ORDER BY name`, tenant)
	if err != nil {
		return nil, fmt.Errorf("names of upstreams: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("names of upstreams: %w", err)
	}
	return names, nil
}

// Source reads the text of one version as it was applied, whether or not it can be
// read as a profile today.
func (s *Store) Source(ctx context.Context, tenant, name string, version int) (string, error) {
	var source string
	err := s.pool.QueryRow(ctx, `
		SELECT v.source FROM upstream_versions v JOIN upstreams u ON u.id = v.upstream_id
		WHERE u.tenant = $1 AND u.name = $2 AND v.version = $3`, tenant, name, version).Scan(&source)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return "", fmt.Errorf("source of version %d of upstream %s of %s: %w", version, name, tenant, err)
	}
	return source, nil
}
