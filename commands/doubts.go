package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/internal/postgres"
	"executor/outcome"
)

// ReviewNoLookup is why a person gets a doubt that the upstream cannot be asked
// about.
const ReviewNoLookup = "no_lookup"

// doubt is the row that says who follows up an unresolved command.
type doubt struct {
	move     Move
	nextAt   *time.Time
	givesUp  *time.Time
	handedAt *time.Time
	why      string
}

// followUp opens the doubts of the moves that end unresolved, and ends those of
// the moves that leave it.
func (s *Store) followUp(ctx context.Context, tx Tx, moves []Move) error {
	var (
		fresh, replayed []Move
		left            []uuid.UUID
	)
	for _, m := range moves {
		switch {
		case m.Command.State == outcome.StateUnresolved:
			left = append(left, m.Command.ID)
		case m.To == outcome.StateUnresolved && m.Command.Resend == ResendReplay:
			replayed = append(replayed, m)
		case m.To == outcome.StateUnresolved:
			fresh = append(fresh, m)
		}
	}
	if err := s.openDoubts(ctx, tx, fresh); err != nil {
		return err
	}
	if err := s.continueDoubts(ctx, tx, replayed); err != nil {
		return err
	}
	return endDoubts(ctx, tx, left)
}

// openDoubts plans the first round of lookups, or leaves the command to a person.
// What is known already, and had to wait for a running attempt, is weighed at once.
// A sight of the command outlives a resend: only what settles the attempts so far
// takes it back.
func (s *Store) openDoubts(ctx context.Context, tx Tx, moves []Move) error {
	if len(moves) == 0 {
		return nil
	}
	list := make([]doubt, len(moves))
	for i, m := range moves {
		d := doubt{move: m}
		if m.Outcome.NextAction == outcome.NextActionLookup {
			terms, err := s.Terms(ctx, m.Command)
			if err != nil {
				return err
			}
			d.nextAt = new(m.Command.Now.Add(m.firstLookup(terms.schedule)))
			d.givesUp = new(m.Command.Now.Add(terms.schedule.GiveUpAfter))
		} else {
			d.handedAt, d.why = new(m.Command.Now), ReviewNoLookup
		}
		list[i] = d
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO doubts (command_id, tenant, upstream_id, since, next_at, gives_up_at, handed_at, handed_reason,
			operation, deadline, reason, evidence)
		SELECT c.id, c.tenant, c.upstream_id, c.since,
			CASE WHEN EXISTS (SELECT FROM findings f WHERE f.command_id = c.id AND f.effect = 'kept' AND f.finding <> '')
				THEN c.since ELSE c.next_at END,
			c.gives_up_at, c.handed_at, c.handed_reason, c.operation, c.deadline, c.reason, coalesce(`+ActingEvidence+`, '')
		FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::timestamptz[], $8::text[],
			$9::text[], $10::timestamptz[], $11::text[])
			AS c(id, tenant, upstream_id, since, next_at, gives_up_at, handed_at, handed_reason, operation, deadline, reason)
		ON CONFLICT (command_id) DO UPDATE SET
			deadline = excluded.deadline, reason = excluded.reason, evidence = excluded.evidence,
			since = excluded.since, next_at = excluded.next_at, gives_up_at = excluded.gives_up_at,
			rounds = 0, unknown = 0, absents = 0, last_absent_at = NULL, claim = NULL, claimed_until = NULL,
			handed_at = excluded.handed_at, handed_reason = excluded.handed_reason`,
		postgres.Column(list, func(d doubt) uuid.UUID { return d.move.Command.ID }),
		postgres.Column(list, func(d doubt) string { return d.move.Command.Tenant }),
		postgres.Column(list, func(d doubt) int64 { return d.move.Command.UpstreamID }),
		postgres.Column(list, func(d doubt) time.Time { return d.move.Command.Now }),
		postgres.Column(list, func(d doubt) *time.Time { return d.nextAt }),
		postgres.Column(list, func(d doubt) *time.Time { return d.givesUp }),
		postgres.Column(list, func(d doubt) *time.Time { return d.handedAt }),
		postgres.Column(list, func(d doubt) string { return d.why }),
		postgres.Column(list, func(d doubt) string { return d.move.Command.Operation }),
		postgres.Column(list, func(d doubt) time.Time { return d.move.deadline() }),
		postgres.Column(list, func(d doubt) string { return string(d.move.Outcome.Reason) }))
	if err != nil {
		return fmt.Errorf("open doubts: %w", err)
	}
	return nil
}

// firstLookup is how long the first round waits: as the schedule says, and as long as
// an upstream that is at work asks for, up to what the schedule itself would wait.
func (m Move) firstLookup(s outcome.Schedule) time.Duration {
	wait := s.FirstAfter
	if m.Outcome.Reason == outcome.OutcomeReasonRemotePending {
		wait = max(wait, m.asked(s))
	}
	return min(wait, s.GiveUpAfter)
}

// asked is how long the upstream wants to be left alone, up to what the schedule
// itself would wait.
func (m Move) asked(s outcome.Schedule) time.Duration {
	return min(m.Outcome.AskAt.Sub(m.Command.Now), s.MaxInterval)
}

// continueDoubts plans the next round after a replay, which was one round of the
// same schedule. What a person had before it stays with them.
func (s *Store) continueDoubts(ctx context.Context, tx Tx, moves []Move) error {
	for _, m := range moves {
		terms, err := s.Terms(ctx, m.Command)
		if err != nil {
			return err
		}
		var (
			rounds int
			why    string
		)
		err = tx.QueryRow(ctx, `SELECT rounds, handed_reason FROM doubts WHERE command_id = $1 FOR UPDATE`, m.Command.ID).Scan(&rounds, &why)
		if err != nil {
			return fmt.Errorf("read doubt about command %s: %w", m.Command.ID, err)
		}
		if why == "" && m.Outcome.NextAction == outcome.NextActionReview { // nobody can be asked any more
			why = ReviewNoLookup
		}
		if why != "" {
			m.Outcome.NextAction = outcome.NextActionReview
			_, err = tx.Exec(ctx, `UPDATE doubts SET handed_at = $2, handed_reason = $3 WHERE command_id = $1`, m.Command.ID, m.Command.Now, why)
		} else {
			next := terms.schedule.Next(rounds, m.Command.Now, time.Time{})
			if asked := m.Command.Now.Add(m.asked(terms.schedule)); asked.After(next) {
				next = asked
			}
			_, err = tx.Exec(ctx, `UPDATE doubts SET next_at = least($2, gives_up_at) WHERE command_id = $1`, m.Command.ID, next)
		}
		if err != nil {
			return fmt.Errorf("plan the next lookup of command %s: %w", m.Command.ID, err)
		}
		_, err = tx.Exec(ctx, `
			UPDATE doubts SET deadline = $2, reason = $3, evidence = coalesce((SELECT `+ActingEvidence+` FROM (SELECT $1::uuid AS id) c), '')
			WHERE command_id = $1`, m.Command.ID, m.deadline(), m.Outcome.Reason)
		if err != nil {
			return fmt.Errorf("continue the doubt about command %s: %w", m.Command.ID, err)
		}
	}
	return nil
}

// deadline is the command's after the move.
func (m Move) deadline() time.Time {
	if m.Deadline != nil {
		return *m.Deadline
	}
	return m.Command.Deadline
}

func endDoubts(ctx context.Context, tx Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		UPDATE doubts SET next_at = NULL, claim = NULL, claimed_until = NULL, handed_at = NULL WHERE command_id = ANY($1)`, ids)
	if err != nil {
		return fmt.Errorf("end doubts: %w", err)
	}
	return nil
}

// HandToReview leaves an unresolved command to a person, and says why. The command
// is locked.
func (s *Store) HandToReview(ctx context.Context, tx Tx, c Locked, why string) error {
	batch := &pgx.Batch{}
	batch.Queue(`
		UPDATE doubts SET next_at = NULL, claim = NULL, claimed_until = NULL, handed_at = $2, handed_reason = $3
		WHERE command_id = $1`, c.ID, c.Now, why)
	batch.Queue(`
		UPDATE commands SET phase = 'review', version = version + 1,
			outcome = (outcome::jsonb || jsonb_build_object('next_action', 'review'))::json
		WHERE id = $1 AND state = 'unresolved'`, c.ID)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("hand command %s to review: %w", c.ID, err)
	}
	data, _ := json.Marshal(map[string]string{"reason": why}) // strings always encode
	return insertEvent(ctx, tx, OutcomeEvent{
		CommandID: c.ID, Tenant: c.Tenant, Number: c.Version + 1, Type: "command.review", At: c.Now, Data: data,
	})
}

// Touch says that something a reader of the commands sees has changed. They are
// locked.
func (s *Store) Touch(ctx context.Context, tx Tx, ids []uuid.UUID) error {
	if _, err := tx.Exec(ctx, `UPDATE commands SET version = version + 1 WHERE id = ANY($1)`, ids); err != nil {
		return fmt.Errorf("touch commands: %w", err)
	}
	return nil
}

// settle puts on record that a confirmed absence came after the attempts so far:
// nothing of them arrived.
func settle(ctx context.Context, tx Tx, id uuid.UUID, by string) error {
	batch := &pgx.Batch{}
	batch.Queue(`
		UPDATE attempts SET settled_by = $2
		WHERE command_id = $1 AND ended_at IS NOT NULL AND settled_by = '' AND boundary <> 'not_crossed'`, id, by)
	batch.Queue(`UPDATE doubts SET seen = false WHERE command_id = $1`, id)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("settle attempts of command %s: %w", id, err)
	}
	return nil
}

// unsettle takes that back for an attempt that the upstream turns out to have had.
func unsettle(ctx context.Context, tx Tx, id uuid.UUID, attempt int) error {
	_, err := tx.Exec(ctx, `UPDATE attempts SET settled_by = '' WHERE command_id = $1 AND number = $2 AND settled_by <> ''`, id, attempt)
	if err != nil {
		return fmt.Errorf("take back what settled attempt %d of command %s: %w", attempt, id, err)
	}
	return nil
}
