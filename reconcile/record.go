package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
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
}

// ours reports whether the doubt stands and nobody else has taken it up since.
func (rec *recording) ours() bool {
	return rec.command.State == outcome.StateUnresolved && rec.doubt.Claim != nil && *rec.doubt.Claim == rec.round.Claim
}

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

// write puts the answers on record.
func (rec *recording) write(ctx context.Context) error {
	r := rec.round
	counts := rec.settlement.Search.Absents > rec.doubt.Absents
	for i := range r.answers {
		a := &r.answers[i]
		a.Round, a.Counts = rec.doubt.Rounds+1, counts && a.Finding == outcome.FindingAbsent
	}
	if would := rec.wouldSettle(); would != "" && len(r.answers) > 0 {
		last := &r.answers[len(r.answers)-1]
		last.Notes = append(last.Notes, "report only: this would have "+would)
	}
	if len(r.answers) == 0 {
		return nil
	}
	return insertLookups(ctx, rec.tx, rec.command.ID, rec.command.Tenant, r.answers)
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

// follow does what the round amounts to. A conclusive answer counts also if the
// claim was lost meanwhile: what it says is true all the same, and against a settled
// state it is a conflict.
func (rec *recording) follow(ctx context.Context) ([]commands.Moved, error) {
	if err := rec.count(ctx); err != nil {
		return nil, err
	}
	r := rec.round
	switch {
	case decisive(r.finding()) && (!r.reportOnly() || rec.command.State.Absorbing()):
		return rec.learn(ctx)
	case !rec.ours():
		return nil, rec.touch(ctx)
	case r.reportOnly():
		return nil, rec.plan(ctx)
	case rec.settlement.Verdict == outcome.SettlementAbsent:
		return rec.absent(ctx)
	case rec.settlement.Verdict == outcome.SettlementVanished:
		return nil, rec.handOver(ctx, ReviewFoundThenAbsent)
	case r.replay:
		return rec.again(ctx)
	default:
		return nil, rec.plan(ctx)
	}
}

// learn passes the finding on to the command.
func (rec *recording) learn(ctx context.Context) ([]commands.Moved, error) {
	_, moved, err := rec.store.commands.Learn(ctx, rec.tx, rec.command.ID, rec.round.knowledge())
	return moved, err
}

// handOver leaves the command to a person, unless one has it.
func (rec *recording) handOver(ctx context.Context, why string) error {
	if rec.inReview() {
		return rec.touch(ctx)
	}
	return rec.store.commands.HandToReview(ctx, rec.tx, rec.command, why)
}

func (rec *recording) inReview() bool { return rec.command.Phase == string(outcome.NextActionReview) }

func (rec *recording) touch(ctx context.Context) error {
	return rec.store.commands.Touch(ctx, rec.tx, []uuid.UUID{rec.command.ID})
}

// knowledge is what the last answer tells of the command as a whole.
func (r *round) knowledge() commands.Knowledge {
	a := r.answers[len(r.answers)-1]
	k := commands.Knowledge{
		Source: outcome.DecidedByLookup, Actor: r.instance, Finding: r.finding(), Status: a.Status,
		Reference: a.Reference, Code: a.Code, Message: a.Message,
		Observation: []byte(jsonText(map[string]any{
			"round": a.Round, "question": a.Question, "method": a.Request.Method, "url": a.Request.URL, "rule": a.Rule, "notes": a.Notes,
		})),
	}
	if k.Reference == "" && k.Finding != outcome.FindingAbsent {
		k.Reference = r.subject.Reference // known already
	}
	return k
}

// absent does what follows a confirmed absence.
func (rec *recording) absent(ctx context.Context) ([]commands.Moved, error) {
	then := rec.round.operation.LookupAbsence().Then
	switch {
	case then == outcome.ThenReview:
		return nil, rec.handOver(ctx, ReviewConfirmedAbsent)
	case then == outcome.ThenResend && rec.inReview(): // a person has it: nothing is sent without one
		return nil, rec.touch(ctx)
	case then == outcome.ThenResend:
		moved, err := rec.resend(ctx, commands.ResendAbsence, string(outcome.DecidedByLookup))
		if !refused(err) {
			return moved, err
		}
	}
	return rec.learn(ctx)
}

// again puts the question by sending the command once more, if that is still safe.
func (rec *recording) again(ctx context.Context) ([]commands.Moved, error) {
	moved, err := rec.resend(ctx, commands.ResendReplay, "")
	if refused(err) {
		return nil, rec.plan(ctx)
	}
	return moved, err
}

func (rec *recording) resend(ctx context.Context, how commands.Resend, settledBy string) ([]commands.Moved, error) {
	return rec.store.commands.Resend(ctx, rec.tx, rec.command, how, settledBy, rec.round.instance)
}

// refused reports whether the rules forbid one more attempt.
func refused(err error) bool {
	var not *commands.NotResendable
	return errors.As(err, &not)
}
