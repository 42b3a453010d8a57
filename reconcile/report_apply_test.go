package reconcile

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// appliedFile says of each of the commands something of every kind.
const appliedFile = `key,reference,state,amount,reason
lost,pay_1,success,100,
dead,,rejected,100,no funds
slow,,pending,100,
gone,,absent,100,
other,,success,99,
paid,,rejected,100,
never,,success,100,
same,,success,100,
twice,,success,100,
twice,,rejected,100,
sending,,success,100,
gone paid,,absent,100,
settles,,success,100,
ghost,,pending,100,
paid slow,,pending,100,
`

// applicable is a compared report with appliedFile, and the commands by their keys.
func (r *reportRig) applicable(t testing.TB) (Report, map[string]uuid.UUID) {
	t.Helper()
	ids := map[string]uuid.UUID{}
	for key, state := range map[string]outcome.State{
		"lost": "unresolved", "dead": "unresolved", "slow": "unresolved", "gone": "unresolved", "other": "unresolved", "paid": "success",
		"never": "cancelled", "same": "success", "twice": "unresolved", "sending": "executing", "gone paid": "success", "settles": "unresolved",
		"ghost": "rejected", "paid slow": "success",
	} {
		ids[key] = r.command(t, arranged{key: key, state: state})
	}
	report := r.compared(t, reportOf(func(q *ReportRequest) {
		q.Columns = map[string]string{"message": "reason"}
		q.Compare = []Comparison{{"amount", "/body/amount"}}
	}), appliedFile)
	return report, ids
}

func TestReportAppliedSettlesDoubtsAndShowsConflicts(t *testing.T) {
	r := newReportRig(t)
	report, ids := r.applicable(t)
	for key, id := range ids {
		if n := r.count(t, `SELECT count(*) FROM findings WHERE command_id = $1`, id); n > 0 {
			t.Errorf("comparing passed on %d findings about %s", n, key)
		}
	}
	// A lookup was faster.
	k := commands.Knowledge{Source: outcome.DecidedByLookup, Finding: outcome.FindingApplied, Observation: json.RawMessage(`{}`)}
	if err := r.learn(t, ids["settles"], k); err != nil {
		t.Fatal(err)
	}
	report = r.applied(t, report.ID)
	expectItems(t, r.items(t, report), `2 different state:unresolved/success -> settled
3 different state:unresolved/rejected -> settled
4 matched
5 different state:unresolved/absent
6 different state:unresolved/success /body/amount:100/99
7 different state:success/rejected -> conflict
8 different state:cancelled/success -> conflict
9 matched
10 different state:unresolved/success -> none
11 duplicate state:unresolved/rejected of 10
12 different state:executing/success -> kept
13 different state:success/absent
14 different state:unresolved/success -> none
15 different state:rejected/pending -> conflict
16 different state:success/pending
`)
	if want := (ReportEffects{Settled: 2, Kept: 1, Conflicts: 3, None: 2}); report.Effects != want || report.AppliedAt == nil || report.ApplyAskedBy != "ann" {
		t.Errorf("got %+v, want %+v", report, want)
	}
	for key, want := range map[string]outcome.State{
		"lost": "success", "dead": "rejected", "slow": "unresolved", "gone": "unresolved", "other": "unresolved", "paid": "success",
		"never": "cancelled", "same": "success", "twice": "unresolved", "sending": "executing", "gone paid": "success", "settles": "success",
		"ghost": "rejected", "paid slow": "success",
	} {
		if got := r.state(t, ids[key]); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	r.checkEvidence(t, report, ids)
	if items := r.items(t, report, ReportDifferent); !strings.Contains(items[6].Problem, "line 11 says something else") {
		t.Errorf("the contradiction is told as %q", items[6].Problem)
	}
}

// checkEvidence: what was passed on names the report and the line, and is on the
// command's account.
func (r *reportRig) checkEvidence(t *testing.T, report Report, ids map[string]uuid.UUID) {
	t.Helper()
	var actor, reference string
	var observation struct {
		Report  uuid.UUID
		Line    int
		Content map[string]string
	}
	var raw []byte
	err := r.pool.QueryRow(t.Context(), `SELECT actor, reference, observation FROM findings WHERE command_id = $1 AND source = 'report'`, ids["lost"]).
		Scan(&actor, &reference, &raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &observation); err != nil {
		t.Fatal(err)
	}
	if actor != "ann" || reference != "pay_1" || observation.Report != report.ID || observation.Line != 2 || observation.Content["amount"] != "100" {
		t.Errorf("the finding is by %q, reference %q, %+v", actor, reference, observation)
	}
	c, err := r.store.commands.Get(t.Context(), "default", ids["dead"])
	if err != nil {
		t.Fatal(err)
	}
	if c.Outcome.DecidedBy != outcome.DecidedByReport || c.Outcome.Rejection == nil || c.Outcome.Rejection.Message != "no funds" {
		t.Errorf("the outcome is %+v", c.Outcome)
	}
	if n := r.count(t, `SELECT count(*) FROM events WHERE type IN ('command.success', 'command.rejected', 'command.conflict')`); n != 6 {
		t.Errorf("%d events, want 6", n)
	}
	if n := r.count(t, `SELECT count(*) FROM audit WHERE subject = $1 AND action = 'report.upload'`, report.ID.String()); n != 1 {
		t.Errorf("%d audit entries of the upload", n)
	}
	if n := r.count(t, `SELECT count(*) FROM audit WHERE subject = $1 AND action = 'report.apply' AND reason = 'the bank says so'`, report.ID.String()); n != 1 {
		t.Errorf("%d audit entries of the apply", n)
	}
}

func (r *reportRig) learn(t testing.TB, id uuid.UUID, k commands.Knowledge) error {
	t.Helper()
	tx, err := r.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, _, err := r.store.commands.Learn(t.Context(), tx, id, k); err != nil {
		return err
	}
	return tx.Commit(t.Context())
}

func TestReportIsAppliedOnce(t *testing.T) {
	r := newReportRig(t)
	report, _ := r.applicable(t)
	first := r.applied(t, report.ID)
	findings := r.count(t, `SELECT count(*) FROM findings`)
	again := r.applied(t, report.ID)
	if again.Effects != first.Effects || !again.AppliedAt.Equal(*first.AppliedAt) || r.count(t, `SELECT count(*) FROM findings`) != findings {
		t.Errorf("applied again it did %+v, at first %+v", again.Effects, first.Effects)
	}
	if n := r.count(t, `SELECT count(*) FROM audit WHERE action = 'report.apply'`); n != 1 {
		t.Errorf("%d audit entries, want 1", n)
	}
}

// TestReportSaysNothingOfALaterAttempt: a refusal in it does not reject what was sent
// once more after it had come, or so shortly before that it may not stand in it.
func TestReportSaysNothingOfALaterAttempt(t *testing.T) {
	r := newReportRig(t)
	sent, settled := r.command(t, arranged{key: "sent", state: "unresolved"}), r.command(t, arranged{key: "not sent", state: "unresolved"})
	sending := r.command(t, arranged{key: "sending", state: "executing"})
	r.exec(t, `UPDATE attempts SET started_at = now() - interval '1 minute' WHERE command_id = $1`, sending)
	report := r.compared(t, reportOf(func(q *ReportRequest) { q.SettlesFor = time.Hour }), "key,state\nsent,rejected\nnot sent,rejected\nsending,rejected\n")
	for id, boundary := range map[uuid.UUID]outcome.Boundary{sent: outcome.BoundaryPossiblyCrossed, settled: outcome.BoundaryNotCrossed} {
		r.exec(t, `
			INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline,
				latest_end, ended_at, evidence, request, bytes_total, body_sha256, boundary)
			SELECT id, 2, tenant, upstream_id, 1, 'test', 1, now(), now(), now(), now(), 'sent_no_response', '{}', 0, '', $2
			FROM commands WHERE id = $1`, id, boundary)
		r.exec(t, `UPDATE commands SET attempts = 2 WHERE id = $1`, id)
	}
	expectItems(t, r.items(t, r.applied(t, report.ID)), `2 different state:unresolved/rejected -> none
3 different state:unresolved/rejected -> settled
4 different state:executing/rejected -> none
`)
	if a, b := r.state(t, sent), r.state(t, settled); a != outcome.StateUnresolved || b != outcome.StateRejected {
		t.Errorf("they are %s and %s", a, b)
	}
}

func TestReportThatMayNotBeApplied(t *testing.T) {
	r := newReportRig(t)
	early := r.upload(t, reportOf(), "key,state\nk,success\n")
	_, err := r.store.Apply(t.Context(), "default", early.ID, "ann", "because")
	var refused *Refused
	if !errors.As(err, &refused) || refused.Code != RefusedNotCompared {
		t.Errorf("applying what is not compared: %v", err)
	}
	var invalid *commands.Invalid
	if _, err := r.store.Apply(t.Context(), "default", early.ID, "ann", " "); !errors.As(err, &invalid) {
		t.Errorf("applying without a reason: %v", err)
	}
	if _, err := r.store.Apply(t.Context(), "default", uuid.New(), "ann", "because"); !errors.Is(err, ErrReportNotFound) {
		t.Errorf("applying nothing: %v", err)
	}
	report, _ := r.applicable(t)
	r.apply(t, "default", "up", "reconciliation: report_only")
	if _, err = r.store.Apply(t.Context(), "default", report.ID, "ann", "because"); !errors.As(err, &refused) || refused.Code != RefusedReportOnly {
		t.Errorf("applying in report-only mode: %v", err)
	}
	if n := r.count(t, `SELECT count(*) FROM findings`) + r.count(t, `SELECT count(*) FROM audit WHERE action = 'report.apply'`); n != 0 {
		t.Errorf("a refused apply left %d rows", n)
	}
}

// The mode may change while a report is being applied.
func TestReportStopsApplyingInReportOnlyMode(t *testing.T) {
	r := newReportRig(t)
	report, _ := r.applicable(t)
	if _, err := r.store.Apply(t.Context(), "default", report.ID, "ann", "because"); err != nil {
		t.Fatal(err)
	}
	r.apply(t, "default", "up", "reconciliation: report_only")
	r.run(t)
	report = r.reach(t, "default", report.ID, ReportCompared)
	if report.Problem == "" || report.Effects.Applied() != 0 {
		t.Errorf("got %+v", report)
	}
}
