package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// Why a doubt is handed to a person, besides commands.ReviewNoLookup.
const (
	ReviewScheduleUsedUp    = "schedule_used_up"   // asked to the end, and still not known
	ReviewLookupUnavailable = "lookup_unavailable" // no round brought any evidence
	ReviewNothingToAsk      = "nothing_to_ask"     // what the lookups ask by is not known, or the key is dead
	ReviewConfirmedAbsent   = "confirmed_absent"   // it never arrived, and the profile leaves the rest to a person
	ReviewFoundThenAbsent   = "found_then_absent"  // the upstream knew it and does not any more
	ReviewReportOnly        = "report_only"        // the profile lets lookups move nothing
)

// doubt is a row of that table, locked.
type doubt struct {
	Since        time.Time
	NextAt       *time.Time
	GivesUpAt    *time.Time
	Rounds       int
	Unknown      int
	Absents      int
	LastAbsentAt *time.Time
	Seen         bool
	Claim        *uuid.UUID
}

func lockDoubt(ctx context.Context, tx pgx.Tx, id uuid.UUID) (doubt, error) {
	rows, err := tx.Query(ctx, `
		SELECT since, next_at, gives_up_at, rounds, unknown, absents, last_absent_at, seen, claim
		FROM doubts WHERE command_id = $1 FOR UPDATE`, id)
	if err != nil {
		return doubt{}, fmt.Errorf("lock doubt about command %s: %w", id, err)
	}
	d, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[doubt])
	if err != nil {
		return doubt{}, fmt.Errorf("lock doubt about command %s: %w", id, err)
	}
	return d, nil
}

func (d doubt) search() outcome.Search {
	s := outcome.Search{Seen: d.Seen, Absents: d.Absents}
	if d.LastAbsentAt != nil {
		s.LastAbsentAt = *d.LastAbsentAt
	}
	return s
}

// count adds the round to the doubt and ends the claim, if it is still ours; the
// next round is yet to be planned. The requests were made in any case, and a sight is
// remembered in any case.
func (rec *recording) count(ctx context.Context) error {
	requests := 0
	for _, a := range rec.round.answers {
		if a.Question > 0 {
			requests++
		}
	}
	search := rec.settlement.Search
	var lastAbsent *time.Time
	if !search.LastAbsentAt.IsZero() {
		lastAbsent = &search.LastAbsentAt
	}
	_, err := rec.tx.Exec(ctx, `
		UPDATE doubts SET
			lookups = lookups + $3,
			rounds = CASE WHEN claim = $2 THEN rounds + 1 ELSE rounds END,
			unknown = CASE WHEN claim = $2 AND $4 THEN unknown + 1 ELSE unknown END,
			absents = CASE WHEN claim = $2 THEN $5 WHEN $8 THEN 0 ELSE absents END,
			last_absent_at = CASE WHEN claim = $2 THEN $6 WHEN $8 THEN NULL ELSE last_absent_at END,
			seen = CASE WHEN claim = $2 THEN $7 ELSE seen OR $8 END,
			next_at = CASE WHEN claim = $2 THEN NULL ELSE next_at END,
			claimed_until = CASE WHEN claim = $2 THEN NULL ELSE claimed_until END,
			claim = CASE WHEN claim = $2 THEN NULL ELSE claim END
		WHERE command_id = $1`,
		rec.command.ID, rec.round.Claim, requests, rec.unknown(), search.Absents, lastAbsent, search.Seen,
		rec.round.finding() == outcome.FindingPending)
	if err != nil {
		return fmt.Errorf("count a round about command %s: %w", rec.command.ID, err)
	}
	return nil
}
