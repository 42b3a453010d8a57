package reconcile

import (
	"context"
	"fmt"
	"time"

	"executor/outcome"
)

// fallbackSchedule is that of a profile which states none. It is used where the
// profile can no longer be read.
var fallbackSchedule = outcome.Schedule{FirstAfter: 2 * time.Second, Factor: 3, MaxInterval: 6 * time.Hour, GiveUpAfter: 72 * time.Hour}

func (r *round) schedule() outcome.Schedule {
	if r.operation == nil || len(r.operation.Lookups) == 0 {
		return fallbackSchedule
	}
	return r.operation.LookupSchedule()
}

// next is when the round after the given number of them is due; none, once the
// schedule is used up. The last round is due at its end.
func next(s outcome.Schedule, rounds int, now, notBefore, retryAt, end time.Time) (time.Time, bool) {
	if !now.Before(end) {
		return time.Time{}, false
	}
	at := s.Next(rounds, now, notBefore)
	if retryAt.After(at) {
		at = retryAt
	}
	if at.After(end) {
		at = end
	}
	return at, true
}

// plan says when the next round is due. Whoever asked for one during this one gets
// it; a command that a person has gets no other.
func (rec *recording) plan(ctx context.Context) error {
	at, ok := next(rec.round.schedule(), rec.doubt.Rounds+1, rec.command.Now, rec.settlement.NotBefore, rec.round.retryAt, rec.end())
	why := rec.usedUp()
	if rec.nothingToAsk() {
		at, ok, why = time.Time{}, false, ReviewNothingToAsk
	}
	if wanted := rec.wanted(); wanted != nil && (rec.inReview() || !ok || wanted.Before(at)) {
		at, ok = *wanted, true
	} else if rec.inReview() {
		return rec.touch(ctx)
	}
	if !ok {
		return rec.store.commands.HandToReview(ctx, rec.tx, rec.command, why)
	}
	if _, err := rec.tx.Exec(ctx, `UPDATE doubts SET next_at = $2 WHERE command_id = $1`, rec.command.ID, at); err != nil {
		return fmt.Errorf("plan the next lookup of command %s: %w", rec.command.ID, err)
	}
	return rec.touch(ctx)
}

// wanted is the round that was asked for while this one was under way.
func (rec *recording) wanted() *time.Time {
	if at := rec.doubt.NextAt; at != nil && !at.Equal(rec.round.NextAt) {
		return at
	}
	return nil
}

// end is when the schedule is used up.
func (rec *recording) end() time.Time {
	if rec.doubt.GivesUpAt != nil {
		return *rec.doubt.GivesUpAt
	}
	return rec.doubt.Since.Add(rec.round.schedule().GiveUpAfter)
}

// usedUp says why a person gets the doubt at the end of the schedule.
func (rec *recording) usedUp() string {
	switch {
	case rec.round.reportOnly():
		return ReviewReportOnly
	case rec.unknown() && rec.doubt.Unknown == rec.doubt.Rounds:
		return ReviewLookupUnavailable
	default:
		return ReviewScheduleUsedUp
	}
}

// nothingToAsk reports whether no question could be put, nor can be later.
func (rec *recording) nothingToAsk() bool {
	return len(rec.round.answers) == 0 && !rec.round.replay && !rec.round.later
}

// unknown reports whether the round brought no evidence.
func (rec *recording) unknown() bool {
	return !rec.round.replay && rec.round.finding() == outcome.FindingUnknown
}

// postpone plans the next round without a record of this one, which cannot be
// written: one command must not be asked about again and again for nothing.
func (s *Store) postpone(ctx context.Context, r *round) error {
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	var rounds int
	err := s.pool.QueryRow(ctx, `
		UPDATE doubts SET rounds = rounds + 1, unknown = unknown + 1 WHERE command_id = $1 AND claim = $2
		RETURNING rounds`, r.CommandID, r.Claim).Scan(&rounds)
	if err != nil {
		return fmt.Errorf("postpone a round about command %s: %w", r.CommandID, err)
	}
	wait := time.Until(r.schedule().Next(rounds, time.Now(), time.Time{}))
	_, err = s.pool.Exec(ctx, `
		UPDATE doubts SET next_at = clock_timestamp() + $3, claim = NULL, claimed_until = NULL
		WHERE command_id = $1 AND claim = $2`, r.CommandID, r.Claim, wait)
	if err != nil {
		return fmt.Errorf("postpone a round about command %s: %w", r.CommandID, err)
	}
	return nil
}
