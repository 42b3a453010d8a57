package webhooks

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
)

// Changes are what Update changes; nil leaves a setting as it is.
type Changes struct {
	URL         *string
	Description *string
	Events      *[]string
	Upstreams   *[]string
	Ordered     *bool
	Disabled    *bool // false enables it again, also where it was not a person who disabled it
}

func (c Changes) apply(set Settings) Settings {
	set.URL = or(c.URL, set.URL)
	set.Description = or(c.Description, set.Description)
	set.Events = or(c.Events, set.Events)
	set.Upstreams = or(c.Upstreams, set.Upstreams)
	set.Ordered = or(c.Ordered, set.Ordered)
	return set
}

func or[T any](given *T, otherwise T) T {
	if given == nil {
		return otherwise
	}
	return *given
}

// Update changes an endpoint that is still in the version the caller saw, else
// it is *Stale; version 0 takes it as it is. What was due while it was disabled
// follows when it is enabled. A new URL, and being enabled, forgives past
// failures; the receiver at a new URL is asked first whether it wants webhooks.
func (s *Store) Update(ctx context.Context, by By, id uuid.UUID, version int, c Changes) (Endpoint, error) {
	var after Endpoint
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := lockEndpoint(ctx, tx, by.Tenant, id, version)
		if err != nil {
			return err
		}
		set := c.apply(before.Settings)
		if err := s.check(&set, before.Settings); err != nil {
			return err
		}
		if set.URL != before.URL {
			if err := freeURL(ctx, tx, by.Tenant, set.URL); err != nil {
				return err
			}
		}
		if err := s.write(ctx, tx, before, set, c.Disabled, by); err != nil {
			return err
		}
		if after, err = endpoint(ctx, tx, by.Tenant, id); err != nil {
			return err
		}
		if err := asked(ctx, tx, before, after); err != nil {
			return err
		}
		return by.note(ctx, tx, audit.ActionWebhookUpdate, id.String(), before.audited(), after.audited(), nil)
	})
	if err == nil {
		s.nudge()
	}
	return after, err
}

// lockEndpoint reads an endpoint that nobody else changes until the transaction
// ends.
func lockEndpoint(ctx context.Context, tx pgx.Tx, tenant string, id uuid.UUID, version int) (Endpoint, error) {
	if _, err := tx.Exec(ctx, `SELECT FROM webhook_endpoints WHERE tenant = $1 AND id = $2 FOR UPDATE`, tenant, id); err != nil {
		return Endpoint{}, fmt.Errorf("lock webhook %s: %w", id, err)
	}
	e, err := endpoint(ctx, tx, tenant, id)
	if err == nil && version != 0 && e.Version != version {
		err = &Stale{Version: e.Version}
	}
	return e, err
}

func freeURL(ctx context.Context, tx pgx.Tx, tenant, url string) error {
	var id uuid.UUID
	err := tx.QueryRow(ctx, `SELECT id FROM webhook_endpoints WHERE tenant = $1 AND url = $2`, tenant, url).Scan(&id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for webhooks with the same URL: %w", err)
	default:
		return refused("webhook_exists", "The webhook %s has this URL already.", id)
	}
}

// asked has the receiver of a changed endpoint asked where that is due: at a new
// URL, and when one is enabled that nobody is asking.
func asked(ctx context.Context, tx pgx.Tx, before, after Endpoint) error {
	if after.URL != before.URL {
		if err := dropChallenges(ctx, tx, after.ID); err != nil {
			return err
		}
		return unproven(ctx, tx, after)
	}
	if before.DisabledAt != nil && after.DisabledAt == nil {
		return unproven(ctx, tx, after)
	}
	return nil
}

func (s *Store) write(ctx context.Context, tx pgx.Tx, before Endpoint, set Settings, disabled *bool, by By) error {
	off := before.DisabledAt != nil
	turned := disabled != nil && *disabled != off
	moved := set.URL != before.URL
	forgiven := moved || (turned && off)
	_, err := tx.Exec(ctx, `
		UPDATE webhook_endpoints SET url = $2, description = $3, events = $4, upstreams = $5, ordered = $6,
			version = version + 1, updated_at = now(),
			disabled_at = CASE WHEN NOT $7 THEN disabled_at WHEN disabled_at IS NULL THEN now() END,
			disabled_by = CASE WHEN NOT $7 THEN disabled_by WHEN disabled_at IS NULL THEN 'person' ELSE '' END,
			disabled_reason = CASE WHEN NOT $7 THEN disabled_reason WHEN disabled_at IS NULL THEN $9 ELSE '' END,
			failing_since = CASE WHEN $8 THEN NULL ELSE failing_since END,
			troubled = troubled AND NOT $8, paused_until = CASE WHEN $8 THEN NULL ELSE paused_until END,
			verified_at = CASE WHEN NOT $10 THEN verified_at WHEN $11 <> '' THEN now() END,
			verified_by = CASE WHEN NOT $10 THEN verified_by ELSE $11 END
		WHERE id = $1`,
		before.ID, set.URL, set.Description, set.Events, set.Upstreams, set.Ordered, turned, forgiven, by.because(), moved, s.trusts(set.URL))
	if err != nil {
		return fmt.Errorf("change webhook %s: %w", before.ID, err)
	}
	return nil
}

// because is the reason of a person's deed, for those who see its effect.
func (b By) because() string {
	if b.Reason == "" {
		return "disabled by " + commands.CleanText(b.Actor)
	}
	return "disabled by " + commands.CleanText(b.Actor+": "+b.Reason)
}

// dropAtOnce bounds how many deliveries the deletion of an endpoint drops itself;
// the engine drops the rest.
const dropAtOnce = 1000

// Delete removes an endpoint and its secrets, and drops what it had pending. The
// log stays. Version 0 takes the endpoint as it is.
func (s *Store) Delete(ctx context.Context, by By, id uuid.UUID, version int) error {
	return s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := lockEndpoint(ctx, tx, by.Tenant, id, version)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM webhook_endpoints WHERE id = $1`, id); err != nil {
			return fmt.Errorf("delete webhook %s: %w", id, err)
		}
		if _, err := tx.Exec(ctx, dropSQL, []uuid.UUID{id}, dropAtOnce); err != nil {
			return fmt.Errorf("drop the deliveries of webhook %s: %w", id, err)
		}
		return by.note(ctx, tx, audit.ActionWebhookDelete, id.String(), before.audited(), nil, nil)
	})
}
