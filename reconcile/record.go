package reconcile

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// record writes down a round and does what follows from it, all or nothing. It may
// be repeated when the commit's answer is lost.
func (s *Store) record(ctx context.Context, r *round) ([]commands.Moved, error) {
	var moved []commands.Moved
	err := s.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		var err error
		moved, err = s.recordIn(ctx, tx, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record a round about command %s: %w", r.CommandID, err)
	}
	return moved, nil
}

func (s *Store) recordIn(ctx context.Context, tx commands.Tx, r *round) ([]commands.Moved, error) {
	locked, err := s.commands.Lock(ctx, tx, []uuid.UUID{r.CommandID})
	if err != nil {
		return nil, err
	}
	rec := &recording{store: s, tx: tx, round: r, command: locked[r.CommandID]}
	if rec.doubt, err = lockDoubt(ctx, tx, r.CommandID); err != nil {
		return nil, err
	}
	if known, err := recorded(ctx, tx, r.CommandID, r.answers); known || err != nil {
		return nil, err
	}
	if len(r.answers) == 0 && !rec.ours() {
		return nil, nil
	}
	if err := rec.weigh(ctx); err != nil {
		return nil, err
	}
	if err := rec.write(ctx); err != nil {
		return nil, err
	}
	return rec.follow(ctx)
}

// recording is one round under the locks of its command and its doubt.
type recording struct {
	store   *Store
	tx      commands.Tx
	round   *round
	command commands.Locked
	doubt   doubt

	settlement outcome.Settlement
	answers    []Lookup // of the round, as they go on record
}

// ours reports whether the doubt stands and nobody else has taken it up since.
func (rec *recording) ours() bool {
	return rec.command.State == outcome.StateUnresolved && rec.doubt.Claim != nil && *rec.doubt.Claim == rec.round.Claim
}

// write puts the answers on record.
func (rec *recording) write(ctx context.Context) error {
	rec.answers = slices.Clone(rec.round.answers)
	if len(rec.answers) == 0 {
		return nil
	}
	counts := rec.settlement.Search.Absents > rec.doubt.Absents
	for i := range rec.answers {
		a := &rec.answers[i]
		a.Round, a.Counts = rec.doubt.Rounds+1, counts && a.Finding == outcome.FindingAbsent
	}
	if would := rec.wouldSettle(); would != "" {
		last := &rec.answers[len(rec.answers)-1]
		last.Notes = append(slices.Clip(last.Notes), "report only: this would have "+would)
	}
	return insertLookups(ctx, rec.tx, rec.command.ID, rec.command.Tenant, rec.answers)
}

// wouldSettle is what the round would have done, where findings move nothing.
func (rec *recording) wouldSettle() string {
	if !rec.round.reportOnly() || !rec.ours() {
		return ""
	}
	switch rec.settlement.Verdict {
	case outcome.SettlementApplied:
		return "settled the command as success"
	case outcome.SettlementRefused:
		return "settled the command as rejected"
	case outcome.SettlementAbsent:
		return "confirmed that nothing arrived"
	case outcome.SettlementVanished:
		return "handed the command to a person: it was there and is not any more"
	default:
		return ""
	}
}
