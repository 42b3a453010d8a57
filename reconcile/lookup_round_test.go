package reconcile_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// threeWays asks by the link of a pending answer, then by the upstream's own name,
// then by our key. Each has its own meaning of 404.
const threeWays = `
      - method: GET
        path: "{link}"
        findings:
          - {when: status == 200 && json.status == "ok", finding: applied, reference: json.id}
          - {when: status == 200, finding: pending}
        schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 1m}
      - method: GET
        path: /charges/{reference}
        findings:
          - {when: status == 200, finding: applied, reference: json.id}
          - {when: status == 404, finding: absent}
        absence: {settles_after: 1s, confirmations: 1, spacing: 0s}
      - method: GET
        path: /charges
        query: {key: "{key}"}
        findings:
          - {when: status == 200 && size(json.items) == 1, finding: applied, reference: json.items[0].id}
          - {when: status == 200 && size(json.items) == 0, finding: absent}
`

// TestQuestionsArePutInTheirOrder: what is not known is not asked by, and an answer
// ends the round.
func TestQuestionsArePutInTheirOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.RequestURI() {
		case "/operations/7?view=full":
			answer(w, 403, `{}`)
		case "/charges/ch_9":
			answer(w, 404, `{}`)
		default:
			answer(w, 200, `{"items": [{"id": "ch_9"}]}`)
		}
	})
	r.apply(t, profileFor(up.URL, threeWays, ""))
	by := map[string]ending{
		"key only":  lost,
		"reference": {evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerPending, status: 202, reference: "ch_9"},
		"all":       {evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerPending, status: 202, reference: "ch_9", link: "/operations/7?view=full"},
	}
	want := map[string]string{
		"key only":  "3:applied",
		"reference": "2:absent 3:applied",
		"all":       "1:unknown 2:absent 3:applied",
	}
	ids := make(map[string]uuid.UUID)
	for name, e := range by {
		ids[name] = r.unresolved(t, name, e)
	}
	r.start(t)
	for name, id := range ids {
		c := r.reaches(t, id, outcome.StateSuccess)
		var asked []string
		for _, l := range r.lookups(t, id) {
			asked = append(asked, fmt.Sprintf("%d:%s", l.Question, l.Finding))
		}
		if got := strings.Join(asked, " "); got != want[name] || c.Outcome.Result.Reference != "ch_9" {
			t.Errorf("%s: %s, reference %q", name, got, c.Outcome.Result.Reference)
		}
	}
}

// TestAbsentIsWhatEveryQuestionSays: one that says nothing takes the proof away.
func TestAbsentIsWhatEveryQuestionSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked atomic.Int32
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/charges/"):
			answer(w, 404, `{}`)
		case asked.Add(1) <= 2:
			answer(w, 500, `{}`)
		default:
			answer(w, 200, nothing)
		}
	})
	r.apply(t, profileFor(up.URL, threeWays, ""))
	id := r.unresolved(t, "k1", ending{evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerUnclear, status: 500, reference: "ch_9"})
	r.start(t)
	r.reaches(t, id, outcome.StateCancelled)
	if got := r.findings(t, id); !strings.HasPrefix(got, "absent unknown absent unknown absent") || !strings.HasSuffix(got, "absent! absent!") {
		t.Errorf("lookups found %s", got)
	}
}

// TestTheReferenceOfAnEarlierLookupIsAskedBy.
func TestTheReferenceOfAnEarlierLookupIsAskedBy(t *testing.T) {
	t.Parallel()
	const lookup = `
      - method: GET
        path: /charges/{reference}
        findings: [{when: status == 200, finding: applied}]
        schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 1m}
      - method: GET
        path: /charges
        query: {key: "{key}"}
        findings: [{when: status == 200, finding: pending, reference: json.id}]
`
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, `{"id": "ch_3"}`) })
	r.apply(t, profileFor(up.URL, lookup, ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	c := r.reaches(t, id, outcome.StateSuccess)
	if len(up.asked("/charges/ch_3")) != 1 || c.Outcome.Result.Reference != "ch_3" {
		t.Errorf("result %+v, asked %v", c.Outcome.Result, up.asked(""))
	}
}

// TestTheLinkThatCameLate is asked by: of an attempt that others closed, its own answer
// says where to look.
func TestTheLinkThatCameLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, `{"status": "ok", "id": "ch_1"}`) })
	r.apply(t, profileFor(up.URL, threeWays, ""))
	id := r.unresolved(t, "k1", lost)
	r.step(t, id, func(tx pgx.Tx, _ commands.Locked) ([]commands.Moved, error) {
		_, moved, err := r.commands.Learn(t.Context(), tx, id, commands.Knowledge{
			Source: outcome.DecidedByLateEvidence, Actor: "zombie", Attempt: 1, Evidence: outcome.EvidenceResponseReceived,
			Category: outcome.CategoryNone, Answer: outcome.AnswerPending, Status: 202, Link: "/operations/7",
		})
		return moved, err
	})
	r.start(t)
	r.reaches(t, id, outcome.StateSuccess)
	if n := len(up.asked("/operations/7")); n != 1 {
		t.Errorf("asked %v", up.asked(""))
	}
}

// TestNothingToAskBy: a person gets it at once.
func TestNothingToAskBy(t *testing.T) {
	t.Parallel()
	const lookup = `
      method: GET
      path: /charges/{reference}
      findings: [{when: status == 200, finding: applied}]
      schedule: {first_after: 0s}
`
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, `{}`) })
	r.apply(t, profileFor(up.URL, lookup, ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	if why := r.handed(t, id); why != reconcile.ReviewNothingToAsk {
		t.Errorf("handed over because of %s", why)
	}
	if n := len(up.asked("")); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// TestReportOnly: rounds are made and recorded, nothing moves, and at the end a
// person gets the command.
func TestReportOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, map[string]string{"there": done, "gone": nothing, "failed": failed}[r.FormValue("client_reference")])
	})
	const lookup = `schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 2s}
absence: {settles_after: 1s, confirmations: 1, spacing: 0s}`
	r.apply(t, profileFor(up.URL, byKey(lookup), "reconciliation: report_only"))
	want := map[string]string{
		"there":  "report only: this would have settled the command as success",
		"failed": "report only: this would have settled the command as rejected",
		"gone":   "report only: this would have confirmed that nothing arrived",
	}
	ids := make(map[string]uuid.UUID)
	for key := range want {
		ids[key] = r.unresolved(t, key, lost)
	}
	r.start(t)
	for key, id := range ids {
		if why := r.handed(t, id); why != reconcile.ReviewReportOnly {
			t.Errorf("%s: handed over because of %s", key, why)
		}
		list := r.lookups(t, id)
		if notes := list[len(list)-1].Notes; len(notes) != 1 || notes[0] != want[key] || len(list) < 2 {
			t.Errorf("%s: %d lookups, notes %q", key, len(list), notes)
		}
	}
}

// TestWhatWasFoundDuringAnAttempt settles the command as soon as it is unresolved,
// also where nobody can be asked; a refusal does not speak for a later attempt.
func TestWhatWasFoundDuringAnAttempt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, working) })
	r.apply(t, profileFor(up.URL, byKey(`schedule: {first_after: 1h}`), ""))
	tell := func(id uuid.UUID, f outcome.Finding) {
		r.step(t, id, func(tx pgx.Tx, _ commands.Locked) ([]commands.Moved, error) {
			_, moved, err := r.commands.Learn(t.Context(), tx, id, commands.Knowledge{
				Source: outcome.DecidedByReport, Actor: "up", Finding: f, Reference: "pay_7",
			})
			return moved, err
		})
	}
	applied := r.submit(t, "applied").ID
	r.begin(t, applied, lost)
	tell(applied, outcome.FindingApplied)
	r.finish(t, applied, lost)

	both := r.submit(t, "both").ID
	r.begin(t, both, lost)
	tell(both, outcome.FindingApplied)
	tell(both, outcome.FindingRefused)
	r.finish(t, both, lost)

	refused := r.submit(t, "refused").ID
	tell(refused, outcome.FindingRefused)
	r.begin(t, refused, lost)
	r.finish(t, refused, lost)

	r.start(t)
	c := r.reaches(t, applied, outcome.StateSuccess)
	if c.Outcome.DecidedBy != outcome.DecidedByReport || c.Outcome.Result.Reference != "pay_7" || len(up.asked("=applied")) != 0 {
		t.Errorf("outcome %+v, result %+v, asked %v", c.Outcome, c.Outcome.Result, up.asked(""))
	}
	r.reaches(t, both, outcome.StateSuccess)
	if got := r.eventTypes(t, both); got != "command.unresolved command.success command.conflict" {
		t.Errorf("told that it was done and that it was refused: %s", got)
	}
	eventually(t, "a lookup", func() bool { return r.findings(t, refused) == "pending" })
	if c := r.get(t, refused); c.State != outcome.StateUnresolved {
		t.Errorf("the command is %s", c.State)
	}
}

// TestAFrozenDeploymentAsks: only sending stands still. Where the database may have
// lost the record of an attempt, absence proves nothing.
func TestAFrozenDeploymentAsks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, map[string]string{"there": done, "gone": nothing}[r.FormValue("client_reference")])
	})
	const lookup = `schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 3s}
absence: {settles_after: 1s, confirmations: 1, spacing: 0s}`
	r.apply(t, profileFor(up.URL, byKey(lookup), ""))
	there, gone := r.unresolved(t, "there", lost), r.unresolved(t, "gone", lost)
	r.deployment(t, "test")
	r.exec(t, `UPDATE deployment SET frozen_at = clock_timestamp(), doubtful = true`)
	r.start(t, func(c *reconcile.EngineConfig) { c.Expected = "test" })
	r.reaches(t, there, outcome.StateSuccess)
	if why := r.handed(t, gone); why != reconcile.ReviewScheduleUsedUp {
		t.Errorf("handed over because of %s", why)
	}
	if n := r.count(t, `SELECT count(*) FROM lookups WHERE counts`); n != 0 {
		t.Errorf("%d absents count", n)
	}
}

// TestAnotherDeploymentsDataIsNotAskedAbout: a copy of production leaves upstreams
// in peace.
func TestAnotherDeploymentsDataIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t, profileFor("http://127.0.0.1:1024", byKey(often), ""))
	r.unresolved(t, "k1", lost)
	r.deployment(t, "production")
	engine := reconcile.NewEngine(reconcile.EngineConfig{Store: r.store, Instance: "test", Expected: "staging"})
	if n, err := engine.TakeDue(t.Context()); n != 0 || err != nil {
		t.Errorf("%d rounds begun: %v", n, err)
	}
	r.exec(t, `UPDATE deployment SET id = 'staging'`)
	if n, err := engine.TakeDue(t.Context()); n != 1 || err != nil {
		t.Errorf("%d rounds begun: %v", n, err)
	}
}

// TestForgottenLookups are found and planned again.
func TestForgottenLookups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	noRow, noPlan, person := r.unresolved(t, "no row", lost), r.unresolved(t, "no plan", lost), r.unresolved(t, "person", lost)
	r.exec(t, `DELETE FROM doubts WHERE command_id = $1`, noRow)
	r.exec(t, `UPDATE doubts SET next_at = NULL WHERE command_id = $1`, noPlan)
	r.step(t, person, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		return nil, r.commands.HandToReview(t.Context(), tx, c, "test")
	})
	r.start(t)
	r.reaches(t, noRow, outcome.StateSuccess)
	r.reaches(t, noPlan, outcome.StateSuccess)
	if n := len(up.asked("person")); n != 0 {
		t.Error("a command was asked about that a person has")
	}
}

// TestForgottenReviews get into the queue: unresolved since before there was one, or
// lost from it.
func TestForgottenReviews(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t, profileFor("http://127.0.0.1:8080", "", ""))
	noRow, notHanded := r.unresolved(t, "no row", lost), r.unresolved(t, "not handed", lost)
	r.exec(t, `DELETE FROM doubts WHERE command_id = $1`, noRow)
	r.exec(t, `UPDATE doubts SET handed_at = NULL WHERE command_id = $1`, notHanded)
	if list, _, err := r.store.Reviews(t.Context(), reconcile.ReviewFilter{Tenant: tenant}); err != nil || len(list) != 0 {
		t.Fatalf("%d in the queue before, %v", len(list), err)
	}
	r.start(t)
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		list, _, err := r.store.Reviews(t.Context(), reconcile.ReviewFilter{Tenant: tenant})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d in the queue, %v", len(list), err)
		}
		if len(list) == 2 {
			return
		}
	}
}

// TestOneUpstreamsTroubleIsItsOwn: what one upstream does not answer keeps no other
// waiting, and only as many questions wait there as its profile permits.
func TestOneUpstreamsTroubleIsItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stuck := newHeld(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	sound := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	const limits = "limits: {lookups: {max_in_flight: 3, rate: {per_second: 1000, burst: 100}}}"
	r.apply(t, profileFor(stuck.URL, patient(often), limits))
	var waiting []uuid.UUID
	for i := range 12 {
		waiting = append(waiting, r.unresolved(t, fmt.Sprint("stuck", i), lost))
	}
	r.start(t)
	for range 3 {
		stuck.wait(t)
	}
	r.apply(t, strings.Replace(profileFor(sound.URL, byKey(often), ""), "upstream: up", "upstream: other", 1))
	a, err := r.commands.Submit(t.Context(), commands.Submission{
		Tenant: tenant, Key: "sound", Upstream: "other", Operation: "charge", Actor: "test", Body: []byte(`{}`), HasBody: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.begin(t, a.Command.ID, lost)
	r.finish(t, a.Command.ID, lost)
	r.reaches(t, a.Command.ID, outcome.StateSuccess)
	if n := len(stuck.asked("")); n != 3 {
		t.Errorf("%d questions at once, 3 are permitted", n)
	}
	close(stuck.release)
	for _, id := range waiting {
		r.reaches(t, id, outcome.StateSuccess)
	}
}

// TestTheRateOfLookups is the newest profile's.
func TestTheRateOfLookups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	var ids []uuid.UUID
	for i := range 7 {
		ids = append(ids, r.unresolved(t, fmt.Sprint("k", i), lost))
	}
	r.apply(t, profileFor(up.URL, byKey(often), "limits: {lookups: {max_in_flight: 10, rate: {per_second: 4, burst: 1}}}"))
	began := time.Now()
	r.start(t)
	for _, id := range ids {
		r.reaches(t, id, outcome.StateSuccess)
	}
	if took := time.Since(began); took < 1500*time.Millisecond { // six waits of a quarter of a second
		t.Errorf("7 questions took %s", took)
	}
}
