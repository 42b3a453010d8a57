package reconcile_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"executor/outcome"
	"executor/reconcile"
)

// TestWhatArrivesLateIsNotCancelled: the first lookups find nothing, because the
// request is still under way or the search index lags. The effect shows before
// absence could prove anything.
func TestWhatArrivesLateIsNotCancelled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked atomic.Int32
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			answer(w, 200, nothing)
			return
		}
		answer(w, 200, done)
	})
	r.apply(t, profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 5s, confirmations: 2, spacing: 1s}"), ""))
	id := r.unresolved(t, "k1", ending{evidence: outcome.EvidenceSentNoResponse, latestEnd: time.Second})
	r.start(t)

	c := r.reaches(t, id, outcome.StateSuccess)
	if got := r.findings(t, id); got != "absent absent applied" {
		t.Errorf("lookups found %s", got)
	}
	if c.Outcome.Result.Reference != "pay_1" || c.Outcome.DecidedBy != outcome.DecidedByLookup {
		t.Errorf("outcome %+v, result %+v", c.Outcome, c.Outcome.Result)
	}
	if c.Reconciliation.Phase != "closed" || c.Reconciliation.Lookups != 3 || c.Reconciliation.NextLookupAt != nil {
		t.Errorf("reconciliation %+v", c.Reconciliation)
	}
	if got := r.eventTypes(t, id); got != "command.unresolved command.success" {
		t.Errorf("events %s", got)
	}
	if n := len(up.asked("POST")); n > 0 {
		t.Errorf("%d commands on the wire", n)
	}
}

// TestAbsenceProvesSomethingAfterTheSettleTimeOnly, counted from the last moment an
// attempt could be under way, and only as often as the profile asks, spaced.
func TestAbsenceProvesSomethingAfterTheSettleTimeOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, nothing) })
	r.apply(t, profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 1s, confirmations: 3, spacing: 300ms}"), ""))
	id := r.unresolved(t, "k1", ending{evidence: outcome.EvidenceSentNoResponse, latestEnd: 2 * time.Second})
	r.start(t)

	c := r.reaches(t, id, outcome.StateCancelled)
	if c.Outcome.Reason != outcome.OutcomeReasonConfirmedAbsent || !c.Outcome.SafeToResubmit {
		t.Errorf("outcome %+v", c.Outcome)
	}
	var latestEnd time.Time
	r.scan(t, `SELECT latest_end FROM attempts WHERE command_id = $1`, []any{id}, &latestEnd)
	counts := latestEnd.Add(time.Second)
	var counted []time.Time
	for _, l := range r.lookups(t, id) {
		if l.Counts {
			counted = append(counted, l.StartedAt)
		} else if !l.StartedAt.Before(counts) {
			t.Errorf("the lookup at %s does not count, absence counts from %s", l.StartedAt, counts)
		}
	}
	if len(counted) != 3 {
		t.Fatalf("%d lookups count: %s", len(counted), r.findings(t, id))
	}
	for i, at := range counted {
		if at.Before(counts) || i > 0 && at.Sub(counted[i-1]) < 300*time.Millisecond {
			t.Errorf("the lookups that count were asked at %v, absence counts from %s", counted, counts)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM attempts WHERE command_id = $1 AND settled_by = 'lookup'`, id); n != 1 {
		t.Errorf("%d attempts are settled", n)
	}
}

// TestWhatTheProfileSaysFollowsAnAbsence.
func TestWhatTheProfileSaysFollowsAnAbsence(t *testing.T) {
	t.Parallel()
	const absence = "\nabsence: {settles_after: 1s, confirmations: 1, spacing: 0s, then: review}"
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, nothing) })
	r.apply(t, profileFor(up.URL, byKey(often+absence), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	if why := r.handed(t, id); why != reconcile.ReviewConfirmedAbsent {
		t.Errorf("handed over because of %s", why)
	}
}

// TestAnUpstreamThatHadAcceptedIsNotTakenAtItsNo: it said yes once, so that a
// cancelled command could have acted.
func TestAnUpstreamThatHadAcceptedIsNotTakenAtItsNo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, nothing) })
	r.apply(t, profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 1s, confirmations: 2, spacing: 0s}"), ""))
	id := r.unresolved(t, "k1", ending{evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerPending, status: 202})
	r.start(t)
	if why := r.handed(t, id); why != reconcile.ReviewFoundThenAbsent {
		t.Errorf("handed over because of %s: %s", why, r.findings(t, id))
	}
	if n := r.count(t, `SELECT count(*) FROM lookups WHERE command_id = $1 AND counts`, id); n != 2 {
		t.Errorf("%d absents count: %s", n, r.findings(t, id))
	}
}

// TestWhatWasThereAndIsNotAnyMore goes to a person, and is not cancelled.
func TestWhatWasThereAndIsNotAnyMore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked atomic.Int32
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			answer(w, 200, working)
			return
		}
		answer(w, 200, nothing)
	})
	r.apply(t, profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 1s, confirmations: 1, spacing: 0s}"), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	if why := r.handed(t, id); why != reconcile.ReviewFoundThenAbsent {
		t.Errorf("handed over because of %s", why)
	}
	if got := r.findings(t, id); got != "pending absent!" {
		t.Errorf("lookups found %s", got)
	}
	if got := r.eventTypes(t, id); got != "command.unresolved command.review" {
		t.Errorf("events %s", got)
	}
}

// TestAbsenceProvesNothingWithoutASettleTime.
func TestAbsenceProvesNothingWithoutASettleTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, nothing) })
	const schedule = `schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 2s}`
	r.apply(t, profileFor(up.URL, byKey(schedule), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	if why := r.handed(t, id); why != reconcile.ReviewScheduleUsedUp {
		t.Errorf("handed over because of %s: %s", why, r.findings(t, id))
	}
	if n := r.count(t, `SELECT count(*) FROM lookups WHERE counts`); n != 0 {
		t.Errorf("%d lookups count", n)
	}
}
