package webhooks

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
	"executor/internal/egress"
)

const (
	secretPrefix = "whsec_" // Standard Webhooks: of a secret for v1 signatures
	secretBytes  = 32
	// MaxOverlap is how long a rotated secret may go on signing.
	MaxOverlap = 7 * 24 * time.Hour
	// maxSecrets bounds how many sign at once: each is a part of a header.
	maxSecrets = 5
)

// sealing refuses what needs the sealing key where there is none.
func (s *Store) sealing() error {
	if s.box == nil {
		return refused("no_sealing_key", "The deployment has no key to keep webhook secrets with: set EXECUTOR_ENCRYPTION_KEY to what openssl rand -base64 32 prints.")
	}
	return nil
}

// place binds a sealed secret to its row and its endpoint: copied to another
// endpoint it does not open.
func place(endpoint, id uuid.UUID) string {
	return fmt.Sprintf("webhook_secrets/%s/%s/sealed", endpoint, id)
}

// addSecret makes the secret that signs from now on and returns it in the form
// in which it is shown.
func (s *Store) addSecret(ctx context.Context, tx pgx.Tx, tenant string, endpoint uuid.UUID) (string, error) {
	value := make([]byte, secretBytes)
	_, _ = rand.Read(value) // never fails
	id := uuid.Must(uuid.NewV7())
	_, err := tx.Exec(ctx, `
		INSERT INTO webhook_secrets (id, endpoint_id, tenant, sealed, created_at) VALUES ($1, $2, $3, $4, clock_timestamp())`,
		id, endpoint, tenant, s.box.Seal(value, place(endpoint, id)))
	if err != nil {
		return "", fmt.Errorf("keep a webhook's secret: %w", err)
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(value), nil
}

// RotateSecret makes a new secret, which is shown this once. The ones before sign
// as well until the overlap has passed; an overlap of 0 ends them at once, as for
// a secret that leaked. An endpoint that is not in the version any more is *Stale;
// version 0 takes it as it is.
func (s *Store) RotateSecret(ctx context.Context, by By, id uuid.UUID, version int, overlap time.Duration) (Endpoint, string, error) {
	if err := s.sealing(); err != nil {
		return Endpoint{}, "", err
	}
	if overlap < 0 || overlap > MaxOverlap {
		return Endpoint{}, "", invalid("overlap", "invalid_overlap", "The overlap has to be 0 to %s.", MaxOverlap)
	}
	var (
		secret string
		after  Endpoint
	)
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, err := lockEndpoint(ctx, tx, by.Tenant, id, version)
		if err != nil {
			return err
		}
		if overlap > 0 && len(e.Secrets) >= maxSecrets {
			return refused("too_many_secrets", "%d secrets sign already: wait for one to end, or rotate without an overlap.", len(e.Secrets))
		}
		if err := expire(ctx, tx, id, overlap); err != nil {
			return err
		}
		if secret, err = s.addSecret(ctx, tx, by.Tenant, id); err != nil {
			return err
		}
		if after, err = endpoint(ctx, tx, by.Tenant, id); err != nil {
			return err
		}
		return by.note(ctx, tx, audit.ActionWebhookRotateSecret, id.String(), nil, nil, map[string]string{"overlap": overlap.String()})
	})
	return after, secret, err
}

// expire lets the secrets so far end after the overlap, those that end sooner
// excepted.
func expire(ctx context.Context, tx pgx.Tx, endpoint uuid.UUID, overlap time.Duration) error {
	_, err := tx.Exec(ctx, `
		UPDATE webhook_secrets SET expires_at = least(expires_at, clock_timestamp() + $2::interval)
		WHERE endpoint_id = $1`, endpoint, overlap)
	if err == nil {
		_, err = tx.Exec(ctx, `
			UPDATE webhook_endpoints SET version = version + 1, updated_at = now() WHERE id = $1`, endpoint)
	}
	if err != nil {
		return fmt.Errorf("rotate the secret of webhook %s: %w", endpoint, err)
	}
	return nil
}

// secretsOf lists what signs for endpoints, newest first.
func secretsOf(ctx context.Context, q querier, endpoints []uuid.UUID) (map[uuid.UUID][]Secret, error) {
	rows, err := q.Query(ctx, `
		SELECT endpoint_id, id, created_at, expires_at FROM webhook_secrets
		WHERE endpoint_id = ANY($1) AND (expires_at IS NULL OR expires_at > clock_timestamp())
		ORDER BY created_at DESC, id DESC`, endpoints)
	if err != nil {
		return nil, fmt.Errorf("list webhook secrets: %w", err)
	}
	var (
		list     = make(map[uuid.UUID][]Secret)
		endpoint uuid.UUID
		secret   Secret
	)
	_, err = pgx.ForEachRow(rows, []any{&endpoint, &secret.ID, &secret.CreatedAt, &secret.ExpiresAt}, func() error {
		list[endpoint] = append(list[endpoint], secret)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list webhook secrets: %w", err)
	}
	return list, nil
}

// signer is what an endpoint's deliveries are signed with, newest first. err says
// why a secret cannot be read.
type signer struct {
	keys []egress.Secret
	err  error
}

// signers opens the secrets of endpoints.
func (s *Store) signers(ctx context.Context, endpoints []uuid.UUID) (map[uuid.UUID]signer, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT endpoint_id, id, sealed FROM webhook_secrets
		WHERE endpoint_id = ANY($1) AND (expires_at IS NULL OR expires_at > clock_timestamp())
		ORDER BY created_at DESC, id DESC`, endpoints)
	if err != nil {
		return nil, fmt.Errorf("read webhook secrets: %w", err)
	}
	var (
		list         = make(map[uuid.UUID]signer)
		endpoint, id uuid.UUID
		sealed       []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&endpoint, &id, &sealed}, func() error {
		signer := list[endpoint]
		key, err := s.box.Open(sealed, place(endpoint, id))
		signer.keys, signer.err = append(signer.keys, egress.NewSecret(string(key))), errors.Join(signer.err, err)
		list[endpoint] = signer
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read webhook secrets: %w", err)
	}
	return list, nil
}
