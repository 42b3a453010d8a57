package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// Knowledge is what came by another way than an attempt's own finish.
type Knowledge struct {
	Source      outcome.DecidedBy // late_evidence, lookup, notice, report or operator
	Actor       string            // instance or person
	Finding     outcome.Finding   // about the command as a whole; "" for late evidence of one attempt
	AsOf        time.Time         // the moment that the finding speaks of, where it comes later; zero = now
	Attempt     int               // the attempt it belongs to; late evidence always has one
	Evidence    outcome.Evidence
	Category    outcome.Category
	Answer      outcome.Answer
	Status      int
	RetryAfter  string
	Reference   string
	Code        string
	Message     string
	Link        string          // where late evidence says its state can be seen
	Observation json.RawMessage // everything seen, for people
	Body        []byte
}

// Effect is what became of a piece of knowledge.
type Effect string

const (
	EffectSettled  Effect = "settled"  // it moved the command
	EffectKept     Effect = "kept"     // an attempt is on the wire; its finish takes it into account
	EffectNone     Effect = "none"     // recorded, changes nothing
	EffectConflict Effect = "conflict" // it contradicts an absorbed state: only a person changes that
)

// Learn takes new knowledge about a command: it is written down in any case and
// moves the command where the rules say so. Late evidence is laid over its own
// attempt; a finding speaks of the command as a whole, and an absence has to be
// confirmed before it is passed on. An absorbed state is never changed; what
// contradicts it becomes a conflict.
func (s *Store) Learn(ctx context.Context, tx Tx, id uuid.UUID, k Knowledge) (Effect, []Moved, error) {
	locked, err := s.Lock(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return "", nil, err
	}
	c, ok := locked[id]
	if !ok {
		return "", nil, fmt.Errorf("learn about command %s: %w", id, ErrNotFound)
	}
	if k.Finding != "" {
		return s.learnFinding(ctx, tx, c, k)
	}
	return s.learnLate(ctx, tx, c, k)
}

// learnFinding takes what a lookup, a notice, a report or a person found.
func (s *Store) learnFinding(ctx context.Context, tx Tx, c Locked, k Knowledge) (Effect, []Moved, error) {
	old, err := precedes(ctx, tx, c, k)
	if err != nil {
		return "", nil, err
	}
	if old {
		return s.take(ctx, tx, c, k, EffectNone, nil)
	}
	if final, err := s.refuteAbsence(ctx, tx, c, k); final != nil || err != nil {
		return s.take(ctx, tx, c, k, EffectSettled, final)
	}
	sent, err := s.maybeSent(ctx, tx, c)
	if err != nil {
		return "", nil, err
	}
	effect, final := weighFinding(c, sent, k)
	if effect == EffectSettled && k.Finding == outcome.FindingAbsent {
		if err := settle(ctx, tx, c.ID, string(k.Source)); err != nil {
			return "", nil, err
		}
	}
	return s.take(ctx, tx, c, k, effect, final)
}

// learnLate takes what the process of an attempt that others closed saw of it.
func (s *Store) learnLate(ctx context.Context, tx Tx, c Locked, k Knowledge) (Effect, []Moved, error) {
	id := c.ID
	if effect, known, err := reported(ctx, tx, id, k); known || err != nil {
		return effect, nil, err
	}
	terms, err := s.Terms(ctx, c)
	if err != nil {
		return "", nil, err
	}
	history, err := s.History(ctx, tx, []uuid.UUID{id})
	if err != nil {
		return "", nil, err
	}
	past := history[id]
	if k.Attempt > c.Attempts { // its record is lost: the attempt stands on what is known of it now
		if err := recordLost(ctx, tx, c, k.Attempt, c.Now); err != nil {
			return "", nil, err
		}
		past, c.Attempts = append(past, possiblyLost(c, k.Attempt, c.Now)), k.Attempt
	}
	if err := noteLink(ctx, tx, id, k); err != nil {
		return "", nil, err
	}
	if past = overlay(past, k); knew(k.Answer) && !c.State.Absorbing() {
		if err := unsettle(ctx, tx, id, k.Attempt); err != nil {
			return "", nil, err
		}
	}
	effect, final := weigh(c, FactsOf(terms, c, past), past, k)
	return s.take(ctx, tx, c, k, effect, final)
}

// noteLink lets lookups ask where the attempt's own answer points to.
func noteLink(ctx context.Context, tx Tx, id uuid.UUID, k Knowledge) error {
	if k.Link == "" {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE attempts SET link = $3 WHERE command_id = $1 AND number = $2 AND link = ''`, id, k.Attempt, CleanText(k.Link))
	if err != nil {
		return fmt.Errorf("note the link of attempt %d of command %s: %w", k.Attempt, id, err)
	}
	return nil
}

// take writes knowledge down together with its effect.
func (s *Store) take(ctx context.Context, tx Tx, c Locked, k Knowledge, effect Effect, final *Final) (Effect, []Moved, error) {
	if err := insertFinding(ctx, tx, c, k, effect); err != nil {
		return "", nil, err
	}
	if final != nil {
		moved, err := s.Move(ctx, tx, []Move{{Command: c, To: final.State, Attempts: c.Attempts, Outcome: final, Actor: k.Actor}})
		return effect, moved, err
	}
	// It shows in the decision record, whatever it changes.
	if _, err := tx.Exec(ctx, `UPDATE commands SET version = version + 1, attempts = $2 WHERE id = $1`, c.ID, c.Attempts); err != nil {
		return "", nil, fmt.Errorf("learn about command %s: %w", c.ID, err)
	}
	switch {
	case effect == EffectConflict:
		return effect, nil, s.recordConflict(ctx, tx, c, k)
	case c.State == outcome.StateUnresolved && k.Attempt > 0:
		return effect, nil, noteEvidence(ctx, tx, []uuid.UUID{c.ID})
	default:
		return effect, nil, nil
	}
}

// reported finds late evidence that is on record: a process reports once what
// became of its attempt, and repeats the report when the commit's answer is lost.
func reported(ctx context.Context, tx Tx, id uuid.UUID, k Knowledge) (Effect, bool, error) {
	if k.Source != outcome.DecidedByLateEvidence {
		return "", false, nil
	}
	var effect Effect
	err := tx.QueryRow(ctx, `
		SELECT effect FROM findings WHERE command_id = $1 AND source = $2 AND attempt_number = $3 AND actor = $4`,
		id, k.Source, k.Attempt, k.Actor).Scan(&effect)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("look for findings about command %s: %w", id, err)
	default:
		return effect, true, nil
	}
}

// knew reports whether an answer shows that the upstream had the request.
func knew(a outcome.Answer) bool { return a == outcome.AnswerApplied || a == outcome.AnswerPending }

// overlay lays late evidence over its own attempt. An answer of an upstream that had
// it outweighs the absence that settled it.
func overlay(past []Past, k Knowledge) []Past {
	for i := range past {
		if past[i].Number != k.Attempt {
			continue
		}
		p := &past[i]
		p.Evidence, p.Category, p.Answer, p.Status, p.RetryAfter = k.Evidence, k.Category, k.Answer, k.Status, k.RetryAfter
		p.Reference, p.Code, p.Message = k.Reference, k.Code, k.Message
		p.Settled = p.Settled && !knew(k.Answer)
	}
	return past
}

// weigh says what follows from knowledge about a command in its state, with
// the attempts as they now look.
func weigh(c Locked, f outcome.Facts, past []Past, k Knowledge) (Effect, *Final) {
	switch {
	case c.State == outcome.StateExecuting:
		return EffectKept, nil
	case c.State.Absorbing():
		if contradicts(c.State, f, k) {
			return EffectConflict, nil
		}
		return EffectNone, nil
	case c.State == outcome.StateUnresolved:
		if out := outcome.Close(f); out.State != outcome.StateUnresolved {
			return EffectSettled, FinalOf(out, k.reason(), k.Source, past)
		}
		return EffectNone, nil
	default:
		return weighPending(f, past, k)
	}
}

// reason is what stopped the command, in the words of its last attempt's end.
func (k Knowledge) reason() outcome.Reason {
	switch {
	case k.Evidence == outcome.EvidenceNotSent:
		return outcome.ReasonNotSent
	case k.Answer == outcome.AnswerApplied, k.Finding == outcome.FindingApplied:
		return outcome.ReasonApplied
	case k.Answer == outcome.AnswerRefused, k.Finding == outcome.FindingRefused:
		return outcome.ReasonRefused
	default:
		return outcome.ReasonStatus(k.Status)
	}
}

// weighPending: an answer that completes or closes ends the wait; anything else
// leaves the planned attempt as it is, on better facts.
func weighPending(f outcome.Facts, past []Past, k Knowledge) (Effect, *Final) {
	if len(past) == 0 || past[len(past)-1].Number != k.Attempt {
		if out := outcome.Close(f); out.State == outcome.StateSuccess {
			return EffectSettled, FinalOf(out, outcome.ReasonApplied, k.Source, past)
		}
		return EffectNone, nil
	}
	d := outcome.Decide(f)
	if d.Outcome == nil || d.Rule != 0 {
		return EffectNone, nil
	}
	return EffectSettled, FinalOf(*d.Outcome, d.Reason, k.Source, past)
}

// contradicts reports whether the attempts as they now look deny the absorbed
// state: the upstream did, or is at, what we called undone, or surely did not
// do what we called done. A read did nothing either way.
func contradicts(state outcome.State, f outcome.Facts, k Knowledge) bool {
	now := outcome.Close(f).State
	switch {
	case f.Operation.Idempotency == outcome.IdempotencySafe:
		return false
	case state == outcome.StateSuccess:
		return now == outcome.StateRejected || now == outcome.StateCancelled
	default:
		return k.Answer == outcome.AnswerApplied || (k.Answer == outcome.AnswerPending && now == outcome.StateUnresolved)
	}
}

func insertFinding(ctx context.Context, tx Tx, c Locked, k Knowledge, effect Effect) error {
	observation := k.Observation
	if observation == nil {
		observation = json.RawMessage(`{}`)
	}
	var attempt *int
	if k.Attempt > 0 {
		attempt = &k.Attempt
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO findings (command_id, tenant, at, source, actor, attempt_number, evidence, category, answer, status,
			retry_after, reference, code, message, observation, body, effect, finding)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`,
		c.ID, c.Tenant, c.Now, k.Source, k.Actor, attempt, k.Evidence, k.Category, k.Answer, k.Status,
		CleanText(k.RetryAfter), CleanText(k.Reference), CleanText(k.Code), CleanText(k.Message), string(observation), k.Body, effect, k.Finding)
	if err != nil {
		return fmt.Errorf("record finding about command %s: %w", c.ID, err)
	}
	return nil
}

// recordConflict makes the contradiction visible on the command, whose version
// has grown for it.
func (s *Store) recordConflict(ctx context.Context, tx Tx, c Locked, k Knowledge) error {
	data, _ := json.Marshal(map[string]any{ // strings and numbers always encode
		"state": c.State, "source": k.Source, "attempt": k.Attempt, "answer": k.Answer, "status": k.Status, "finding": k.Finding,
	})
	s.log.Error("evidence contradicts a final state", "command_id", c.ID, "state", c.State, "source", k.Source,
		"attempt", k.Attempt, "answer", k.Answer, "finding", k.Finding, "status", k.Status)
	return insertEvent(ctx, tx, OutcomeEvent{
		CommandID: c.ID, Tenant: c.Tenant, Number: c.Version + 1, Type: "command.conflict", At: c.Now, Actor: k.Actor, Data: data,
	})
}
