package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
)

// weigh says what the round amounts to.
func (rec *recording) weigh(ctx context.Context) error {
	search, absence := rec.doubt.search(), outcome.Absence{}
	var possibleUntil time.Time
	if rec.ours() && rec.round.finding() == outcome.FindingAbsent {
		past, sure, err := rec.past(ctx)
		if err != nil {
			return err
		}
		if sure {
			absence = rec.round.operation.LookupAbsence()
		}
		// An upstream that had accepted it knew it, as if it had been found.
		search.Seen = search.Seen || slices.ContainsFunc(past, accepted)
		possibleUntil = rec.possibleUntil(past)
	}
	rec.settlement = outcome.Settle(rec.round.finding(), search, absence, possibleUntil, rec.round.asked())
	return nil
}

// past are the attempts of the command, and whether these are all: where the record
// of one may be lost, "not found" proves nothing.
func (rec *recording) past(ctx context.Context) (past []commands.Past, sure bool, err error) {
	var doubt commands.Doubt
	batch := &pgx.Batch{}
	rec.store.commands.QueueDoubt(batch, &doubt)
	if err := rec.tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, false, fmt.Errorf("read deployment: %w", err)
	}
	history, err := rec.store.commands.History(ctx, rec.tx, []uuid.UUID{rec.command.ID})
	return history[rec.command.ID], !doubt.Covers(rec.command), err
}

// accepted reports whether the upstream has said that it is at work on the attempt.
func accepted(p commands.Past) bool { return p.GivenAnswer() == outcome.AnswerPending && !p.Settled }

// possibleUntil is the last moment at which an attempt that may have acted could be
// under way.
func (rec *recording) possibleUntil(past []commands.Past) time.Time {
	kind := rec.round.operation.Contract().Idempotency
	var until time.Time
	for _, p := range past {
		possible := accepted(p) || outcome.BoundaryOver(kind, []outcome.Attempt{p.Attempt}) != outcome.BoundaryNotCrossed
		if possible && p.LatestEnd.After(until) {
			until = p.LatestEnd
		}
	}
	if until.IsZero() {
		return rec.doubt.Since
	}
	return until
}
