package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

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
