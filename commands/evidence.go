package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// ActingEvidence is, in SQL, the evidence of the last attempt of the command c.id that
// may have acted, as far as what came late of it does not say otherwise; NULL if there
// is none.
const ActingEvidence = `(
	SELECT coalesce(l.evidence, a.evidence)
	FROM attempts a
	LEFT JOIN LATERAL (
		SELECT evidence, answer FROM findings f
		WHERE f.command_id = a.command_id AND f.attempt_number = a.number AND f.source = 'late_evidence'
		ORDER BY f.id DESC LIMIT 1) l ON true
	WHERE a.command_id = c.id AND a.ended_at IS NOT NULL AND a.boundary <> 'not_crossed'
		AND coalesce(l.evidence, a.evidence) <> 'not_sent' AND coalesce(l.answer, a.answer) NOT IN ('refused', 'declined')
	ORDER BY a.number DESC LIMIT 1)`

// noteEvidence keeps it with the doubts about commands, by which their queue is
// filtered. What it says may have changed.
func noteEvidence(ctx context.Context, tx Tx, ids []uuid.UUID) error {
	_, err := tx.Exec(ctx, `
		UPDATE doubts SET evidence = coalesce(e.evidence, '')
		FROM (SELECT c.id, `+ActingEvidence+` AS evidence FROM unnest($1::uuid[]) AS c(id)) e
		WHERE command_id = e.id AND doubts.evidence <> coalesce(e.evidence, '')`, ids)
	if err != nil {
		return fmt.Errorf("note the evidence of doubts: %w", err)
	}
	return nil
}
