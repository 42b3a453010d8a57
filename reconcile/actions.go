package reconcile

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// Action is who does something about a command, why, and on what they saw.
type Action struct {
	Tenant            string
	Command           uuid.UUID
	Version           int // of the command when they looked; 0 = not said
	Actor             string
	Reason            string // required; a note's text
	EvidenceReference string // where their evidence is kept

	bulk *uuid.UUID // the bulk action that it is part of
}

// Resolution is what a person says became of a command.
type Resolution struct {
	State     outcome.State `json:"state"`               // success, rejected or cancelled
	Reference string        `json:"reference,omitempty"` // the upstream's; a success without one names its evidence
	Code      string        `json:"code,omitempty"`      // the upstream's reason, for a rejection
	Message   string        `json:"message,omitempty"`
}

// reference is what a result is to be found by.
func (r Resolution) reference(a Action) string {
	if r.State == outcome.StateSuccess && r.Reference == "" {
		return a.EvidenceReference
	}
	return r.Reference
}

// Resolve settles an unresolved command as the person says. A round of lookups
// under way does not keep them from it: what that finds is weighed afterwards, and
// becomes a conflict if it says otherwise.
func (s *Store) Resolve(ctx context.Context, a Action, r Resolution) error {
	if err := checkAction(&a, append(r.check(a), r.checkProof(a)...)...); err != nil {
		return err
	}
	return s.act(ctx, a, s.resolving(a, r))
}

func (s *Store) resolving(a Action, r Resolution) doing {
	return func(ctx context.Context, tx commands.Tx, st standing) (deed, error) {
		d := deed{action: ActionResolve, details: map[string]any{"resolution": r}}
		if refused := st.mayResolve(); refused != nil {
			return d, refused
		}
		effect, moved, err := s.commands.Learn(ctx, tx, a.Command, commands.Knowledge{
			Source: outcome.DecidedByOperator, Actor: a.Actor, Finding: outcome.FindingOf(r.State), Reference: r.reference(a), Code: r.Code, Message: r.Message,
			Observation: []byte(jsonText(map[string]string{"reason": a.Reason, "evidence_reference": a.EvidenceReference})),
		})
		if err == nil && effect != commands.EffectSettled {
			err = fmt.Errorf("resolve command %s as %s: the finding is %s", a.Command, r.State, effect)
		}
		d.moved = moved
		return d, err
	}
}

// LookUpNow lets the upstream be asked about an unresolved command at once. While
// lookups go on by themselves they go on from there; where a person has it, it is
// one round, and it stays with them.
func (s *Store) LookUpNow(ctx context.Context, a Action) error {
	if err := checkAction(&a); err != nil {
		return err
	}
	return s.act(ctx, a, s.lookingUp(a))
}

func (s *Store) lookingUp(a Action) doing {
	return func(ctx context.Context, tx commands.Tx, st standing) (deed, error) {
		d := deed{action: ActionLookup}
		if refused := st.mayLookUp(); refused != nil {
			return d, refused
		}
		_, err := tx.Exec(ctx, `
			UPDATE doubts SET next_at = now(), gives_up_at = greatest(gives_up_at, now() + interval '1 hour')
			WHERE command_id = $1`, a.Command)
		if err != nil {
			return d, fmt.Errorf("plan a lookup of command %s: %w", a.Command, err)
		}
		return d, s.commands.Touch(ctx, tx, []uuid.UUID{a.Command})
	}
}

// Resend lets an unresolved command be sent exactly once more, under its own key
// and bytes, where that is safe. absent is the person's finding that nothing of it
// has arrived, which needs a reference to its evidence.
func (s *Store) Resend(ctx context.Context, a Action, absent bool) error {
	if err := checkAction(&a, checkAbsent(a, absent)...); err != nil {
		return err
	}
	return s.act(ctx, a, s.resending(a, absent))
}

func (s *Store) resending(a Action, absent bool) doing {
	return func(ctx context.Context, tx commands.Tx, st standing) (deed, error) {
		settledBy := ""
		switch {
		case absent:
			settledBy = string(outcome.DecidedByOperator)
		case st.absent:
			settledBy = string(outcome.DecidedByLookup)
		}
		d := deed{action: ActionResend, details: map[string]any{"absent": absent, "settled_by": settledBy}}
		if refused := st.mayResend(absent); refused != nil {
			return d, refused
		}
		var err error
		d.moved, err = s.commands.Resend(ctx, tx, st.command, commands.ResendOperator, settledBy, a.Actor)
		return d, err
	}
}

// Assign says who takes on what waits for a person; "" is nobody.
func (s *Store) Assign(ctx context.Context, a Action, assignee string) error {
	assignee = strings.TrimSpace(assignee)
	if err := checkAction(&a, checkLine("/assignee", assignee, maxName)...); err != nil {
		return err
	}
	return s.act(ctx, a, s.assigning(a, assignee))
}

func (s *Store) assigning(a Action, assignee string) doing {
	return func(ctx context.Context, tx commands.Tx, st standing) (deed, error) {
		d := deed{action: ActionAssign, details: map[string]any{"assignee": assignee}}
		if refused := st.mayAssign(); refused != nil {
			return d, refused
		}
		c := st.command
		// A conflict may be about a command that was never in doubt.
		_, err := tx.Exec(ctx, `
			INSERT INTO doubts (command_id, tenant, upstream_id, since, assignee) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (command_id) DO UPDATE SET assignee = excluded.assignee`, c.ID, c.Tenant, c.UpstreamID, c.Now, assignee)
		if err != nil {
			return d, fmt.Errorf("assign command %s: %w", c.ID, err)
		}
		return d, s.commands.Touch(ctx, tx, []uuid.UUID{c.ID})
	}
}

// Note puts a remark on record: the action's reason is its text. Of the command it
// moves only the version on, so that the same note is not written twice.
func (s *Store) Note(ctx context.Context, a Action) error {
	if err := checkAction(&a); err != nil {
		return err
	}
	return s.act(ctx, a, s.noting(a))
}

func (s *Store) noting(a Action) doing {
	return func(ctx context.Context, tx commands.Tx, _ standing) (deed, error) {
		return deed{action: ActionNote}, s.commands.Touch(ctx, tx, []uuid.UUID{a.Command})
	}
}
