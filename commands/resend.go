package commands

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"executor/outcome"
)

// NotResendable says that one more attempt is not safe or not possible, and by
// which rule.
type NotResendable struct {
	Reason outcome.Reason
	Rule   int // of the nine; 0 for what comes before them
}

func (e *NotResendable) Error() string {
	return fmt.Sprintf("may not be sent once more: %s (rule %d)", e.Reason, e.Rule)
}

// MayResend says what the rules think of one more attempt now, with a fresh
// deadline and beyond the policy's number of attempts. With absent the attempts so
// far count as settled: nothing of them arrived. The command is locked.
func (s *Store) MayResend(ctx context.Context, tx Tx, c Locked, absent bool) (outcome.Decision, error) {
	d, _, err := s.mayResend(ctx, tx, c, ResendOperator, absent)
	return d, err
}

func (s *Store) mayResend(ctx context.Context, tx Tx, c Locked, how Resend, absent bool) (outcome.Decision, Terms, error) {
	terms, err := s.Terms(ctx, c)
	if err != nil {
		return outcome.Decision{}, terms, err
	}
	history, err := s.History(ctx, tx, []uuid.UUID{c.ID})
	if err != nil {
		return outcome.Decision{}, terms, err
	}
	return decideResend(terms, c, history[c.ID], how, absent), terms, nil
}

// WouldResend is MayResend for who has read the command's terms and attempts.
func WouldResend(t Terms, c Locked, past []Past, absent bool) outcome.Decision {
	return decideResend(t, c, past, ResendOperator, absent)
}

func decideResend(t Terms, c Locked, past []Past, how Resend, absent bool) outcome.Decision {
	if absent {
		past = slices.Clone(past)
		for i := range past {
			past[i].Settled = true
		}
	}
	c.Resend = how
	if how != ResendAbsence {
		c.Deadline = c.Now.Add(t.deadline)
	}
	return outcome.MayStart(FactsBefore(t, c, past))
}

// Resend lets an unresolved command be sent exactly once more, under its own key
// and bytes, or answers with a *NotResendable. settledBy names who found that
// nothing of the attempts so far arrived; "" leaves their doubt. An absence's
// resend keeps to the command's own deadline and number of attempts; any other has
// a fresh deadline. The command is locked.
func (s *Store) Resend(ctx context.Context, tx Tx, c Locked, how Resend, settledBy, actor string) ([]Moved, error) {
	d, terms, err := s.mayResend(ctx, tx, c, how, settledBy != "")
	if err != nil {
		return nil, err
	}
	if d.Verdict != outcome.VerdictRetry {
		return nil, &NotResendable{Reason: d.Reason, Rule: d.Rule}
	}
	if settledBy != "" {
		if err := settle(ctx, tx, c.ID, settledBy); err != nil {
			return nil, err
		}
	}
	m := Move{Command: c, To: outcome.StatePending, Attempts: c.Attempts, NextAttemptAt: c.Now, Resend: how, Actor: actor}
	if how != ResendAbsence {
		m.Deadline = new(c.Now.Add(terms.deadline))
	}
	if c.BlockedUntil != nil && c.BlockedUntil.After(c.Now) {
		m.NextAttemptAt = *c.BlockedUntil
	}
	return s.Move(ctx, tx, []Move{m})
}

// Correction is what a person knows better than the record of a settled command.
type Correction struct {
	State                    outcome.State
	Reference, Code, Message string
}

// Correct changes one absorbed state into another, on a person's word. The command
// is locked.
func (s *Store) Correct(ctx context.Context, tx Tx, c Locked, to Correction, actor string) ([]Moved, error) {
	final := finalFrom(c, Knowledge{
		Source: outcome.DecidedByOperator, Finding: outcome.FindingOf(to.State), Reference: to.Reference, Code: to.Code, Message: to.Message,
	})
	if final == nil {
		return nil, fmt.Errorf("correct command %s: %q is not a settled state", c.ID, to.State)
	}
	return s.Move(ctx, tx, []Move{{Command: c, To: to.State, Attempts: c.Attempts, Outcome: final, Actor: actor, Correction: true}})
}

// Commit runs fn in a transaction with a bound of its own. ErrUnavailable: the
// database is away or the commit unknown, and whoever asked may ask again.
func (s *Store) Commit(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	return s.commit(ctx, fn)
}
