package webhooks

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/audit"
)

// TypeChallenge is the type of the event that asks a receiver whether it wants
// webhooks. Until it has answered, it gets nothing else.
const TypeChallenge = "webhook.challenge"

// HeaderChallenge is where a receiver may answer, instead of in the body.
const HeaderChallenge = "Webhook-Challenge"

// challengeBytes of randomness: nobody guesses what only the receiver was sent.
const challengeBytes = 32

// challengeData is what a challenge holds. Its answer has the member challenge at
// the top level, so that a server which only repeats requests does not answer it.
type challengeData struct {
	Webhook   uuid.UUID `json:"webhook"`
	Challenge string    `json:"challenge"`
}

// challenge asks the receiver of an endpoint anew, in place of an older challenge,
// whose answer then counts for nothing. The endpoint's row is locked.
func challenge(ctx context.Context, tx pgx.Tx, e Endpoint) (Delivery, error) {
	if err := dropChallenges(ctx, tx, e.ID); err != nil {
		return Delivery{}, err
	}
	if err := use(ctx, tx, e.Tenant, "challenge", challengeAllowance); err != nil {
		return Delivery{}, err
	}
	value := make([]byte, challengeBytes)
	_, _ = rand.Read(value) // never fails
	return insertOwn(ctx, tx, e, TypeChallenge, challengeData{e.ID, base64.RawURLEncoding.EncodeToString(value)})
}

func dropChallenges(ctx context.Context, tx pgx.Tx, endpoint uuid.UUID) error {
	_, err := tx.Exec(ctx, `
		UPDATE webhook_deliveries SET state = 'dropped', ended_at = clock_timestamp(), claim = NULL, claimed_until = NULL
		WHERE endpoint_id = $1 AND state = 'pending' AND type = 'webhook.challenge'`, endpoint)
	if err != nil {
		return fmt.Errorf("drop the challenges of webhook %s: %w", endpoint, err)
	}
	return nil
}

// unproven has the receiver of an endpoint that is not verified asked, unless it is
// being asked already.
func unproven(ctx context.Context, tx pgx.Tx, e Endpoint) error {
	if e.VerifiedAt != nil {
		return nil
	}
	var asked bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM webhook_deliveries WHERE endpoint_id = $1 AND state = 'pending' AND type = 'webhook.challenge')`,
		e.ID).Scan(&asked)
	if err != nil {
		return fmt.Errorf("look for a challenge of webhook %s: %w", e.ID, err)
	}
	if asked {
		return nil
	}
	_, err = challenge(ctx, tx, e)
	return err
}

// Challenge asks the receiver of an endpoint once more whether it wants webhooks,
// at once.
func (s *Store) Challenge(ctx context.Context, by By, id uuid.UUID) (Delivery, error) {
	var made Delivery
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		e, err := lockEndpoint(ctx, tx, by.Tenant, id, 0)
		switch {
		case err != nil:
			return err
		case e.VerifiedAt != nil:
			return refused("webhook_verified", "The webhook is verified already.")
		case e.DisabledAt != nil:
			return refused("webhook_disabled", "The webhook is disabled: enable it first.")
		}
		if made, err = challenge(ctx, tx, e); err != nil {
			return err
		}
		return by.note(ctx, tx, audit.ActionWebhookChallenge, id.String(), nil, nil, map[string]any{"event": made.EventID})
	})
	if err == nil {
		s.nudge()
	}
	return made, err
}

// Confirm takes a person's word for it that the receiver of an endpoint wants
// webhooks, where it cannot answer a challenge. What waited is sent.
func (s *Store) Confirm(ctx context.Context, by By, id uuid.UUID, version int) (Endpoint, error) {
	if by.Reason == "" {
		return Endpoint{}, invalid("reason", "required", "Say why: it goes into the audit.")
	}
	var after Endpoint
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, err := lockEndpoint(ctx, tx, by.Tenant, id, version)
		if err != nil {
			return err
		}
		if before.VerifiedAt != nil {
			return refused("webhook_verified", "The webhook is verified already.")
		}
		if err := dropChallenges(ctx, tx, id); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			UPDATE webhook_endpoints SET verified_at = clock_timestamp(), verified_by = 'person', version = version + 1, updated_at = now(),
				failing_since = NULL, troubled = false,
				disabled_at = CASE WHEN disabled_by <> 'unproven' THEN disabled_at END,
				disabled_reason = CASE WHEN disabled_by <> 'unproven' THEN disabled_reason ELSE '' END,
				disabled_by = CASE WHEN disabled_by <> 'unproven' THEN disabled_by ELSE '' END
			WHERE id = $1`, id)
		if err != nil {
			return fmt.Errorf("confirm webhook %s: %w", id, err)
		}
		if after, err = endpoint(ctx, tx, by.Tenant, id); err != nil {
			return err
		}
		return by.note(ctx, tx, audit.ActionWebhookConfirm, id.String(), before.audited(), after.audited(), nil)
	})
	if err == nil {
		s.nudge()
	}
	return after, err
}

// proves tells whether a response answers the challenge in a payload: in a header,
// or with a body that is the challenge, or a JSON object with it as its member
// "challenge".
func proves(payload []byte, header http.Header, body []byte) bool {
	var asked struct{ Data challengeData }
	if json.Unmarshal(payload, &asked) != nil || asked.Data.Challenge == "" {
		return false
	}
	var answer struct {
		Challenge string `json:"challenge"`
	}
	body = bytes.TrimSpace(body)
	_ = json.Unmarshal(body, &answer)
	for _, given := range []string{header.Get(HeaderChallenge), string(bytes.Trim(body, `"`)), answer.Challenge} {
		if subtle.ConstantTimeCompare([]byte(given), []byte(asked.Data.Challenge)) == 1 {
			return true
		}
	}
	return false
}

// hideChallenge is a payload as it is shown: who reads it is not the receiver.
func hideChallenge(d Delivery, payload []byte) []byte {
	var m struct {
		Type      string        `json:"type"`
		Timestamp time.Time     `json:"timestamp"`
		Data      challengeData `json:"data"`
	}
	if d.Type != TypeChallenge || json.Unmarshal(payload, &m) != nil {
		return payload
	}
	m.Data.Challenge = "[shown to the receiver only]"
	hidden, err := encode(message{Type: m.Type, Timestamp: m.Timestamp, Data: m.Data})
	if err != nil {
		return []byte("null")
	}
	return hidden
}
