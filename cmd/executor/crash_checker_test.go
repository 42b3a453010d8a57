//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/client"
	"executor/commands"
	"executor/internal/simulator"
	"executor/outcome"
)

// intent is a command as its caller meant it. What the upstream saw is found by
// the token, which stands in the path of every request.
type intent struct {
	token      string
	kind       outcome.Idempotency
	method     string
	path       string // with its query
	body       []byte
	submission client.Submission
	cancel     bool          // asked for right after the acceptance
	after      time.Duration // of the submit: no attempt before it

	ids     []string // that its submits were answered with
	repeats int      // submits that were not answered
	lost    bool     // it went with the tail of a database that was not replicated
}

// record is a command as the database keeps it.
type record struct {
	ID           uuid.UUID
	Key          string
	State        outcome.State
	DecidedBy    string
	Sequence     int
	CreatedAt    time.Time
	FinalizedAt  *time.Time
	FirstOutcome *time.Time
	Outcomes     int // events of outcomes
	attempts     []attemptRecord
}

// attemptRecord is one attempt of it, with the newest late evidence.
type attemptRecord struct {
	CommandID    uuid.UUID
	Number       int
	Instance     string
	StartedAt    time.Time
	SendDeadline time.Time
	LatestEnd    time.Time
	EndedAt      *time.Time
	Evidence     outcome.Evidence
	Category     outcome.Category
	Boundary     outcome.Boundary
	SettledBy    string           // a confirmed absence came after it
	Late         outcome.Evidence // "" if there is none
	LateEffect   string
	Synthetic    bool // it stands for attempts whose record may be lost
}

// lost says that the process which made the attempt did not report its end in
// time, so that nobody can know how far it came. Of one whose gate stayed shut
// it is known.
func (a attemptRecord) lost() bool {
	return a.Category == outcome.CategoryExecutorLost && a.Evidence != outcome.EvidenceNotSent
}

// seen is the evidence with what came late laid over it.
func (a attemptRecord) seen() outcome.Evidence {
	if a.Late != "" {
		return a.Late
	}
	return a.Evidence
}

// recordsIn reads all commands.
func recordsIn(t testing.TB, pool *pgxpool.Pool) []*record {
	t.Helper()
	list := rowsOf[record](t, pool, `
		SELECT c.id, c.idempotency_key AS key, c.state, coalesce(c.outcome->>'decided_by', '') AS decided_by, c.sequence,
			c.created_at, c.finalized_at, e.first_outcome, coalesce(e.outcomes, 0) AS outcomes
		FROM commands c LEFT JOIN (
			SELECT command_id, min(at) AS first_outcome, count(*) AS outcomes FROM events WHERE sequence > 0 GROUP BY command_id
		) e ON e.command_id = c.id`)
	byID := make(map[uuid.UUID]*record, len(list))
	all := make([]*record, len(list))
	for i := range list {
		all[i], byID[list[i].ID] = &list[i], &list[i]
	}
	for _, a := range rowsOf[attemptRecord](t, pool, `
		SELECT a.command_id, a.number, a.instance, a.started_at, a.send_deadline, a.latest_end, a.ended_at,
			coalesce(a.evidence, '') AS evidence, a.category, a.boundary, a.settled_by,
			coalesce(f.evidence, '') AS late, coalesce(f.effect, '') AS late_effect, a.detail = $1 AS synthetic
		FROM attempts a LEFT JOIN LATERAL (
			SELECT evidence, effect FROM findings f
			WHERE f.command_id = a.command_id AND f.attempt_number = a.number AND f.source = 'late_evidence'
			ORDER BY f.id DESC LIMIT 1) f ON true
		ORDER BY a.command_id, a.number`, commands.DoubtDetail) {
		if c := byID[a.CommandID]; c != nil {
			c.attempts = append(c.attempts, a)
		}
	}
	return all
}

func rowsOf[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) []T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	rows, err := pool.Query(ctx, sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[T])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// slack is how much later than it left a request may be read by an upstream that
// shares a busy machine with everybody else.
const slack = 4 * time.Second

// account is everything about one command: what was meant, what is on record,
// what reached the upstream and what took effect there.
type account struct {
	*intent
	*record
	arrivals []simulator.Request
	effects  []simulator.Effect
	tail     time.Time // until then the record of what was sent may be lost
}

// real are the attempts that were made.
func (r *record) real() []attemptRecord {
	return slices.DeleteFunc(slices.Clone(r.attempts), func(one attemptRecord) bool { return one.Synthetic })
}

// faults lists what must not be.
func (a account) faults() []string {
	var list []string
	for _, rule := range []func() string{
		a.oneCommand, a.isFinal, a.attemptsInOrder, a.sameRequest, a.onRecord, a.notTwice, a.effectsOnce, a.stateIsTrue,
		a.doubtIsReal, a.nothingAfterOutcome,
	} {
		if text := rule(); text != "" {
			list = append(list, text)
		}
	}
	return list
}

// oneCommand: every submit with its key was answered with the one command.
func (a account) oneCommand() string {
	for _, id := range a.ids {
		if id != a.ID.String() {
			return fmt.Sprintf("its key was answered with the command %s", id)
		}
	}
	return ""
}

// isFinal: it ended, and each outcome was announced by one event.
func (a account) isFinal() string {
	switch {
	case !a.State.Final() || a.FinalizedAt == nil:
		return "it is not final"
	case a.Outcomes == 0 || a.Outcomes != a.Sequence:
		return fmt.Sprintf("sequence %d with %d events of outcomes", a.Sequence, a.Outcomes)
	}
	return ""
}

// attemptsInOrder: numbered without a gap, all ended, no two at once. One that
// was lost may be under way until its latest end. Where the database lost its tail, the
// record of one may be gone, though that of the next came late.
func (a account) attemptsInOrder() string {
	gone := 0
	for i, next := range a.attempts {
		if next.StartedAt.Before(a.tail) {
			gone = max(gone, next.Number-i-1)
		}
		if next.Number != i+1+gone || next.EndedAt == nil {
			return fmt.Sprintf("attempt %d of %d is numbered %d and ended at %v", i+1, len(a.attempts), next.Number, next.EndedAt)
		}
	}
	list := a.real()
	for i, next := range list[min(1, len(list)):] {
		before := list[i]
		end := *before.EndedAt
		if before.lost() && before.LatestEnd.After(end) {
			end = before.LatestEnd
		}
		if next.StartedAt.Before(end) {
			return fmt.Sprintf("attempt %d began %s before the end of the one before it", next.Number, end.Sub(next.StartedAt))
		}
	}
	return ""
}

// sameRequest: whatever arrived is what was accepted, byte for byte, under the
// same key each time.
func (a account) sameRequest() string {
	key := ""
	if a.kind == outcome.IdempotencyKeyed { // all operations of this kind send it in the header
		key = a.submission.Key
	}
	for i, r := range a.arrivals {
		switch {
		case r.Method != a.method || r.Path != a.path:
			return fmt.Sprintf("request %d was %s %s, not %s %s", i+1, r.Method, r.Path, a.method, a.path)
		case r.Key != key:
			return fmt.Sprintf("request %d carried the key %q, not %q", i+1, r.Key, key)
		case r.Complete && !bytes.Equal(r.Body, a.body), !bytes.HasPrefix(a.body, r.Body):
			return fmt.Sprintf("request %d carried %q, not %q", i+1, r.Body, a.body)
		}
	}
	return ""
}

// onRecord pairs, in their order, the attempts that may have been sent with what
// arrived. Each request belongs to one attempt, which was open before it left and
// let nothing out after its send deadline. An attempt that was lost may have
// been sent or not; any other arrived if, and only if, it says that it was sent.
func (a account) onRecord() string {
	left := slices.DeleteFunc(slices.Clone(a.arrivals), func(r simulator.Request) bool { return r.Time.Before(a.tail) })
	for _, one := range a.real() {
		if one.StartedAt.Before(a.tail) {
			continue
		}
		arrived := len(left) > 0 && !left[0].Time.Before(one.StartedAt) && !left[0].Time.After(one.SendDeadline.Add(slack))
		switch {
		case one.seen() == outcome.EvidenceNotSent:
		case arrived:
			left = left[1:]
		case !one.lost() || one.Late.HasStatus():
			return fmt.Sprintf("attempt %d (%s) never arrived", one.Number, one.seen())
		}
	}
	if len(left) > 0 {
		return fmt.Sprintf("the request of %s belongs to no attempt that was open then and may have been sent", left[0].Time.Format(time.StampMicro))
	}
	return ""
}

// notTwice: what is not safe to repeat is sent again only after the upstream
// said that it did nothing, or a confirmed absence or a person did, and nothing was
// done.
func (a account) notTwice() string {
	if a.kind != outcome.IdempotencyNone {
		return ""
	}
	for i, r := range a.arrivals[:max(len(a.arrivals)-1, 0)] {
		acted := slices.ContainsFunc(a.effects, func(e simulator.Effect) bool { return e.Request == r.Number })
		if acted || (r.Status != 429 && !a.settledBefore(a.arrivals[i+1].Time)) {
			return fmt.Sprintf("sent again after request %d, which was answered %d and acted: %t", i+1, r.Status, acted)
		}
	}
	return ""
}

// settledBefore says that the last attempt before that moment which may have acted
// was found to have done nothing.
func (a account) settledBefore(then time.Time) bool {
	for _, one := range slices.Backward(a.attempts) {
		if one.StartedAt.Before(then) && one.EndedAt != nil && one.EndedAt.Before(then) && one.Boundary != outcome.BoundaryNotCrossed {
			return one.SettledBy != ""
		}
	}
	return false
}

// effectsOnce: nothing that counts took place twice.
func (a account) effectsOnce() string {
	counts := a.kind == outcome.IdempotencyNone || a.kind == outcome.IdempotencyKeyed
	if counts && len(a.effects) > 1 {
		return fmt.Sprintf("it took effect %d times", len(a.effects))
	}
	return ""
}

// stateIsTrue: a success took place, what was rejected or cancelled did not.
func (a account) stateIsTrue() string {
	acted := len(a.effects) > 0
	if a.kind == outcome.IdempotencySafe { // its effect is its answer
		acted = slices.ContainsFunc(a.arrivals, func(r simulator.Request) bool { return r.Status == 200 })
	}
	switch {
	case a.State == outcome.StateSuccess && !acted:
		return "success, but it did not take effect"
	case a.State == outcome.StateRejected && acted, a.State == outcome.StateCancelled && acted && a.kind != outcome.IdempotencySafe:
		return "called undone, but it took effect"
	}
	return ""
}

// doubtIsReal: unresolved is not where unfinished work is put away.
func (a account) doubtIsReal() string {
	doubtful := slices.ContainsFunc(a.attempts, func(one attemptRecord) bool { return one.Boundary != outcome.BoundaryNotCrossed })
	if a.State == outcome.StateUnresolved && !doubtful {
		return "unresolved, but no attempt may have acted"
	}
	return ""
}

// nothingAfterOutcome: once an outcome was announced, nothing more is sent, unless
// what was sent before is found to have done nothing.
func (a account) nothingAfterOutcome() string {
	if a.FirstOutcome == nil {
		return ""
	}
	for i, r := range a.arrivals {
		if late := r.Time.Sub(*a.FirstOutcome); late > slack && !a.settledBefore(r.Time) {
			return fmt.Sprintf("request %d arrived %s after the outcome", i+1, late)
		}
	}
	return ""
}

// String is the whole account, for a fault's report.
func (a account) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, %s by %s, %q, %d submits unanswered", a.kind, a.token, a.State, a.DecidedBy, a.submission.Headers["Sim-Behavior"], a.repeats)
	for _, one := range a.attempts {
		fmt.Fprintf(&b, "\n  attempt %d of %s: %s to %v, send by %s, %s %s %s", one.Number, one.Instance, one.StartedAt.Format(time.StampMicro),
			one.EndedAt, one.SendDeadline.Format(time.StampMicro), one.Evidence, one.Category, one.Boundary)
		if one.Late != "" {
			fmt.Fprintf(&b, ", late %s (%s)", one.Late, one.LateEffect)
		}
	}
	for _, r := range a.arrivals {
		fmt.Fprintf(&b, "\n  request %d: %s, answered %d, %d bytes", r.Number, r.Time.Format(time.StampMicro), r.Status, r.AnswerBytes)
	}
	for _, e := range a.effects {
		fmt.Fprintf(&b, "\n  effect of request %d: %s", e.Request, e.Time.Format(time.StampMicro))
	}
	return b.String()
}

// accounts brings together, for each intent, what is known of it. What belongs
// to no intent is a fault of its own.
func accounts(t testing.TB, intents []*intent, records []*record, sim *simulator.Simulator) []account {
	t.Helper()
	byKey := make(map[string]*record, len(records))
	for _, r := range records {
		if byKey[r.Key] != nil {
			t.Errorf("key %q has two commands", r.Key)
		}
		byKey[r.Key] = r
	}
	arrivals, effects := map[string][]simulator.Request{}, map[string][]simulator.Effect{}
	safe := map[string]bool{}
	for _, in := range intents {
		safe[in.token] = in.kind == outcome.IdempotencySafe
	}
	for _, r := range sim.Requests("") {
		if r.Kind == simulator.KindLookup && !safe[tokenOf(r.Path)] { // a question about it, not the command
			continue
		}
		arrivals[tokenOf(r.Path)] = append(arrivals[tokenOf(r.Path)], r)
	}
	for _, e := range sim.Effects("") {
		effects[tokenOf(e.Path)] = append(effects[tokenOf(e.Path)], e)
	}
	var list []account
	for _, in := range intents {
		r := byKey[in.submission.Key]
		if in.lost && r == nil {
			delete(arrivals, in.token)
			continue
		}
		if r == nil {
			t.Errorf("%s was accepted as %v and is lost", in.token, in.ids)
			continue
		}
		list = append(list, account{intent: in, record: r, arrivals: arrivals[in.token], effects: effects[in.token]})
		delete(byKey, r.Key)
		delete(arrivals, in.token)
	}
	for key := range byKey {
		t.Errorf("nobody meant the command with key %q", key)
	}
	for token := range arrivals {
		t.Errorf("nobody meant the requests for %q", token)
	}
	return list
}

// mostFaults bounds a report: where much is wrong, the first ones tell.
const mostFaults = 10

// check reports every fault of every account, and how often each state came out.
func check(t testing.TB, list []account) map[outcome.State]int {
	t.Helper()
	faulty := 0
	states := map[outcome.State]int{}
	for _, a := range list {
		states[a.State]++
		faults := a.faults()
		if len(faults) == 0 {
			continue
		}
		if faulty++; faulty <= mostFaults {
			t.Errorf("%s\n%s", strings.Join(faults, "; "), a)
		}
	}
	if faulty > mostFaults {
		t.Errorf("and %d more commands with faults", faulty-mostFaults)
	}
	return states
}

// count counts the attempts of which something holds.
func count(list []account, ok func(account, attemptRecord) bool) int {
	n := 0
	for _, a := range list {
		for _, one := range a.attempts {
			if ok(a, one) {
				n++
			}
		}
	}
	return n
}

// TestTheCheckerSeesFaults checks the checker: a good account has no fault, and
// each damage to it is found.
func TestTheCheckerSeesFaults(t *testing.T) {
	start := time.Now().Truncate(time.Second)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	good := func() account {
		id := uuid.New()
		in := &intent{
			token: "t-1", kind: outcome.IdempotencyNone, method: "POST", path: "/v1/accounts/t-1/payments", body: []byte(`{}`),
			submission: client.Submission{Key: "key-t-1"}, ids: []string{id.String()},
		}
		arrival := func(number int64, seconds, status int) simulator.Request {
			return simulator.Request{Number: number, Time: at(seconds).Add(time.Millisecond), Method: "POST", Path: in.path, Body: in.body, Complete: true, Status: status}
		}
		attempt := func(number, seconds int, boundary outcome.Boundary) attemptRecord {
			return attemptRecord{
				Number: number, StartedAt: at(seconds), SendDeadline: at(seconds + 5), LatestEnd: at(seconds + 13),
				EndedAt: new(at(seconds + 1)), Evidence: outcome.EvidenceResponseReceived, Category: outcome.CategoryNone, Boundary: boundary,
			}
		}
		return account{intent: in, record: &record{
			ID: id, Key: "key-t-1", State: outcome.StateSuccess, Sequence: 1, Outcomes: 1, FinalizedAt: new(at(21)), FirstOutcome: new(at(21)),
			attempts: []attemptRecord{attempt(1, 0, outcome.BoundaryNotCrossed), attempt(2, 20, outcome.BoundaryCrossed)},
		}, arrivals: []simulator.Request{arrival(1, 0, 429), arrival(2, 20, 201)}, effects: []simulator.Effect{{Request: 2}}}
	}
	if faults := good().faults(); len(faults) > 0 {
		t.Fatalf("the good account has faults: %q", faults)
	}
	for want, damage := range map[string]func(*account){
		"answered with the command":    func(a *account) { a.ids = append(a.ids, uuid.NewString()) },
		"not final":                    func(a *account) { a.State = outcome.StatePending },
		"events of outcomes":           func(a *account) { a.Outcomes = 2 },
		"is numbered 3":                func(a *account) { a.attempts[1].Number = 3 },
		"before the end of the one":    func(a *account) { a.attempts[0].EndedAt = new(at(22)) },
		"not POST":                     func(a *account) { a.arrivals[1].Method = "PUT" },
		"carried the key":              func(a *account) { a.arrivals[1].Key = "key-t-1" },
		"carried \"{}x\"":              func(a *account) { a.arrivals[1].Body = []byte("{}x") },
		"attempt 2 (response_received": func(a *account) { a.arrivals = a.arrivals[:1] },
		"belongs to no attempt":        func(a *account) { a.attempts[1].Evidence = outcome.EvidenceNotSent },
		"never arrived":                func(a *account) { a.arrivals[1].Time = at(40) }, // after the send deadline
		"sent again after request 1":   func(a *account) { a.arrivals[0].Status = 503 },
		"and acted: true":              func(a *account) { a.effects = append(a.effects, simulator.Effect{Request: 1}) },
		"took effect 2 times":          func(a *account) { a.effects = append(a.effects, simulator.Effect{Request: 2}) },
		"did not take effect":          func(a *account) { a.effects = nil },
		"called undone":                func(a *account) { a.State = outcome.StateCancelled },
		"no attempt may have acted": func(a *account) {
			a.State, a.attempts[1].Boundary = outcome.StateUnresolved, outcome.BoundaryNotCrossed
		},
		"after the outcome": func(a *account) { a.FirstOutcome = new(at(10)) },
	} {
		a := good()
		damage(&a)
		if faults := strings.Join(a.faults(), "; "); !strings.Contains(faults, want) {
			t.Errorf("want a fault with %q, got %q", want, faults)
		}
	}
}
