package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
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

// finding is what the person found.
func (r Resolution) finding() outcome.Finding {
	switch r.State {
	case outcome.StateSuccess:
		return outcome.FindingApplied
	case outcome.StateRejected:
		return outcome.FindingRefused
	case outcome.StateCancelled:
		return outcome.FindingAbsent
	default:
		return outcome.FindingUnknown
	}
}

// Resolve settles an unresolved command as the person says. A round of lookups
// under way does not keep them from it: what that finds is weighed afterwards, and
// becomes a conflict if it says otherwise.
func (s *Store) Resolve(ctx context.Context, a Action, r Resolution) error {
	if err := checkAction(&a, r.check(a)...); err != nil {
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
			Source: outcome.DecidedByOperator, Actor: a.Actor, Finding: r.finding(), Reference: r.reference(a), Code: r.Code, Message: r.Message,
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

// deed is what was done.
type deed struct {
	action  string
	details map[string]any // what was asked for
	moved   []commands.Moved
	bulk    *uuid.UUID
}

// doing does it to a command that is locked and as the person saw it.
type doing func(ctx context.Context, tx commands.Tx, st standing) (deed, error)

// act does one thing to one command: its lock, the check that it is as the person
// saw it, the effect and the record of it are one transaction.
func (s *Store) act(ctx context.Context, a Action, do doing) error {
	if err := s.readProfiles(ctx, a.Command); err != nil {
		return err
	}
	var moved []commands.Moved
	err := s.transact(ctx, func(ctx context.Context, tx commands.Tx) error {
		var err error
		moved, err = s.actIn(ctx, tx, a, do)
		return err
	})
	if err == nil {
		s.commands.Changed(moved)
	}
	return err
}

// readProfiles sees to it that what profiles say about a command is at hand. Read
// within its transaction they would take a second connection beside the first, and
// many at once would wait for each other.
func (s *Store) readProfiles(ctx context.Context, id uuid.UUID) error {
	if _, err := s.standings(ctx, s.pool, []uuid.UUID{id}); err != nil {
		return unavailable("read what may be done about the command", err)
	}
	return nil
}

func (s *Store) actIn(ctx context.Context, tx commands.Tx, a Action, do doing) ([]commands.Moved, error) {
	st, err := s.lockStanding(ctx, tx, a.Tenant, a.Command)
	switch {
	case err != nil:
		return nil, err
	case a.Version == 0:
		return nil, ErrVersionRequired
	case a.Version != st.command.Version:
		return nil, &Stale{Version: st.command.Version}
	}
	before, err := scene(ctx, tx, a.Command)
	if err != nil {
		return nil, err
	}
	d, err := do(ctx, tx, st)
	if err != nil {
		return nil, err
	}
	d.bulk = a.bulk
	after, err := scene(ctx, tx, a.Command)
	if err != nil {
		return nil, err
	}
	return d.moved, audit.Record(ctx, tx, audit.Entry{
		Tenant: a.Tenant, Actor: a.Actor, Action: "command." + d.action, Command: &a.Command, Reason: a.Reason,
		EvidenceReference: a.EvidenceReference, Before: before, After: after, Details: st.details(d),
	})
}

// details are what was asked for and what there was to see when it was decided.
func (st standing) details(d deed) map[string]any {
	all := map[string]any{"seen": map[string]any{
		"attempts": st.command.Attempts, "lookups": st.doubt.Lookups, "absents_in_a_row": st.doubt.Absents, "open_conflicts": len(st.doubt.Conflicts),
	}}
	if d.bulk != nil {
		all["bulk"] = d.bulk
	}
	for name, value := range d.details {
		all[name] = value
	}
	return all
}

// sceneNow is what an action may change, as the record shows it.
type sceneNow struct {
	State     outcome.State `json:"state"`
	Version   int           `json:"version"`
	Sequence  int           `json:"sequence"`
	Phase     string        `json:"phase,omitempty"`
	Reason    string        `json:"reason,omitempty"` // of the newest outcome
	Assignee  string        `json:"assignee,omitempty"`
	Conflicts int           `json:"open_conflicts,omitempty"`
}

func scene(ctx context.Context, tx commands.Tx, id uuid.UUID) (n sceneNow, err error) {
	err = tx.QueryRow(ctx, `
		SELECT c.state, c.version, c.sequence, coalesce(c.phase, ''), coalesce(c.outcome ->> 'reason', ''), coalesce(d.assignee, ''),
			(SELECT count(*) FROM findings f WHERE f.command_id = c.id AND f.effect = 'conflict' AND f.resolved_at IS NULL)
		FROM commands c LEFT JOIN doubts d ON d.command_id = c.id WHERE c.id = $1`, id).
		Scan(&n.State, &n.Version, &n.Sequence, &n.Phase, &n.Reason, &n.Assignee, &n.Conflicts)
	if err != nil {
		return n, fmt.Errorf("read command %s: %w", id, err)
	}
	return n, nil
}

// transact runs fn in a transaction. What refuses the action reaches the caller as
// it is.
func (s *Store) transact(ctx context.Context, fn func(ctx context.Context, tx commands.Tx) error) error {
	var refusal error
	err := s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		refusal = nil
		err := fn(ctx, tx)
		if refuses(err) {
			refusal = err
		}
		return err
	})
	if err != nil && refusal != nil {
		return refusal
	}
	return err
}

// refuses reports whether an error speaks of the action itself: the same again
// would be refused again.
func refuses(err error) bool {
	var (
		stale   *Stale
		refused *Refused
		invalid *commands.Invalid
		unsafe  *commands.NotResendable
	)
	return errors.As(err, &stale) || errors.As(err, &refused) || errors.As(err, &invalid) || errors.As(err, &unsafe) ||
		errors.Is(err, ErrVersionRequired) || errors.Is(err, commands.ErrNotFound)
}
