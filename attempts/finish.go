package attempts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
	"executor/outcome"
)

// ErrFenced: the attempt is no longer open under the reporter's epoch. Another
// process closed it; what was observed is late evidence.
var ErrFenced = errors.New("attempt was closed by another process")

// errBusy: the command's row is held by another transaction. The same call may be
// repeated.
var errBusy = errors.New("the command is held by another transaction")

// ErrNotPending: an attempt that never left reports about a command that has
// moved on, perhaps by this very report. There is nothing to record.
var ErrNotPending = errors.New("command has moved on")

// ending is one report of a batch with what is needed to decide it.
type ending struct {
	report    Report
	command   commands.Locked
	terms     commands.Terms
	startedAt time.Time
	latestEnd time.Time
	past      []commands.Past // before this attempt
	facts     outcome.Facts   // with it
	decision  outcome.Decision
	tokens    float64 // left in the retry budget after the decision
}

// finish closes the attempts of a batch, decides and moves their commands, in
// one transaction. An item that is fenced off or out of place gets its error;
// nothing of it is written.
func (s *Store) finish(ctx context.Context, tx pgx.Tx, reports []Report) ([]finishResult, error) {
	results := make([]finishResult, len(reports))
	list, err := s.gather(ctx, tx, reports, results)
	if err != nil {
		return nil, err
	}
	if err := s.decide(ctx, tx, list); err != nil {
		return nil, err
	}
	var (
		moves        []commands.Move
		open, unsent []*ending
	)
	for i, e := range list {
		if e == nil {
			continue
		}
		m := e.move()
		moves = append(moves, m)
		results[i].finished = &Finished{
			Number: e.number(), Decision: e.decision, State: m.To, RetryIn: max(0, m.NextAttemptAt.Sub(e.command.Now)),
		}
		if e.report.Number > 0 {
			open = append(open, e)
		} else {
			unsent = append(unsent, e)
		}
	}
	if err := s.closeOpen(ctx, tx, open); err != nil {
		return nil, err
	}
	if err := s.insertUnsent(ctx, tx, unsent); err != nil {
		return nil, err
	}
	_, err = s.commands.Move(ctx, tx, moves)
	return results, err
}

type finishResult struct {
	finished *Finished
	err      error
}

// openRow identifies an open attempt and when it began.
type openRow struct {
	CommandID uuid.UUID
	Number    int
	Epoch     int64
	StartedAt time.Time
	LatestEnd time.Time

	RefreshedAuth bool
}

// gather locks the commands, applies the fence and reads what came before.
func (s *Store) gather(ctx context.Context, tx pgx.Tx, reports []Report, results []finishResult) ([]*ending, error) {
	g, err := s.lock(ctx, tx, postgres.Column(reports, func(r Report) uuid.UUID { return r.CommandID }))
	if err != nil {
		return nil, err
	}
	list, fenced := g.admit(reports, results)
	if err := s.recognise(ctx, tx, fenced, results); err != nil {
		return nil, err
	}
	return list, s.recall(ctx, tx, list, g.doubt)
}

// gathered is what a transaction has locked of the commands of its reports.
type gathered struct {
	locked map[uuid.UUID]commands.Locked
	open   map[uuid.UUID]openRow // their open attempts
	gone   map[uuid.UUID]bool    // that are not there any more; the rest is locked elsewhere
	doubt  commands.Doubt
}

func (s *Store) lock(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (gathered, error) {
	g := gathered{open: make(map[uuid.UUID]openRow)}
	batch := &pgx.Batch{}
	s.commands.QueueDoubt(batch, &g.doubt)
	s.commands.QueueLock(batch, ids, func(list map[uuid.UUID]commands.Locked) { g.locked = list })
	batch.Queue(`
		SELECT command_id, number, epoch, started_at, latest_end, refreshed_auth FROM attempts
		WHERE command_id = ANY($1) AND ended_at IS NULL`, ids).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowToStructByName[openRow])
		for _, o := range list {
			g.open[o.CommandID] = o
		}
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return gathered{}, fmt.Errorf("finish attempts: %w", err)
	}
	var err error
	g.gone, err = s.commands.Gone(ctx, tx, slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { _, ok := g.locked[id]; return ok }))
	return g, err
}

// admit sets a result for what may not be finished; the ending of such a report is
// nil. Those that only the fence keeps out may be on record already.
func (g gathered) admit(reports []Report, results []finishResult) ([]*ending, map[uuid.UUID]fencedReport) {
	list, fenced := make([]*ending, len(reports)), make(map[uuid.UUID]fencedReport)
	unread := maps.Clone(g.locked)
	for i, r := range reports {
		if _, ok := g.locked[r.CommandID]; !ok {
			results[i].err = errBusy
			if g.gone[r.CommandID] {
				results[i].err = commands.ErrNotFound
			}
			continue
		}
		c, known := unread[r.CommandID]
		e := &ending{report: r, command: c, startedAt: c.Now, latestEnd: c.Now}
		if err := e.admit(known, g.doubt.Covers(c), g.open); err != nil {
			results[i].err = err
			if known && err == ErrFenced && !r.Lost {
				fenced[c.ID] = fencedReport{i, r, c}
			}
			continue
		}
		delete(unread, r.CommandID) // a second report of it in this batch is out of place
		delete(g.open, r.CommandID)
		list[i] = e
	}
	return list, fenced
}

// recall reads what came before the admitted endings, and their commands' terms.
func (s *Store) recall(ctx context.Context, tx pgx.Tx, list []*ending, doubt commands.Doubt) error {
	var earlier []uuid.UUID
	for _, e := range list {
		if e != nil && e.number() > 1 {
			earlier = append(earlier, e.command.ID)
		}
	}
	history, err := s.commands.History(ctx, tx, earlier)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e == nil {
			continue
		}
		e.past = history[e.command.ID]
		if e.terms, err = s.commands.Terms(ctx, e.command); err != nil {
			return err
		}
		if e.report.Lost && e.report.Number == 0 { // others that were lost with its record may be under way
			e.latestEnd = doubt.LatestEnd(e.terms, e.command)
		}
	}
	return nil
}

// admit is the fence: a begun attempt must still be open under the epoch it was
// begun under; one that never began needs a command that still waits for it.
func (e *ending) admit(known, doubtful bool, open map[uuid.UUID]openRow) error {
	if e.report.Number == 0 {
		if !known || e.command.State != outcome.StatePending || (e.report.After >= 0 && e.report.After != e.command.Attempts) ||
			(!e.report.Lost && (doubtful || e.command.NextAttemptAt.After(e.command.Now))) {
			return ErrNotPending
		}
		e.startedAt = e.command.Now.Add(-e.report.Elapsed)
		if e.report.Lost { // nobody knows when: at any time since its acceptance
			e.startedAt = e.command.CreatedAt
		}
		return nil
	}
	o, ok := open[e.report.CommandID]
	if !known || !ok || o.Number != e.report.Number || o.Epoch != e.report.Epoch {
		return ErrFenced
	}
	e.startedAt, e.latestEnd = o.StartedAt, o.LatestEnd
	if e.report.Lost { // it may have used up the one refresh
		e.report.RefreshedAuth = o.RefreshedAuth
	}
	return nil
}

// fencedReport is a report that the fence keeps out, with its place in the batch.
type fencedReport struct {
	at      int
	report  Report
	command commands.Locked
}

// recognise finds the fenced reports that stand on record word for word: their
// first writing was committed, and only its answer was lost. What they say is no
// late evidence.
func (s *Store) recognise(ctx context.Context, tx pgx.Tx, fenced map[uuid.UUID]fencedReport, results []finishResult) error {
	if len(fenced) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT command_id, number, epoch, evidence, category, detail, status, bytes_handed_over, decision, reason FROM attempts
		WHERE command_id = ANY($1) AND ended_at IS NOT NULL`, slices.Collect(maps.Keys(fenced)))
	if err != nil {
		return fmt.Errorf("read ended attempts: %w", err)
	}
	ended, err := pgx.CollectRows(rows, pgx.RowToStructByName[endedRow])
	if err != nil {
		return fmt.Errorf("read ended attempts: %w", err)
	}
	for _, row := range ended {
		f := fenced[row.CommandID]
		if !row.says(f.report) {
			continue
		}
		c := f.command
		done := &Finished{Number: row.Number, State: c.State, Decision: outcome.Decision{Verdict: row.Decision, Reason: row.Reason}}
		if c.NextAttemptAt != nil {
			done.RetryIn = max(0, c.NextAttemptAt.Sub(c.Now))
		}
		results[f.at] = finishResult{finished: done}
	}
	return nil
}

// endedRow is what tells one end of an attempt from another.
type endedRow struct {
	CommandID       uuid.UUID
	Number          int
	Epoch           int64
	Evidence        outcome.Evidence
	Category        outcome.Category
	Detail          string
	Status          int
	BytesHandedOver int64
	Decision        outcome.Verdict
	Reason          outcome.Reason
}

func (e endedRow) says(r Report) bool {
	return e.Number == r.Number && e.Epoch == r.Epoch && e.Evidence == r.Evidence && e.Category == r.Category &&
		e.Detail == commands.CleanText(r.Detail) && e.Status == r.Status && e.BytesHandedOver == r.BytesHandedOver
}

// number is the attempt's own; one that never began takes the next.
func (e *ending) number() int {
	if e.report.Number > 0 {
		return e.report.Number
	}
	return e.command.Attempts + 1
}

// attempt is this attempt as the rules see it.
func (e *ending) attempt() outcome.Attempt {
	return outcome.Attempt{
		StartedAt: e.startedAt, EndedAt: e.endedAt(), Evidence: e.report.Evidence, Category: e.report.Category,
		Status: e.report.Status, Answer: e.report.Answer, RetryAfter: e.report.RetryAfter, RefreshedAuth: e.report.RefreshedAuth,
	}
}

// endedAt is the start plus what the reporter's own clock measured, which an
// outage between the answer and its recording does not stretch.
func (e *ending) endedAt() time.Time {
	if e.report.Lost || e.report.Elapsed <= 0 {
		return e.command.Now
	}
	if t := e.startedAt.Add(e.report.Elapsed); t.Before(e.command.Now) {
		return t
	}
	return e.command.Now
}

// decide asks the rules about every item. Those that want to retry pay from
// their upstream's budget, one after the other; where it is empty they may wait
// for a token of their own.
func (s *Store) decide(ctx context.Context, tx pgx.Tx, list []*ending) error {
	var charged []int64
	for _, e := range list {
		if e == nil {
			continue
		}
		up, err := s.upstream(ctx, e.command.UpstreamID)
		if err != nil {
			return err
		}
		e.tokens = max(0, up.BudgetTokens) // a moment old, unless the decision has to pay
		e.prepare()
		e.decision = outcome.Decide(e.facts)
		if e.decision.Verdict == outcome.VerdictRetry || e.report.Status == 429 {
			charged = append(charged, e.command.UpstreamID)
		}
	}
	if len(charged) == 0 {
		return nil
	}
	buckets, err := s.lockBuckets(ctx, tx, charged)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e == nil {
			continue
		}
		b := buckets[e.command.UpstreamID]
		if b == nil {
			continue
		}
		if e.decision.Verdict == outcome.VerdictRetry {
			e.facts.BudgetTokens, e.facts.NextTokenIn = b.tokens, b.nextIn()
			switch e.decision = outcome.Decide(e.facts); e.decision.Verdict {
			case outcome.VerdictRetry, outcome.VerdictWaitBudget:
				b.tokens--
			}
		}
		e.tokens = max(0, b.tokens)
		if err := s.throttle(ctx, e, b); err != nil {
			return err
		}
	}
	return s.storeBuckets(ctx, tx, buckets)
}

// prepare gathers the facts. A lost attempt may be under way until its latest
// end, so that whatever follows it is judged as of then.
func (e *ending) prepare() {
	past := append(e.past[:len(e.past):len(e.past)], commands.Past{
		Number: e.number(), LatestEnd: e.latestEnd, Reference: e.report.Reference, Code: e.report.Code,
		Message: e.report.Message, Attempt: e.attempt(),
	})
	e.facts = commands.FactsOf(e.terms, e.command, past)
	e.facts.BudgetTokens = 1
	e.facts.Random = rand.Float64
	if e.report.Lost && e.latestEnd.After(e.facts.Now) {
		e.facts.Now = e.latestEnd
	}
	e.past = past
}

// throttle holds back the whole upstream where it asked for a pause.
func (s *Store) throttle(ctx context.Context, e *ending, b *bucket) error {
	if e.report.Status != 429 || e.report.RetryAfter == "" {
		return nil
	}
	up, err := s.upstream(ctx, e.command.UpstreamID)
	if err != nil {
		return fmt.Errorf("throttle upstream %d: %w", e.command.UpstreamID, err)
	}
	if wait, ok := outcome.RetryAfter(e.report.RetryAfter, e.command.Now); ok && up.Profile.Retry.ThrottlePausesUpstream {
		b.throttle(e.command.Now.Add(wait))
	}
	return nil
}

// move turns the decision into the command's step.
func (e *ending) move() commands.Move {
	m := commands.Move{Command: e.command, Attempts: e.number()}
	if e.report.Lost {
		m.BlockedUntil = &e.latestEnd
	}
	switch e.decision.Verdict {
	case outcome.VerdictRetry, outcome.VerdictWaitBudget:
		m.To, m.NextAttemptAt, m.WaitFor = outcome.StatePending, e.decision.RetryAt, commands.WaitBackoff
		if e.decision.Verdict == outcome.VerdictWaitBudget {
			m.WaitFor = commands.WaitRetryToken
		}
	default:
		m.To = e.decision.Outcome.State
		by := outcome.DecidedByAttempt
		if e.decision.Reason == outcome.ReasonCancelRequested {
			by = outcome.DecidedByCancel
		}
		m.Outcome = commands.FinalOf(*e.decision.Outcome, e.decision.Reason, by, e.past)
	}
	return m
}

// notes are what was noticed while reading the answer and while deciding.
func (e *ending) notes() *string {
	notes := append(e.report.Notes[:len(e.report.Notes):len(e.report.Notes)], e.decision.Notes...)
	if len(notes) == 0 {
		return nil
	}
	data, _ := json.Marshal(notes) // strings always encode
	return new(string(data))
}

func (e *ending) retryAt() *time.Time {
	if e.decision.RetryAt.IsZero() {
		return nil
	}
	return &e.decision.RetryAt
}

func (e *ending) waitMS() *int64 {
	if e.decision.RetryAt.IsZero() {
		return nil
	}
	return new(e.decision.Wait.Milliseconds())
}
