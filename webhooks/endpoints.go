package webhooks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
)

// MaxEndpoints is how many endpoints a tenant may have: every outcome of the
// tenant costs a look at each.
const MaxEndpoints = 50

// Create makes an endpoint and returns it with its secret, which is shown this
// once. Two endpoints of a tenant never have the same URL, so that asking again
// after a lost answer makes no second one: it is *Refused with the first one's id,
// whose secret can be rotated.
func (s *Store) Create(ctx context.Context, by By, set Settings) (Endpoint, string, error) {
	if err := s.sealing(); err != nil {
		return Endpoint{}, "", err
	}
	if err := s.check(&set, Settings{}); err != nil {
		return Endpoint{}, "", err
	}
	var (
		id     = uuid.Must(uuid.NewV7())
		secret string
		made   Endpoint
	)
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if err := roomFor(ctx, tx, by.Tenant, set.URL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO webhook_endpoints (id, tenant, url, description, events, upstreams, ordered, created_at, updated_at, verified_at, verified_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, now(), now(), CASE WHEN $8 <> '' THEN now() END, $8)`,
			id, by.Tenant, set.URL, set.Description, set.Events, set.Upstreams, set.Ordered, s.trusts(set.URL))
		if err != nil {
			return fmt.Errorf("create webhook: %w", err)
		}
		if secret, err = s.addSecret(ctx, tx, by.Tenant, id); err != nil {
			return err
		}
		if made, err = endpoint(ctx, tx, by.Tenant, id); err != nil {
			return err
		}
		if err := unproven(ctx, tx, made); err != nil {
			return err
		}
		return by.note(ctx, tx, audit.ActionWebhookCreate, id.String(), nil, made.audited(), nil)
	})
	if err == nil {
		s.nudge()
	}
	return made, secret, err
}

// roomFor refuses a URL that the tenant has, and more endpoints than it may have.
// Creations of one tenant wait for one another.
func roomFor(ctx context.Context, tx pgx.Tx, tenant, url string) error {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('webhook_endpoints ' || $1, 0))`, tenant); err != nil {
		return fmt.Errorf("lock the webhooks of a tenant: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT id, url FROM webhook_endpoints WHERE tenant = $1`, tenant)
	if err != nil {
		return fmt.Errorf("count webhooks: %w", err)
	}
	var (
		id    uuid.UUID
		taken string
		n     int
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &taken}, func() error {
		if n++; taken == url {
			return refused("webhook_exists", "The webhook %s has this URL already.", id)
		}
		return nil
	})
	if err == nil && n >= MaxEndpoints {
		err = refused("too_many_webhooks", "There are %d webhooks, as many as a tenant may have.", n)
	}
	return err
}

// audited is what the audit keeps of an endpoint.
func (e Endpoint) audited() any {
	return struct {
		URL         string     `json:"url"`
		Description string     `json:"description"`
		Events      []string   `json:"events"`
		Upstreams   []string   `json:"upstreams"`
		Ordered     bool       `json:"ordered"`
		Disabled    DisabledBy `json:"disabled,omitempty"`
		Verified    VerifiedBy `json:"verified,omitempty"`
	}{e.URL, e.Description, e.Events, e.Upstreams, e.Ordered, e.DisabledBy, e.VerifiedBy}
}

// endpointRow is an endpoint as the table has it.
type endpointRow struct {
	ID             uuid.UUID
	Tenant         string
	URL            string
	Description    string
	Events         []string
	Upstreams      []string
	Ordered        bool
	Version        int
	CreatedAt      time.Time
	UpdatedAt      time.Time
	DisabledAt     *time.Time
	DisabledBy     DisabledBy
	DisabledReason string
	FailingSince   *time.Time
	VerifiedAt     *time.Time
	VerifiedBy     VerifiedBy
}

func (r endpointRow) endpoint() Endpoint {
	return Endpoint{
		ID: r.ID, Tenant: r.Tenant, Version: r.Version, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Settings:   Settings{URL: r.URL, Description: r.Description, Events: r.Events, Upstreams: r.Upstreams, Ordered: r.Ordered},
		DisabledAt: r.DisabledAt, DisabledBy: r.DisabledBy, DisabledReason: r.DisabledReason, FailingSince: r.FailingSince,
		VerifiedAt: r.VerifiedAt, VerifiedBy: r.VerifiedBy,
	}
}

const selectEndpoints = `
	SELECT id, tenant, url, description, events, upstreams, ordered, version, created_at, updated_at,
		disabled_at, disabled_by, disabled_reason, failing_since, verified_at, verified_by
	FROM webhook_endpoints `

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// endpoint reads one of a tenant, or is ErrNotFound.
func endpoint(ctx context.Context, q querier, tenant string, id uuid.UUID) (Endpoint, error) {
	list, err := endpoints(ctx, q, `WHERE tenant = $1 AND id = $2`, tenant, id)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Endpoint{}, err
	}
	return list[0], nil
}

func endpoints(ctx context.Context, q querier, where string, args ...any) ([]Endpoint, error) {
	rows, err := q.Query(ctx, selectEndpoints+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[endpointRow])
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	ids, list := make([]uuid.UUID, len(found)), make([]Endpoint, len(found))
	for i, r := range found {
		ids[i], list[i] = r.ID, r.endpoint()
	}
	secrets, err := secretsOf(ctx, q, ids)
	for i := range list {
		list[i].Secrets = secrets[list[i].ID]
	}
	return list, err
}

// Get reads one endpoint. Another tenant's id is ErrNotFound.
func (s *Store) Get(ctx context.Context, tenant string, id uuid.UUID) (Endpoint, error) {
	e, err := endpoint(ctx, s.pool, tenant, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		err = unavailable("read webhook", err)
	}
	return e, err
}

// List reads all endpoints of a tenant, oldest first.
func (s *Store) List(ctx context.Context, tenant string) ([]Endpoint, error) {
	list, err := endpoints(ctx, s.pool, `WHERE tenant = $1 ORDER BY created_at, id`, tenant)
	if err != nil {
		return nil, unavailable("read webhooks", err)
	}
	return list, nil
}
