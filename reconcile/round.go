package reconcile

import (
	"context"
	"errors"
	"net/http"
	"time"

	"executor/commands"
	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// round is one look at what became of a command: the profile's questions in
// their order, until one is answered.
type round struct {
	claimed
	instance  string
	subject   subject
	profile   *upstreams.Profile   // that the command pinned; nil if it cannot be read
	operation *upstreams.Operation // of it
	newest    upstreams.Upstream   // limits and mode
	hold      hold

	answers []Lookup
	replay  bool      // the question is to be put by sending the command again
	later   bool      // there is a question that cannot be put now
	retryAt time.Time // not before, says the upstream
}

// asked is when the first question was put, by the database's clock.
func (r *round) asked() time.Time {
	if len(r.answers) == 0 {
		return time.Time{}
	}
	return r.answers[0].StartedAt
}

// bare takes out of the answers what came from outside, and says whether there was
// anything to take.
func (r *round) bare() bool {
	changed := false
	for i, a := range r.answers {
		changed = changed || a.Request.Method != ""
		r.answers[i] = Lookup{
			Question: a.Question, Instance: a.Instance, ProfileVersion: a.ProfileVersion, StartedAt: a.StartedAt, EndedAt: a.EndedAt,
			Category: a.Category, Status: a.Status, Finding: a.Finding, Rule: a.Rule, Truncated: a.Truncated,
			Request: commands.AttemptRequest{Headers: []upstreams.Header{}}, ResponseHeaders: http.Header{}, Notes: []string{"the database refused what was seen besides"},
		}
	}
	return changed
}

func decisive(f outcome.Finding) bool {
	return f == outcome.FindingApplied || f == outcome.FindingRefused
}

// finding is what the answers say together: the one that says something, or else
// "absent" if all say so.
func (r *round) finding() outcome.Finding {
	found := outcome.FindingUnknown
	for i, a := range r.answers {
		switch {
		case a.Finding != outcome.FindingAbsent && a.Finding != outcome.FindingUnknown:
			return a.Finding
		case i == 0 || a.Finding == outcome.FindingUnknown:
			found = a.Finding
		}
	}
	return found
}

// reportOnly reports whether findings are only written down.
func (r *round) reportOnly() bool {
	p := r.current()
	return p != nil && p.Reconciliation == upstreams.ReconciliationReportOnly
}

// current is the newest profile, or the pinned one where that cannot be read.
func (r *round) current() *upstreams.Profile {
	if r.newest.Profile == nil || r.newest.Unreadable != nil {
		return r.profile
	}
	return r.newest.Profile
}

// askAll puts the questions. errLost: the claim has ended, and what was answered
// before counts no more than it does.
func (e *Engine) askAll(ctx context.Context, r *round) error {
	for i, l := range r.operation.Lookups {
		if l.Replay {
			var err error
			if r.replay, err = e.mayReplay(ctx, r); r.replay || err != nil {
				return err
			}
			continue
		}
		request, err := r.operation.Ask(l, r.subject.question())
		var unknown *upstreams.NotAskable
		if errors.As(err, &unknown) {
			continue
		}
		if err != nil {
			return err
		}
		if err := e.takeTurn(ctx, r); err != nil {
			return err
		}
		a := e.put(ctx, r, l, inquiry{r.UpstreamID, r.profile, r.operation, r.current().Limits, request, r.hold})
		a.Question = i + 1
		r.answers = append(r.answers, a)
		e.store.asked.WithLabelValues(r.profile.Upstream, string(a.Finding)).Inc()
		if decisive(a.Finding) || a.Finding == outcome.FindingPending {
			return nil
		}
	}
	return nil
}

// takeTurn waits for the upstream's rate, with a claim that lasts until the answer
// is on record. A process that was paused meanwhile does not ask.
func (e *Engine) takeTurn(ctx context.Context, r *round) error {
	wait := e.lanes.turn(r.UpstreamID)
	total := r.operation.Timeouts.Total
	ctx, cancel := context.WithTimeout(ctx, wait+e.margin)
	defer cancel()
	var err error
	if r.hold, err = e.store.renew(ctx, r.claimed, wait+total+e.margin); err != nil {
		return err
	}
	if !pause(e.stopping, wait) || !r.hold.covers(total) {
		return errLost
	}
	return nil
}

// put asks one question and reads its answer.
func (e *Engine) put(ctx context.Context, r *round, l upstreams.Lookup, q inquiry) Lookup {
	a := Lookup{Instance: e.instance, ProfileVersion: r.subject.ProfileVersion, StartedAt: r.hold.moment(), Finding: outcome.FindingUnknown}
	began := time.Now()
	reply := e.looker.ask(ctx, q)
	a.EndedAt = a.StartedAt.Add(time.Since(began).Truncate(time.Microsecond))
	if reply.whole() {
		a.read(r.operation.Find(l, r.subject.question(), upstreams.Response{
			Status: reply.status, Headers: reply.header, Body: reply.body, BodyComplete: true,
		}))
	}
	a.keep(reply, r.operation, r.subject.sent(), q.limits.StoredResponseBytes)
	r.heed(reply, a.Finding, a.EndedAt)
	return a
}

// heed notes when the upstream wants to be asked again, because it is busy or still
// at work, up to what the schedule itself would wait.
func (r *round) heed(reply reply, found outcome.Finding, now time.Time) {
	busy := reply.status == http.StatusTooManyRequests || reply.status == http.StatusServiceUnavailable
	if !busy && found != outcome.FindingPending {
		return
	}
	after, _ := upstreams.RetryAfter(reply.header, now)
	wait, ok := outcome.RetryAfter(after, now)
	if !ok {
		return
	}
	if at := now.Add(min(wait, r.operation.LookupSchedule().MaxInterval)); at.After(r.retryAt) {
		r.retryAt = at
	}
}

// fail makes a round of which nothing can be said: the schedule goes on all the
// same.
func (r *round) fail(detail string) {
	now := time.Now().Truncate(time.Microsecond)
	if !r.hold.now.IsZero() {
		now = r.hold.moment()
	}
	r.replay = false
	r.answers = append(r.answers, Lookup{
		Instance: r.instance, ProfileVersion: r.subject.ProfileVersion, StartedAt: now, EndedAt: now,
		Finding: outcome.FindingUnknown, Detail: egress.Line(detail),
	})
}
