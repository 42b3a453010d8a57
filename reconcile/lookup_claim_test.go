package reconcile_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
)

// held is an upstream whose answers wait until the test lets them go.
type held struct {
	*server
	arrived chan struct{} // one for each question
	release chan struct{} // closed, all are answered
}

func newHeld(t testing.TB, answer http.HandlerFunc) *held {
	t.Helper()
	h := &held{arrived: make(chan struct{}, 100), release: make(chan struct{})}
	h.server = newServer(t, func(w http.ResponseWriter, r *http.Request) {
		h.arrived <- struct{}{}
		select {
		case <-h.release:
			answer(w, r)
		case <-r.Context().Done():
		}
	})
	return h
}

func (h *held) wait(t testing.TB) {
	t.Helper()
	select {
	case <-h.arrived:
	case <-time.After(patience):
		t.Fatal("nobody asked")
	}
}

// patient gives questions time, so that tests can do something meanwhile.
func patient(lookup string) string {
	return byKey(lookup) + "\n    timeouts: {response_header: 20s, total: 20s}\n"
}

// TestNobodyIsAskedTwiceAtOnce: two processes share the doubts, and never ask about
// one command at the same time.
func TestNobodyIsAskedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var (
		mu     sync.Mutex
		asking = map[string]int{}
		rounds = map[string]int{}
		twice  atomic.Int32
	)
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		key := r.FormValue("client_reference")
		mu.Lock()
		if asking[key]++; asking[key] > 1 {
			twice.Add(1)
		}
		rounds[key]++
		n := rounds[key]
		mu.Unlock()
		<-time.After(50 * time.Millisecond) // long enough to be caught
		mu.Lock()
		asking[key]--
		mu.Unlock()
		answer(w, 200, []string{nothing, working, done}[min(n-1, 2)])
	})
	r.apply(t, profileFor(up.URL, byKey(often), "limits: {lookups: {max_in_flight: 8, rate: {per_second: 1000, burst: 100}}}"))
	var ids []uuid.UUID
	for i := range 20 {
		ids = append(ids, r.unresolved(t, fmt.Sprint("k", i), lost))
	}
	r.start(t)
	newRigOn(t, testkit.Open(t, r.pool.Config().ConnString())).start(t)
	for _, id := range ids {
		r.reaches(t, id, outcome.StateSuccess)
		if got := r.findings(t, id); got != "absent pending applied" {
			t.Errorf("lookups found %s", got)
		}
	}
	if twice.Load() > 0 {
		t.Errorf("%d questions were put while the same was under way", twice.Load())
	}
}

// TestAnAnswerUnderALostClaim is kept as evidence. What proves nothing by itself
// counts for nothing, what is conclusive settles.
func TestAnAnswerUnderALostClaim(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body    string
		state   outcome.State
		absents int // of the round that another process has made meanwhile
	}{
		"absent":  {nothing, outcome.StateUnresolved, 1},
		"pending": {working, outcome.StateUnresolved, 0}, // it was there
		"applied": {done, outcome.StateSuccess, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			up := newHeld(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, tt.body) })
			r.apply(t, profileFor(up.URL, patient(often+"\nabsence: {settles_after: 1s, confirmations: 1, spacing: 0s}"), ""))
			id := r.unresolved(t, "k1", lost)
			r.start(t)
			up.wait(t)
			r.exec(t, `
				UPDATE doubts SET claim = gen_random_uuid(), claimed_until = now() + interval '1 hour', absents = 1, last_absent_at = now()`)
			close(up.release)
			eventually(t, "a record", func() bool { return len(r.lookups(t, id)) == 1 })
			if c := r.get(t, id); c.State != tt.state {
				t.Errorf("the command is %s", c.State)
			}
			if n := r.count(t, `SELECT count(*) FROM doubts WHERE lookups = 1 AND rounds = 0 AND absents = $1 AND seen = ($1 = 0)`, tt.absents); n != 1 {
				t.Error("the round was counted, or what it saw was forgotten")
			}
		})
	}
}

// TestAnAnswerFromBeforeAResend: the process that asked stood still, another confirmed
// an absence, and the command was sent once more. A refusal says nothing of that.
func TestAnAnswerFromBeforeAResend(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newHeld(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, failed) })
	r.apply(t, profileFor(up.URL, patient(often), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	up.wait(t)
	r.step(t, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		return r.commands.Resend(t.Context(), tx, c, commands.ResendAbsence, "lookup", "another")
	})
	r.begin(t, id, lost)
	r.finish(t, id, lost)
	r.exec(t, `UPDATE doubts SET claim = gen_random_uuid(), claimed_until = now() + interval '1 hour'`)
	close(up.release)
	eventually(t, "a record", func() bool { return len(r.lookups(t, id)) == 1 })
	if c := r.get(t, id); c.State != outcome.StateUnresolved {
		t.Errorf("the command is %s", c.State)
	}
}

// TestAProcessThatDiesBetweenQuestionAndRecord: its claim ends, and another asks
// again.
func TestAProcessThatDiesBetweenQuestionAndRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newHeld(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	id := r.unresolved(t, "k1", lost)
	short := func(c *reconcile.EngineConfig) { c.Margin = 500 * time.Millisecond }
	dying := r.start(t, short)
	up.wait(t)
	cut, cancel := context.WithCancel(context.Background())
	cancel()
	dying.Stop(cut)
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE claimed_until > now()`); n != 1 {
		t.Fatal("the claim did not outlive its process")
	}
	close(up.release)
	newRigOn(t, testkit.Open(t, r.pool.Config().ConnString())).start(t, short)
	r.reaches(t, id, outcome.StateSuccess)
	if n := len(up.asked("k1")); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestAProcessThatStops puts on record what is answered meanwhile.
func TestAProcessThatStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newHeld(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, patient(often), ""))
	id := r.unresolved(t, "k1", lost)
	engine := r.start(t)
	up.wait(t)
	stopped := make(chan struct{})
	go func() {
		engine.Stop(context.Background())
		close(stopped)
	}()
	close(up.release)
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("it does not stop")
	}
	if c := r.get(t, id); c.State != outcome.StateSuccess {
		t.Errorf("the command is %s", c.State)
	}
}

// TestAProcessThatStopsWaitsForNoRate: a question that would have to wait for long
// is left to another process.
func TestAProcessThatStopsWaitsForNoRate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, `{}`) })
	r.apply(t, profileFor(up.URL, threeWays, "limits: {lookups: {rate: {per_second: 0.001, burst: 1}}}"))
	id := r.unresolved(t, "k1", ending{evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerUnclear, status: 500, reference: "ch_9"})
	engine := r.start(t)
	eventually(t, "a wait for the rate", func() bool {
		return r.count(t, `SELECT count(*) FROM doubts WHERE claimed_until > now() + interval '10 minutes'`) == 1
	})
	engine.Stop(context.Background())
	if got := r.findings(t, id); got != "absent unknown" {
		t.Errorf("lookups found %s", got)
	}
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE claim IS NULL AND next_at IS NOT NULL AND unknown = 1`); n != 1 {
		t.Error("the next round is not planned")
	}
}

// TestAPersonDecidesWhileALookupIsUnderWay: what it found against that is a
// conflict, and what agrees is kept in silence.
func TestAPersonDecidesWhileALookupIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body, events string
	}{
		"applied": {done, "command.unresolved command.cancelled command.conflict"},
		"pending": {working, "command.unresolved command.cancelled command.conflict"},
		"refused": {failed, "command.unresolved command.cancelled"},
		"absent":  {nothing, "command.unresolved command.cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			up := newHeld(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, tt.body) })
			r.apply(t, profileFor(up.URL, patient(often), ""))
			id := r.unresolved(t, "k1", lost)
			r.start(t)
			up.wait(t)
			r.step(t, id, func(tx pgx.Tx, _ commands.Locked) ([]commands.Moved, error) {
				_, moved, err := r.commands.Learn(t.Context(), tx, id, commands.Knowledge{
					Source: outcome.DecidedByOperator, Actor: "ann", Finding: outcome.FindingAbsent,
				})
				return moved, err
			})
			close(up.release)
			eventually(t, "a record", func() bool { return len(r.lookups(t, id)) == 1 })
			if c := r.get(t, id); c.State != outcome.StateCancelled || c.Reconciliation.NextLookupAt != nil {
				t.Errorf("the command is %s, %+v", c.State, c.Reconciliation)
			}
			if got := r.eventTypes(t, id); got != tt.events {
				t.Errorf("events %s", got)
			}
		})
	}
}

// TestARoundThatIsWantedDuringAnother follows it at once: the one under way may
// have asked too early.
func TestARoundThatIsWantedDuringAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked atomic.Int32
	up := newHeld(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, []string{nothing, done}[min(asked.Add(1)-1, 1)])
	})
	r.apply(t, profileFor(up.URL, patient(`schedule: {first_after: 0s, factor: 100, max_interval: 6h, give_up_after: 72h}`), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	up.wait(t)
	r.exec(t, `UPDATE doubts SET next_at = clock_timestamp()`)
	close(up.release)
	r.reaches(t, id, outcome.StateSuccess)
}

// TestNobodyAsksAboutACommandThatIsSettled, whoever wanted that.
func TestNobodyAsksAboutACommandThatIsSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	r.reaches(t, id, outcome.StateSuccess)
	r.exec(t, `UPDATE doubts SET next_at = now()`)
	eventually(t, "no round to come", func() bool {
		return r.count(t, `SELECT count(*) FROM doubts WHERE next_at IS NULL AND claim IS NULL`) == 1
	})
	if n := len(up.asked("k1")); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// TestALookupOfACommandThatAPersonHas is one lookup: no schedule follows it.
func TestALookupOfACommandThatAPersonHas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, nothing) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	id := r.unresolved(t, "k1", lost)
	r.step(t, id, func(tx pgx.Tx, c commands.Locked) ([]commands.Moved, error) {
		return nil, r.commands.HandToReview(t.Context(), tx, c, "test")
	})
	r.exec(t, `UPDATE doubts SET next_at = clock_timestamp()`)
	version := r.get(t, id).Version
	r.start(t)
	eventually(t, "a record", func() bool { return len(r.lookups(t, id)) == 1 })
	c := r.get(t, id)
	if c.Reconciliation.Phase != "review" || c.Reconciliation.NextLookupAt != nil || c.Version != version+1 {
		t.Errorf("version %d after %d, %+v", c.Version, version, c.Reconciliation)
	}
}

// TestTheDatabaseIsAwayAtTheRecord: what was found is kept and written once,
// whether the commits got lost before or after they took place.
func TestTheDatabaseIsAwayAtTheRecord(t *testing.T) {
	t.Parallel()
	for name, fate := range map[string]testkit.Fate{"request": {LoseRequest: true}, "reply": {LoseReply: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := testkit.DatabaseURL(t)
			proxy := testkit.NewProxy(t, url)
			there, through := newRigOn(t, testkit.Open(t, url)), newRigOn(t, testkit.Open(t, proxy.URL))
			up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, working) })
			there.apply(t, profileFor(up.URL, byKey(`schedule: {first_after: 0s, factor: 100, max_interval: 6h, give_up_after: 72h}`), ""))
			id := there.unresolved(t, "k1", lost)
			var lostCommits atomic.Int32
			proxy.OnCommit(func(c testkit.Commit) testkit.Fate {
				if c.Did("INSERT INTO lookups") && lostCommits.Add(1) <= 3 || c.Did("EXISTS (SELECT FROM lookups") && lostCommits.Add(1) <= 3 {
					return fate
				}
				return testkit.Fate{}
			})
			through.start(t)
			eventually(t, "a record", func() bool {
				return there.count(t, `SELECT count(*) FROM doubts WHERE rounds = 1 AND claim IS NULL`) == 1 && lostCommits.Load() > 3
			})
			if got := there.findings(t, id); got != "pending" {
				t.Errorf("lookups found %s", got)
			}
			if n := len(up.asked("k1")); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// TestARecordThatCannotBeWritten does not have the upstream asked without end: the
// schedule goes on.
func TestARecordThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(`schedule: {first_after: 0s, factor: 100, max_interval: 6h, give_up_after: 72h}`), ""))
	id := r.unresolved(t, "k1", lost)
	r.exec(t, `ALTER TABLE lookups ADD CONSTRAINT broken CHECK (round < 0)`)
	r.start(t, func(c *reconcile.EngineConfig) { c.Margin = time.Second })
	eventually(t, "the next round planned", func() bool {
		return r.count(t, `SELECT count(*) FROM doubts WHERE rounds = 1 AND unknown = 1 AND claim IS NULL AND next_at > now() + interval '1 minute'`) == 1
	})
	if n := len(up.asked("k1")); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if c := r.get(t, id); c.State != outcome.StateUnresolved {
		t.Errorf("the command is %s", c.State)
	}
}
