package reconcile

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// follow does what the round amounts to. A conclusive answer counts also if the
// claim was lost meanwhile: what it says is true all the same, and against a settled
// state it is a conflict.
func (rec *recording) follow(ctx context.Context) ([]commands.Moved, error) {
	if err := rec.count(ctx); err != nil {
		return nil, err
	}
	r := rec.round
	switch {
	case rec.tells() && (!r.reportOnly() || rec.command.State.Absorbing()):
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

// tells reports whether the command itself has to know: of what is conclusive, and
// once it is in doubt no more of a sight too, which denies that it never arrived.
func (rec *recording) tells() bool {
	f := rec.round.finding()
	return decisive(f) || f == outcome.FindingPending && rec.command.State != outcome.StateUnresolved
}

// learn passes the finding on to the command.
func (rec *recording) learn(ctx context.Context) ([]commands.Moved, error) {
	_, moved, err := rec.store.commands.Learn(ctx, rec.tx, rec.command.ID, rec.knowledge())
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
func (rec *recording) knowledge() commands.Knowledge {
	r, a := rec.round, rec.answers[len(rec.answers)-1]
	k := commands.Knowledge{
		Source: outcome.DecidedByLookup, Actor: r.instance, Finding: r.finding(), AsOf: r.asked(), Status: a.Status,
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
