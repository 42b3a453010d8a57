package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// Conflict is evidence that contradicts a settled state, and that no person has
// looked at yet.
type Conflict struct {
	ID        int64
	At        time.Time
	Source    outcome.DecidedBy
	Finding   outcome.Finding // about the command as a whole; "" for late evidence of one attempt
	Answer    outcome.Answer
	Status    int
	Reference string
	Code      string
	Message   string
	Attempt   int // that it belongs to; 0 for none
}

// conflicts reads the open ones of some commands, the oldest first.
func (s *Store) conflicts(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID][]Conflict, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT command_id, id, at, source, finding, answer, status, reference, code, message, coalesce(attempt_number, 0)
		FROM findings WHERE command_id = ANY($1) AND effect = 'conflict' AND resolved_at IS NULL ORDER BY id`, ids)
	if err != nil {
		return nil, err
	}
	list := map[uuid.UUID][]Conflict{}
	var (
		id uuid.UUID
		c  Conflict
	)
	into := []any{&id, &c.ID, &c.At, &c.Source, &c.Finding, &c.Answer, &c.Status, &c.Reference, &c.Code, &c.Message, &c.Attempt}
	_, err = pgx.ForEachRow(rows, into, func() error {
		list[id] = append(list[id], c)
		return nil
	})
	return list, err
}

// Correct changes a settled state into another on a person's word, and with it the
// open conflicts are over. The same state dismisses them: the person holds the
// evidence for wrong.
func (s *Store) Correct(ctx context.Context, a Action, r Resolution) error {
	if err := checkAction(&a, r.check(a)...); err != nil {
		return err
	}
	return s.act(ctx, a, func(ctx context.Context, tx commands.Tx, st standing) (deed, error) {
		d := deed{action: ActionCorrect, details: map[string]any{"resolution": r, "conflicts": st.doubt.Conflicts}}
		if refused := st.mayCorrect(r.State); refused != nil {
			return d, refused
		}
		if r.State == st.command.State {
			d.action = ActionDismiss
		} else if err := invalidIf(r.checkProof(a)); err != nil {
			return d, err
		}
		if err := closeConflicts(ctx, tx, st.command); err != nil {
			return d, err
		}
		var err error
		if d.action == ActionDismiss {
			return d, s.commands.Touch(ctx, tx, []uuid.UUID{a.Command})
		}
		d.moved, err = s.commands.Correct(ctx, tx, st.command, commands.Correction{
			State: r.State, Reference: r.reference(a), Code: r.Code, Message: r.Message,
		}, a.Actor)
		return d, err
	})
}

func closeConflicts(ctx context.Context, tx commands.Tx, c commands.Locked) error {
	_, err := tx.Exec(ctx, `
		UPDATE findings SET resolved_at = $2 WHERE command_id = $1 AND effect = 'conflict' AND resolved_at IS NULL`, c.ID, c.Now)
	if err != nil {
		return fmt.Errorf("end the conflicts of command %s: %w", c.ID, err)
	}
	return nil
}
