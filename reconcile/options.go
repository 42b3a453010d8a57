package reconcile

import (
	"context"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// Option is an action and what would refuse it; nil if it would be accepted.
type Option struct {
	Action  string
	Refused *Refused
}

// Options is what a person may do about a command as it stands.
type Options struct {
	Version     int       // of the command, which actions name
	At          time.Time // by the database's clock
	State       outcome.State
	List        []Option
	Absent      bool                // lookups have confirmed that nothing of it arrived
	Idempotency outcome.Idempotency // of its operation
	Deadline    time.Duration       // that a resend has
	Conflicts   int                 // open ones
}

// Refusal is what would refuse an action; nil if it would be accepted.
func (o Options) Refusal(action string) *Refused {
	for _, option := range o.List {
		if option.Action == action {
			return option.Refused
		}
	}
	return &Refused{Code: "unknown_action", Detail: "There is no such action."}
}

// Options reads what may be done about a command now. Another tenant's id is
// commands.ErrNotFound.
func (s *Store) Options(ctx context.Context, tenant string, id uuid.UUID) (Options, error) {
	st, err := s.standing(ctx, tenant, id)
	if err != nil {
		return Options{}, err
	}
	return Options{
		Version: st.command.Version, At: st.command.Now, State: st.command.State, List: st.options(), Absent: st.absent,
		Idempotency: st.terms.Contract.Idempotency, Deadline: st.terms.Deadline(), Conflicts: len(st.doubt.Conflicts),
	}, nil
}

// standing reads how one command stands, without locking it.
func (s *Store) standing(ctx context.Context, tenant string, id uuid.UUID) (standing, error) {
	list, err := s.standings(ctx, s.pool, []uuid.UUID{id})
	if err != nil {
		return standing{}, unavailable("read what may be done about the command", err)
	}
	st, ok := list[id]
	if !ok || st.command.Tenant != tenant {
		return standing{}, commands.ErrNotFound
	}
	return st, nil
}

// Wish is one of the actions with what it says beside the reason.
type Wish struct {
	Action     string     // resolve, lookup, resend, assign, note, correct or cancel
	Resolution Resolution // to resolve or correct
	Absent     bool       // to resend: the person's finding that nothing of it arrived
	Assignee   string     // to assign; "" is nobody
}

// Check answers as doing it would, as things stand, and does nothing.
func (s *Store) Check(ctx context.Context, a Action, w Wish) error {
	st, err := s.standing(ctx, a.Tenant, a.Command)
	if err != nil {
		return err
	}
	if err := w.check(&a, st); err != nil {
		return err
	}
	switch {
	case a.Version == 0:
		return ErrVersionRequired
	case a.Version != st.command.Version:
		return &Stale{Version: st.command.Version}
	}
	if refused := w.refusal(st); refused != nil {
		return refused
	}
	return nil
}

func (w *Wish) check(a *Action, st standing) error {
	switch w.Action {
	case ActionResolve:
		return checkAction(a, append(w.Resolution.check(*a), w.Resolution.checkProof(*a)...)...)
	case ActionCorrect:
		fields := w.Resolution.check(*a)
		if w.Resolution.State != st.command.State {
			fields = append(fields, w.Resolution.checkProof(*a)...)
		}
		return checkAction(a, fields...)
	case ActionResend:
		return checkAction(a, checkAbsent(*a, w.Absent)...)
	case ActionAssign:
		return checkAction(a, checkLine("/assignee", w.Assignee, maxName)...)
	default:
		return checkAction(a)
	}
}

// refusal says why it would not be done.
func (w Wish) refusal(st standing) *Refused {
	switch w.Action {
	case ActionCorrect:
		return st.mayCorrect(w.Resolution.State)
	case ActionCancel:
		return st.mayCancel()
	default:
		return BulkOrder{Action: w.Action, Absent: w.Absent}.refusal(st)
	}
}

// Do does what the wish says.
func (s *Store) Do(ctx context.Context, a Action, w Wish) error {
	switch w.Action {
	case ActionResolve:
		return s.Resolve(ctx, a, w.Resolution)
	case ActionLookup:
		return s.LookUpNow(ctx, a)
	case ActionResend:
		return s.Resend(ctx, a, w.Absent)
	case ActionAssign:
		return s.Assign(ctx, a, w.Assignee)
	case ActionNote:
		return s.Note(ctx, a)
	case ActionCorrect:
		return s.Correct(ctx, a, w.Resolution)
	case ActionCancel:
		_, err := s.Cancel(ctx, a)
		return err
	default:
		return &Refused{Code: "unknown_action", Detail: "There is no such action."}
	}
}

// Cancel asks that nothing more be sent, as commands.Store.Cancel does, and has it
// on record who asked and why.
func (s *Store) Cancel(ctx context.Context, a Action) (commands.CancelResult, error) {
	if err := checkAction(&a); err != nil {
		return "", err
	}
	var result commands.CancelResult
	err := s.act(ctx, a, func(ctx context.Context, tx commands.Tx, st standing) (deed, error) {
		d := deed{action: ActionCancel}
		if refused := st.mayCancel(); refused != nil {
			return d, refused
		}
		var err error
		result, d.moved, err = s.commands.CancelIn(ctx, tx, st.command, a.Actor)
		d.details = map[string]any{"result": result}
		return d, err
	})
	return result, err
}
