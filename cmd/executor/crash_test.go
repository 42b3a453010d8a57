//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"executor/internal/testkit"
	"executor/outcome"
)

// commandsInTrouble is how many commands each of these tests is in the middle of.
const commandsInTrouble = 200

// lasts is how long a trouble itself lasts.
func lasts(d time.Duration) { <-time.After(d) }

// all says that each of the states came out, as the commands are made for.
func all(t *testing.T, states map[outcome.State]int) {
	t.Helper()
	t.Logf("states: %v", states)
	for _, s := range []outcome.State{outcome.StateSuccess, outcome.StateRejected, outcome.StateUnresolved, outcome.StateCancelled} {
		if states[s] == 0 {
			t.Errorf("no command ended %s, so nothing was seen of that", s)
		}
	}
}

func lostAttempts(list []account) int {
	return count(list, func(_ account, one attemptRecord) bool { return one.lost() })
}

// TestOneProcessIsKilled: the other one takes over what the dead one had under
// way, sends nothing twice that must not be, and finishes all of it.
func TestOneProcessIsKilled(t *testing.T) {
	t.Parallel()
	// An attempt that long outlasts its takeover: nothing may start beside it.
	f := startFleet(t, testkit.Database(t), conditions{total: 20 * time.Second})
	l := f.load(commandsInTrouble, 20*time.Millisecond)
	l.reached(commandsInTrouble / 3)
	victim := f.node(0)
	l.onTheWire(victim, "commit,stall=3s,times=1", outcome.IdempotencyNone, outcome.IdempotencyKeyed, outcome.IdempotencyNatural)
	l.onTheWire(victim, "stall=3s,times=1", outcome.IdempotencyNone, outcome.IdempotencyKeyed, outcome.IdempotencySafe)
	victim.Kill()
	list := l.settled(time.Now())
	all(t, check(t, list))
	if lostAttempts(list) == 0 {
		t.Error("no attempt was lost with the process, so nothing was taken over")
	}
}

// TestOneProcessStandsStill: while it does, the other one takes over. When it
// goes on, it sends nothing for which the time is over, and what it learns too late
// is kept as late evidence.
func TestOneProcessStandsStill(t *testing.T) {
	t.Parallel()
	f := startFleet(t, testkit.Database(t), conditions{})
	l := f.load(commandsInTrouble, 195*time.Millisecond)
	l.reached(commandsInTrouble / 8)
	sleeper := f.node(0)
	l.onTheWire(sleeper, "commit,stall=3s", outcome.IdempotencyNone, outcome.IdempotencyNone, outcome.IdempotencyKeyed, outcome.IdempotencyNatural)
	l.onTheWire(sleeper, "stall=3s,times=1", outcome.IdempotencyNone, outcome.IdempotencyKeyed, outcome.IdempotencySafe)
	sleeper.Signal(syscall.SIGSTOP)
	lasts(30 * time.Second)
	sleeper.Signal(syscall.SIGCONT)
	f.saysLate(sleeper)
	list := l.settled(time.Now())
	all(t, check(t, list))
	late := count(list, func(_ account, one attemptRecord) bool { return one.lost() && one.Late != "" })
	t.Logf("%d attempts lost, %d of them with late evidence", lostAttempts(list), late)
	if late == 0 {
		t.Error("no late evidence, though the answers came while the process stood still")
	}
	for _, a := range list {
		for _, one := range a.attempts {
			if one.lost() && one.Instance == sleeper.instance && one.Late == "" {
				t.Errorf("attempt %d was lost, and its process lives and says nothing of it:\n%s", one.Number, a)
			}
		}
	}
}

// saysLate waits until a process has said what it saw of the attempts that were taken
// over from it.
func (f *fleet) saysLate(n *node) {
	f.t.Helper()
	f.until(time.Now().Add(aMinute), "late evidence of every attempt that was taken over", func() (bool, string) {
		var silent int
		err := f.pool.QueryRow(context.Background(), `
			SELECT count(*) FROM attempts a WHERE instance = $1 AND category = 'executor_lost' AND evidence <> 'not_sent' AND NOT EXISTS (
				SELECT FROM findings f WHERE f.command_id = a.command_id AND f.attempt_number = a.number AND f.source = 'late_evidence')`,
			n.instance).Scan(&silent)
		return err == nil && silent == 0, fmt.Sprintf("%d without, %v", silent, err)
	})
}

// TestTheQueueIsDeleted: the queue's rows carry the work and no promise.
func TestTheQueueIsDeleted(t *testing.T) {
	t.Parallel()
	f := startFleet(t, testkit.Database(t), conditions{inFlight: 12})
	l := f.load(commandsInTrouble, 0)
	deleted := int64(0)
	for _, n := range []int{commandsInTrouble / 4, commandsInTrouble / 2, commandsInTrouble} {
		l.reached(n)
		tag, err := f.pool.Exec(context.Background(), `DELETE FROM river_job`)
		if err != nil {
			t.Fatal(err)
		}
		deleted += tag.RowsAffected()
	}
	list := l.settled(time.Now())
	all(t, check(t, list))
	if deleted == 0 {
		t.Error("there was nothing in the queue to delete")
	}
	if n := lostAttempts(list); n > 0 {
		t.Errorf("%d attempts were lost, with all processes alive", n)
	}
}

// TestTheDatabaseIsAway: submits are told to come again, the answers that came
// in meanwhile are kept, and everything goes on without hands.
func TestTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	server := testkit.Cluster(t)
	f := startFleet(t, server.Database(), conditions{})
	l := f.load(commandsInTrouble, 100*time.Millisecond)
	l.reached(commandsInTrouble / 4)
	for i := range f.nodes {
		l.onTheWire(f.node(i), "commit,stall=3s", outcome.IdempotencyNone, outcome.IdempotencyKeyed, outcome.IdempotencyNatural)
	}
	server.Stop()
	away := time.Now()
	for _, n := range f.nodes {
		n.answers(t, "/readyz", http.StatusServiceUnavailable)
		n.answers(t, "/livez", http.StatusOK)
		n.refusesForNow(t, f)
	}
	lasts(time.Until(away.Add(20 * time.Second)))
	server.Start()
	for _, n := range f.nodes {
		n.answers(t, "/readyz", http.StatusOK)
	}
	list := l.settled(time.Now())
	all(t, check(t, list))
	if n := lostAttempts(list); n > 0 {
		t.Errorf("%d attempts were lost, with all processes alive", n)
	}
	for _, n := range f.nodes {
		select {
		case <-n.ended:
			t.Errorf("%s ended by itself", n.instance)
		default:
		}
	}
}

// answers waits until a health call is answered with status.
func (n *node) answers(t *testing.T, path string, status int) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for bound := time.Now().Add(aMinute); ; <-tick.C {
		res, err := http.Get(n.url + path)
		got := 0
		if err == nil {
			got = res.StatusCode
			_ = res.Body.Close()
		}
		if got == status {
			return
		}
		if time.Now().After(bound) {
			t.Fatalf("%s of %s is answered %d (%v), want %d", path, n.instance, got, err, status)
		}
	}
}

// refusesForNow submits something, which cannot be accepted now.
func (n *node) refusesForNow(t *testing.T, f *fleet) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, n.url+"/v1/commands", strings.NewReader(`{"upstream":"ledger","operation":"none","params":{"account":"x"},"body":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+f.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "refused-for-now-"+n.instance)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Code string }
	_ = json.Unmarshal(text, &problem)
	if res.StatusCode != http.StatusServiceUnavailable || problem.Code != "unavailable" ||
		res.Header.Get("Content-Type") != "application/problem+json" || res.Header.Get("Retry-After") == "" {
		t.Errorf("a submit without a database: %d %v %s", res.StatusCode, res.Header, text)
	}
}

// breath is how long the end of a process may take on a busy machine.
const breath = 12 * time.Second

// drains ends a process with SIGTERM and says how it ended.
func (n *node) drains(t *testing.T, bound time.Duration) int {
	t.Helper()
	began := time.Now()
	n.Signal(syscall.SIGTERM)
	code := n.Wait()
	// The bound is a promise to whoever would kill the process after it. Where it does
	// not hold, the upstream's silence or the database's would take longer than this.
	if took := time.Since(began); took > bound+breath {
		t.Errorf("%s took %s to drain, which is bound to %s", n.instance, took, bound)
	}
	return code
}

// TestSIGTERMUnderLoad: what is on the wire is finished, the rest is handed to
// the other process, and when that one is told to stop as well, to the next.
func TestSIGTERMUnderLoad(t *testing.T) {
	t.Parallel()
	const drain = 12 * time.Second
	f := startFleet(t, testkit.Database(t), conditions{drain: drain, inFlight: 24})
	l := f.load(commandsInTrouble, 22*time.Millisecond)
	for i, accepted := range []int{commandsInTrouble / 3, commandsInTrouble * 2 / 3} {
		l.reached(accepted)
		n := f.node(i)
		l.onTheWire(n, "commit,stall=2s", outcome.IdempotencyNone, outcome.IdempotencyKeyed)
		if code := n.drains(t, drain); code != 0 {
			t.Errorf("%s ended with code %d", n.instance, code)
		}
	}
	f.start(0)
	list := l.settled(time.Now())
	all(t, check(t, list))
	if n := lostAttempts(list); n > 0 {
		t.Errorf("%d attempts were lost, though every process had time to finish", n)
	}
}

// TestSIGTERMWhileTheUpstreamStalls: the bound holds for the worst upstream too;
// what was on the wire is then taken over as lost.
func TestSIGTERMWhileTheUpstreamStalls(t *testing.T) {
	t.Parallel()
	const drain = 4 * time.Second
	f := startFleet(t, testkit.Database(t), conditions{drain: drain, total: 20 * time.Second})
	l := f.load(40, 10*time.Millisecond)
	n := f.node(0)
	stalled := l.onTheWire(n, "stall,times=1", outcome.IdempotencyNone, outcome.IdempotencyNone, outcome.IdempotencyKeyed, outcome.IdempotencyNatural)
	if code := n.drains(t, drain); code != exitFailure {
		t.Errorf("ended with code %d, want %d: it left attempts on the wire", code, exitFailure)
	}
	list := l.settled(time.Now())
	check(t, list)
	for _, a := range list {
		if !slices.Contains(stalled, a.intent) {
			continue
		}
		if !a.attempts[0].lost() {
			t.Errorf("its first attempt was not taken over as lost: %s", a)
		}
		want := outcome.StateSuccess
		if a.kind == outcome.IdempotencyNone {
			want = outcome.StateUnresolved
		}
		if a.State != want {
			t.Errorf("want it %s: %s", want, a)
		}
	}
}

// TestSIGTERMWhileTheDatabaseIsSilent: the bound holds also where nothing can be
// recorded and no connection even breaks.
func TestSIGTERMWhileTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	const drain = 6 * time.Second
	f := startFleet(t, testkit.Database(t), conditions{drain: drain})
	f.node(0).Kill()
	proxy := testkit.NewProxy(t, f.env["EXECUTOR_DATABASE_URL"])
	f.env["EXECUTOR_DATABASE_URL"] = proxy.URL
	n := f.start(0)
	l := f.load(40, 10*time.Millisecond)
	stalled := l.onTheWire(n, "commit,stall=2s", outcome.IdempotencyNone, outcome.IdempotencyKeyed)
	proxy.Stall()
	if code := n.drains(t, drain); code != exitFailure {
		t.Errorf("ended with code %d, want %d: it left attempts without their end", code, exitFailure)
	}
	list := l.settled(time.Now())
	check(t, list)
	for _, a := range list { // over a new connection the end may still have been recorded
		if !slices.Contains(stalled, a.intent) {
			continue
		}
		if first := a.attempts[0]; !first.lost() && first.Evidence != outcome.EvidenceResponseReceived {
			t.Errorf("its first attempt was neither taken over as lost nor recorded: %s", a)
		}
	}
}
