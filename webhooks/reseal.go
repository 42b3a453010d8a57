package webhooks

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
	"executor/internal/seal"
)

// resealBatch is how many secrets are read at once.
const resealBatch = 500

// SealedUnder counts the secrets under one key.
type SealedUnder struct {
	Key     string // its name, which tells nothing about it
	Count   int
	Known   bool // it is configured here
	Current bool // what is sealed now is sealed under it
}

// Sealed tells under which keys the secrets in use are sealed.
func (s *Store) Sealed(ctx context.Context) ([]SealedUnder, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT substr(sealed, 1, $1), count(*)::int FROM webhook_secrets
		WHERE expires_at IS NULL OR expires_at > clock_timestamp() GROUP BY 1 ORDER BY 2 DESC, 1`, seal.MarkBytes)
	if err != nil {
		return nil, fmt.Errorf("count sealed secrets: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (u SealedUnder, err error) {
		var mark []byte
		err = row.Scan(&mark, &u.Count)
		u.Key = seal.KeyName(mark)
		if s.box != nil {
			u.Known, u.Current = s.box.Knows(mark), string(mark) == string(s.box.Mark())
		}
		return u, err
	})
	if err != nil {
		return nil, fmt.Errorf("count sealed secrets: %w", err)
	}
	return list, nil
}

// Resealed is what came of sealing anew.
type Resealed struct {
	Moved      int // now under the current key
	Unreadable int // left as they are: under a key that is not here, or altered
}

// Reseal seals anew under the current key what is under another. It may be broken
// off and repeated, run twice at once and while the secrets are used: a secret that
// changes meanwhile is left to whoever changed it.
func (s *Store) Reseal(ctx context.Context) (Resealed, error) {
	var done Resealed
	if s.box == nil {
		return done, s.sealing()
	}
	for after := (uuid.UUID{}); ; {
		list, err := s.older(ctx, after)
		if err != nil || len(list) == 0 {
			return done, err
		}
		for _, k := range list {
			if err := s.reseal(ctx, k, &done); err != nil {
				return done, err
			}
			after = k.ID
		}
	}
}

// keptSecret is a secret as it is in the database.
type keptSecret struct {
	ID, EndpointID uuid.UUID
	Tenant         string
	Sealed         []byte
}

// older reads secrets that are not under the current key, in the order of their ids.
func (s *Store) older(ctx context.Context, after uuid.UUID) ([]keptSecret, error) {
	mark := s.box.Mark()
	rows, err := s.pool.Query(ctx, `
		SELECT id, endpoint_id, tenant, sealed FROM webhook_secrets
		WHERE id > $1 AND substr(sealed, 1, $2) <> $3 ORDER BY id LIMIT $4`, after, len(mark), mark, resealBatch)
	if err != nil {
		return nil, fmt.Errorf("read webhook secrets: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[keptSecret])
	if err != nil {
		return nil, fmt.Errorf("read webhook secrets: %w", err)
	}
	return list, nil
}

func (s *Store) reseal(ctx context.Context, k keptSecret, done *Resealed) error {
	value, err := s.box.Open(k.Sealed, place(k.EndpointID, k.ID))
	if err != nil {
		s.log.Error("webhook secret cannot be read", "webhook", k.EndpointID, "error", err)
		done.Unreadable++
		return nil
	}
	tag, err := s.pool.Exec(ctx, `UPDATE webhook_secrets SET sealed = $3 WHERE id = $1 AND sealed = $2`,
		k.ID, k.Sealed, s.box.Seal(value, place(k.EndpointID, k.ID)))
	if err != nil {
		return fmt.Errorf("seal a webhook's secret anew: %w", err)
	}
	done.Moved += int(tag.RowsAffected())
	return nil
}

// ForgetUnreadable deletes the secrets that no configured key could open, for a key that
// is lost for good or a row that is damaged, and returns how many. Their webhooks wait for a new secret. Each
// is on record with its tenant.
func (s *Store) ForgetUnreadable(ctx context.Context, actor, reason string) (int, error) {
	if s.box == nil {
		return 0, s.sealing()
	}
	forgotten := 0
	for after := (uuid.UUID{}); ; {
		list, err := s.older(ctx, after)
		if err != nil || len(list) == 0 {
			return forgotten, err
		}
		for _, k := range list {
			after = k.ID
			if s.box.Knows(k.Sealed) {
				continue
			}
			if err := s.forget(ctx, k, By{Tenant: k.Tenant, Actor: actor, Reason: reason}); err != nil {
				return forgotten, err
			}
			forgotten++
		}
	}
}

func (s *Store) forget(ctx context.Context, k keptSecret, by By) error {
	return s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM webhook_secrets WHERE id = $1 AND tenant = $2 AND sealed = $3`, k.ID, k.Tenant, k.Sealed)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return by.note(ctx, tx, audit.ActionWebhookRotateSecret, k.EndpointID.String(), nil, nil, map[string]string{"forgotten": k.ID.String()})
	})
}
