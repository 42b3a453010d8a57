package commands

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// precedes reports whether a refusal speaks of a moment before an attempt that may
// have acted: it does not speak for that one.
func precedes(ctx context.Context, tx Tx, c Locked, k Knowledge) (found bool, err error) {
	if k.Finding != outcome.FindingRefused || k.AsOf.IsZero() {
		return false, nil
	}
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM attempts
			WHERE command_id = $1 AND started_at > $2 AND boundary <> 'not_crossed' AND settled_by = '')`, c.ID, k.AsOf).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for later attempts of command %s: %w", c.ID, err)
	}
	return found, nil
}

// maybeSent reports whether an attempt of a pending command may have acted, also one
// that an absence had settled: the absence is what the finding denies.
func (s *Store) maybeSent(ctx context.Context, tx Tx, c Locked) (bool, error) {
	if c.State != outcome.StatePending || c.Attempts == 0 {
		return false, nil
	}
	terms, err := s.Terms(ctx, c)
	if err != nil {
		return false, err
	}
	history, err := s.History(ctx, tx, []uuid.UUID{c.ID})
	return InDoubt(terms.Contract.Idempotency, history[c.ID]), err
}

// refuteAbsence takes back an absence because of which a command is about to be sent
// once more: the upstream has it after all, and the doubt is open again. Without one
// there is no outcome.
func (s *Store) refuteAbsence(ctx context.Context, tx Tx, c Locked, k Knowledge) (*Final, error) {
	if c.State != outcome.StatePending || c.Resend == "" || k.Finding != outcome.FindingPending {
		return nil, nil
	}
	tag, err := tx.Exec(ctx, `UPDATE attempts SET settled_by = '' WHERE command_id = $1 AND settled_by <> ''`, c.ID)
	if err != nil {
		return nil, fmt.Errorf("take back what settled command %s: %w", c.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return nil, nil
	}
	if _, err := tx.Exec(ctx, `UPDATE doubts SET seen = true WHERE command_id = $1`, c.ID); err != nil {
		return nil, fmt.Errorf("remember a sight of command %s: %w", c.ID, err)
	}
	terms, err := s.Terms(ctx, c)
	if err != nil {
		return nil, err
	}
	history, err := s.History(ctx, tx, []uuid.UUID{c.ID})
	if err != nil {
		return nil, err
	}
	past := history[c.ID]
	return FinalOf(outcome.Close(FactsOf(terms, c, past)), c.StoppedBy, k.Source, past), nil
}

// Refute takes back an absence because of which a command is about to be sent once
// more, on a mere sign that the upstream has it. It settles nothing and moves nothing
// else. The command is locked.
func (s *Store) Refute(ctx context.Context, tx Tx, c Locked, k Knowledge) ([]Moved, error) {
	k.Finding = outcome.FindingPending
	final, err := s.refuteAbsence(ctx, tx, c, k)
	if final == nil || err != nil {
		return nil, err
	}
	_, moved, err := s.take(ctx, tx, c, k, EffectSettled, final)
	return moved, err
}

// contradictKept makes conflicts of the findings that had to wait for an attempt and
// say otherwise than the state that it ended in. A refusal does not speak for an
// attempt that began after it. Those of notices are weighed once more as such.
func (s *Store) contradictKept(ctx context.Context, tx Tx, m Move) error {
	rows, err := tx.Query(ctx, `
		UPDATE findings f SET effect = 'conflict'
		WHERE command_id = $1 AND effect = 'kept' AND source <> 'notice' AND (finding = 'applied' AND $2 <> 'success'
			OR finding = 'refused' AND $2 = 'success' AND NOT EXISTS (
				SELECT FROM attempts a WHERE a.command_id = f.command_id AND a.started_at > f.at AND a.boundary <> 'not_crossed'))
		RETURNING source, actor, finding, status`, m.Command.ID, m.To)
	if err != nil {
		return fmt.Errorf("weigh what was kept of command %s: %w", m.Command.ID, err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k Knowledge, err error) {
		return k, row.Scan(&k.Source, &k.Actor, &k.Finding, &k.Status)
	})
	if err != nil {
		return fmt.Errorf("weigh what was kept of command %s: %w", m.Command.ID, err)
	}
	c := m.Command
	c.State, c.Version = m.To, c.Version+1
	for _, k := range list {
		if err := s.Touch(ctx, tx, []uuid.UUID{c.ID}); err != nil {
			return err
		}
		if err := s.recordConflict(ctx, tx, c, k); err != nil {
			return err
		}
		c.Version++
	}
	return nil
}

// weighFinding says what follows from a finding about the command as a whole.
// sent says that an attempt of it may have acted: before that, what was done under
// its name was done by somebody else, or will be by an attempt to come.
func weighFinding(c Locked, sent bool, k Knowledge) (Effect, *Final) {
	conclusive := k.Finding == outcome.FindingApplied || k.Finding == outcome.FindingRefused
	switch {
	case c.State.Absorbing():
		if denies(c.State, k.Finding) {
			return EffectConflict, nil
		}
		return EffectNone, nil
	case c.State == outcome.StateUnresolved, c.State == outcome.StatePending && sent && k.Finding == outcome.FindingApplied:
		if final := finalFrom(c, k); final != nil {
			return EffectSettled, final
		}
		return EffectNone, nil
	case conclusive: // an attempt is or will be under way: weighed again when it leaves doubt
		return EffectKept, nil
	default:
		return EffectNone, nil
	}
}

// denies reports whether a finding contradicts a settled state.
func denies(state outcome.State, f outcome.Finding) bool {
	switch f {
	case outcome.FindingApplied, outcome.FindingPending:
		return state != outcome.StateSuccess
	case outcome.FindingRefused:
		return state == outcome.StateSuccess
	default: // a success that cannot be found (any more) was one all the same
		return false
	}
}

// finalFrom is the outcome that a finding gives; nil if it gives none.
func finalFrom(c Locked, k Knowledge) *Final {
	f := &Final{StoppedBy: c.StoppedBy, DecidedBy: k.Source, Answer: AnswerGiven{
		Status: k.Status, Reference: k.Reference, Code: k.Code, Message: k.Message,
	}}
	switch k.Finding {
	case outcome.FindingApplied:
		f.Outcome = outcome.Outcome{State: outcome.StateSuccess, Reason: outcome.OutcomeReasonApplied}
	case outcome.FindingRefused:
		f.Outcome = outcome.Outcome{State: outcome.StateRejected, Reason: outcome.OutcomeReasonRefused}
	case outcome.FindingAbsent:
		f.Outcome = outcome.Outcome{State: outcome.StateCancelled, Reason: outcome.OutcomeReasonConfirmedAbsent, SafeToResubmit: true}
	default:
		return nil
	}
	f.NextAction = outcome.NextActionNone
	if f.StoppedBy == "" { // it never had an outcome
		f.StoppedBy = k.reason()
	}
	return f
}
