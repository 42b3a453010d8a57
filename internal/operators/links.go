package operators

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
)

// MaxLink is how long a link works at most.
const MaxLink = 7 * 24 * time.Hour

// linkBatch is how many expired links making one clears away.
const linkBatch = 100

// ErrLink: a link that was used, has expired or never was.
var ErrLink = errors.New("the link does not work: it was used already, or it is too old")

// CreateLink makes a token that signs its operator in once, within ttl. Only its
// hash is stored. Another password, Disable and EndSessions void it.
func (s *Store) CreateLink(ctx context.Context, by By, id uuid.UUID, ttl time.Duration) (token string, err error) {
	if err := CheckLink(ttl); err != nil {
		return "", err
	}
	token = rand.Text()
	_, err = s.change(ctx, by, id, func(ctx context.Context, tx pgx.Tx, o Operator) (deed, error) {
		if err := by.selfOrAdmin(ctx, tx, o); err != nil {
			return deed{}, err
		}
		if o.DisabledAt != nil {
			return deed{}, invalid("name", "%s is disabled: enable them first", o.Name)
		}
		if len(o.Roles) == 0 {
			return deed{}, invalid("name", "%s has no role in any tenant: give them one first", o.Name)
		}
		hash := sha256.Sum256([]byte(token))
		_, err := tx.Exec(ctx, `
			INSERT INTO operator_links (hash, operator_id, epoch, created_at, expires_at)
			VALUES ($1, $2, $3, now(), now() + make_interval(secs => $4))`, hash[:], id, o.Epoch, ttl.Seconds())
		if err != nil {
			return deed{}, fmt.Errorf("make a link for operator %s: %w", id, err)
		}
		d := deed{action: audit.ActionOperatorLink, tenants: o.tenants(), after: map[string]string{"works_for": ttl.String()}}
		return d, forgetLinks(ctx, tx)
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// CheckLink refuses a time for which no link works.
func CheckLink(ttl time.Duration) error {
	if ttl <= 0 || ttl > MaxLink {
		return invalid("duration", "a link works for some time, up to %s", MaxLink)
	}
	return nil
}

func forgetLinks(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM operator_links WHERE hash IN (
			SELECT hash FROM operator_links WHERE expires_at < now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`, linkBatch)
	if err != nil {
		return fmt.Errorf("clear expired links away: %w", err)
	}
	return nil
}

// UseLink gives the operator of a token, to the first who asks; ErrLink to others. If
// the answer is lost on the way the link may be used up: another has to be made.
func (s *Store) UseLink(ctx context.Context, token string) (Operator, error) {
	hash := sha256.Sum256([]byte(token))
	var o Operator
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var id uuid.UUID
		err := tx.QueryRow(ctx, `
			DELETE FROM operator_links l USING operators o
			WHERE l.hash = $1 AND l.expires_at > now() AND o.id = l.operator_id AND o.epoch = l.epoch AND `+mayEnter+`
			RETURNING o.id`, hash[:]).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrLink
		}
		if err != nil {
			return fmt.Errorf("use a link: %w", err)
		}
		o, err = readOne(ctx, tx, `o.id = $1`, id)
		return err
	})
	if err != nil {
		return Operator{}, err
	}
	return o, nil
}
