package reconcile

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/upstreams"
)

// weighNotice does what a notice about a command gives rise to and writes down
// what that was. A notice about a command that is under way is kept: what it says
// may count only when the attempt is over.
func (s *Store) weighNotice(ctx context.Context, tx commands.Tx, n notice, id uuid.UUID, newest *upstreams.Profile) ([]commands.Moved, error) {
	locked, err := s.commands.Lock(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return nil, err
	}
	c, ok := locked[id]
	if !ok {
		return nil, fmt.Errorf("notice %d: %w", n.ID, commands.ErrNotFound)
	}
	w := &weighing{store: s, tx: tx, notice: n, newest: newest, command: c}
	effect, err := w.weigh(ctx)
	if err != nil {
		return nil, err
	}
	return w.moved, w.write(ctx, effect)
}

// weighing is one notice under the lock of its command.
type weighing struct {
	store   *Store
	tx      commands.Tx
	notice  notice
	newest  *upstreams.Profile
	command commands.Locked
	moved   []commands.Moved
}

func (w *weighing) weigh(ctx context.Context) (NoticeEffect, error) {
	n := w.notice
	if n.Finding == outcome.FindingUnknown && n.Weight != upstreams.WeightHint {
		return NoticeEffectNone, nil
	}
	if err := w.remember(ctx); err != nil {
		return "", err
	}
	if n.Weight == upstreams.WeightHint {
		return w.hint(ctx)
	}
	if w.newest.Reconciliation == upstreams.ReconciliationReportOnly {
		return NoticeEffectReported, nil
	}
	if old, err := w.precedes(ctx); old || err != nil {
		return NoticeEffectNone, err
	}
	if n.State == NoticeKept && w.agrees() { // it was learned when it came
		return NoticeEffectNone, nil
	}
	repeats, err := w.repeats(ctx)
	if repeats || err != nil {
		return NoticeEffectNone, err
	}
	effect, moved, err := w.store.commands.Learn(ctx, w.tx, w.command.ID, n.knowledge())
	w.moved = moved
	return NoticeEffect(effect), err
}

// underWay: an attempt is, or will be, on the wire.
func (w *weighing) underWay() bool { return !w.command.State.Final() }

// agrees reports whether the command has ended as the notice says.
func (w *weighing) agrees() bool {
	c, f := w.command.State, w.notice.Finding
	switch {
	case w.underWay():
		return true
	case c == outcome.StateSuccess:
		return f != outcome.FindingRefused
	case c.Absorbing():
		return f == outcome.FindingRefused
	default:
		return f == outcome.FindingPending
	}
}

// remember keeps in mind that the upstream has seen the command: an absence that
// comes after it proves nothing any more, whatever the notice weighs.
func (w *weighing) remember(ctx context.Context) error {
	if w.command.State != outcome.StateUnresolved || !w.sight() {
		return nil
	}
	_, err := w.tx.Exec(ctx, `UPDATE doubts SET seen = true, absents = 0, last_absent_at = NULL WHERE command_id = $1`, w.command.ID)
	if err != nil {
		return fmt.Errorf("remember a sight of command %s: %w", w.command.ID, err)
	}
	return nil
}

// hint has the upstream asked at once, where it can be asked and there is doubt.
func (w *weighing) hint(ctx context.Context) (NoticeEffect, error) {
	if moved, err := w.refute(ctx); moved || err != nil {
		return NoticeEffectLookup, err
	}
	if w.underWay() {
		return NoticeEffectKept, nil
	}
	if w.command.State != outcome.StateUnresolved {
		return NoticeEffectNone, nil
	}
	tag, err := w.tx.Exec(ctx, `
		UPDATE doubts SET next_at = clock_timestamp()
		WHERE command_id = $1 AND gives_up_at IS NOT NULL
			AND (next_at IS NULL OR next_at > clock_timestamp() OR claimed_until > clock_timestamp()) -- the round under way may have asked too early`, w.command.ID)
	if err != nil {
		return "", fmt.Errorf("ask about command %s: %w", w.command.ID, err)
	}
	if tag.RowsAffected() == 0 {
		return NoticeEffectNone, nil
	}
	return NoticeEffectLookup, w.store.commands.Touch(ctx, w.tx, []uuid.UUID{w.command.ID})
}

// sight reports whether the notice says that the upstream has the command.
func (w *weighing) sight() bool {
	return w.notice.Finding == outcome.FindingPending || w.notice.Finding == outcome.FindingApplied
}

// refute keeps a command from being sent once more on the word of an absence that was
// none: a hint is enough for that.
func (w *weighing) refute(ctx context.Context) (moved bool, err error) {
	if !w.sight() || w.newest.Reconciliation == upstreams.ReconciliationReportOnly {
		return false, nil
	}
	w.moved, err = w.store.commands.Refute(ctx, w.tx, w.command, w.notice.knowledge())
	return len(w.moved) > 0, err
}

// precedes reports whether a refusal came before an attempt that may have acted: it
// does not speak for that one.
func (w *weighing) precedes(ctx context.Context) (found bool, err error) {
	if w.notice.Finding != outcome.FindingRefused {
		return false, nil
	}
	err = w.tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM attempts WHERE command_id = $1 AND started_at > $2 AND boundary <> 'not_crossed')`,
		w.command.ID, w.notice.ReceivedAt).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for attempts after notice %d: %w", w.notice.ID, err)
	}
	return found, nil
}

// repeats reports whether another event has said the same since the command's
// newest outcome: some upstreams send every state dozens of times, under new ids.
func (w *weighing) repeats(ctx context.Context) (found bool, err error) {
	n := w.notice
	if w.underWay() {
		return false, nil
	}
	err = w.tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM notices WHERE command_id = $1 AND id <> $2 AND state = 'done' AND effect IN ('settled', 'none', 'conflict')
			AND weight = 'conclusive' AND sequence >= $3 AND finding = $4 AND reference = $5 AND code = $6 AND message = $7)`,
		w.command.ID, n.ID, w.command.Sequence, n.Finding, n.Reference, n.Code, n.Message).Scan(&found)
	if err != nil {
		return false, fmt.Errorf("look for what notice %d repeats: %w", n.ID, err)
	}
	return found, nil
}

// knowledge is what the notice says of the command as a whole.
func (n notice) knowledge() commands.Knowledge {
	return commands.Knowledge{
		Source: outcome.DecidedByNotice, Actor: n.Upstream, Finding: n.Finding, Reference: n.Reference, Code: n.Code, Message: n.Message,
		Observation: []byte(jsonText(map[string]any{
			"notice": n.ID, "event_id": n.EventID, "named_by": n.NamedBy, "name": n.Name, "rule": n.Rule,
		})),
	}
}

// write puts the effect on record. The sequence is that of the outcome that the
// notice found or brought.
func (w *weighing) write(ctx context.Context, effect NoticeEffect) error {
	state, sequence := NoticeDone, w.command.Sequence
	if effect == NoticeEffectSettled {
		sequence++
	}
	waits := w.underWay() && effect != NoticeEffectSettled && w.notice.Finding != outcome.FindingUnknown
	if effect == NoticeEffectKept || waits {
		state = NoticeKept
	}
	_, err := w.tx.Exec(ctx, `
		UPDATE notices SET state = $2, effect = $3, command_id = $4, matched_at = coalesce(matched_at, clock_timestamp()), sequence = $5,
			next_at = CASE WHEN $2 = 'kept' THEN clock_timestamp() + $6 END
		WHERE id = $1`, w.notice.ID, state, effect, w.command.ID, sequence, soonest)
	if err != nil {
		return fmt.Errorf("write down what became of notice %d: %w", w.notice.ID, err)
	}
	return nil
}
