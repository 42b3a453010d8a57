package attempts_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/internal/testkit"
	"executor/outcome"
)

// shortLease is a lease time under which a takeover takes seconds.
const shortLease = 3 * time.Second

// How long an attempt may take: ample where that does not matter, short where
// its end is waited for.
const (
	ample = 20 * time.Second
	short = 3 * time.Second
)

// brief is a profile whose attempts may take so long. extra are more lines of its
// retry section, or of its top level.
func brief(name, baseURL string, total time.Duration, extra string) string {
	return fmt.Sprintf(`version: 1
upstream: %s
base_url: %s
egress: {allow: [127.0.0.0/8]}
timeouts: {connect: %[3]s, tls: %[3]s, response_header: %[3]s, total: %[3]s}
deadline: 2m
retry:
  max_attempts: 4
  min_attempt_window: 100ms
  backoff: {initial: 20ms, max: 100ms, jitter: none}
%s
operations:
  pay:
    method: POST
    path: /payments
    body: json
    idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h}
    result: {reference: json.id}
  charge: {method: POST, path: /charges, body: json, result: {reference: json.id}}
`, name, baseURL, total, extra)
}

// mortal is a process whose way to the database can be cut.
type mortal struct {
	*process
	proxy *testkit.Proxy
}

// startMortal starts a process that stops within moments, whatever state its
// database is in.
func startMortal(t testing.TB, pool *pgxpool.Pool, o options) *mortal {
	t.Helper()
	proxy := testkit.NewProxy(t, pool.Config().ConnString())
	o.leaseTTL, o.drain = shortLease, time.Second
	return &mortal{startProcess(t, testkit.Open(t, proxy.URL), o), proxy}
}

// TestDeadProcess: what a dead process had under way is closed as lost. A keyed
// command is sent again, under its key and once nothing of the lost attempt can
// be under way; any other stays in doubt. What it had in line is handed over.
func TestDeadProcess(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, n int) {
		if n == 1 {
			hang(r, nil)
			return
		}
		reply(w, 201, paid)
	})
	a := startMortal(t, pool, options{})
	a.apply(t, brief("up", up.URL, short, "limits: {max_in_flight: 2}"))
	keyed := a.submit(t, order("keyed", "pay"))
	unkeyed := a.submit(t, order("unkeyed", "charge"))
	eventually(t, "both requests", func() bool { return len(up.all()) == 2 })
	waiting := a.submit(t, order("waiting", "pay"))
	a.proxy.Cut()

	b := startProcess(t, pool, options{leaseTTL: shortLease})
	if c := b.final(t, unkeyed.ID); c.State != outcome.StateUnresolved || c.Outcome.StoppedBy != outcome.ReasonAmbiguous || c.Outcome.SafeToResubmit {
		t.Errorf("unkeyed ended %s, stopped by %s", c.State, c.Outcome.StoppedBy)
	}
	if c := b.final(t, keyed.ID); c.State != outcome.StateSuccess || c.Outcome.DecidedBy != outcome.DecidedByAttempt {
		t.Errorf("keyed ended %s by %s", c.State, c.Outcome.DecidedBy)
	}
	for id, want := range map[uuid.UUID]int{keyed.ID: 2, unkeyed.ID: 1} {
		list := b.attempts(t, id)
		if len(list) != want || list[0].Evidence != outcome.EvidenceSentNoResponse || list[0].Category != outcome.CategoryExecutorLost {
			t.Errorf("attempts on record: %s", evidences(list))
		}
		if list[0].Instance == list[len(list)-1].Instance && want > 1 {
			t.Errorf("the dead process sent again")
		}
	}
	// The upstream hangs for the first request of this order too: it ends by the
	// attempt's own timeout and goes on under its key.
	if c := b.final(t, waiting.ID); c.State != outcome.StateSuccess {
		t.Errorf("waiting ended %s", c.State)
	}
	up.verify(t, pool)
}

// paused is a process that stops in the middle of its attempts, loses its lease
// meanwhile and comes back.
type paused struct {
	*mortal
	resume chan struct{}
	once   sync.Once
}

// comeBack lets it go on with what it had in hand.
func (p *paused) comeBack() {
	p.once.Do(func() {
		p.proxy.Mend()
		close(p.resume)
	})
}

// startPaused starts a process that stops when an attempt was begun, or when its
// answer was seen, as the sets say. Commands in neither run through.
func startPaused(t testing.TB, pool *pgxpool.Pool, begun, seen *set) *paused {
	t.Helper()
	p := &paused{resume: make(chan struct{})}
	at := func(s *set) func(uuid.UUID) {
		return func(id uuid.UUID) {
			if s.has(id) {
				<-p.resume
			}
		}
	}
	p.mortal = startMortal(t, pool, options{begun: at(begun), seen: at(seen)})
	t.Cleanup(p.comeBack)
	return p
}

// set is a set of commands that a fault hits once each; every is all of them.
type set struct {
	mu    sync.Mutex
	every bool
	met   map[uuid.UUID]bool
}

// has says whether the command is in the set, and remembers that it was asked.
func (s *set) has(id uuid.UUID) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met == nil {
		s.met = make(map[uuid.UUID]bool)
	}
	if s.met[id] {
		return false
	}
	s.met[id] = true
	return s.every
}

// add puts a command into a set whose members panic.
func (s *set) add(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.met == nil {
		s.met = make(map[uuid.UUID]bool)
	}
	s.met[id] = true
}

// strike panics over a member.
func (s *set) strike(id uuid.UUID) {
	s.mu.Lock()
	hit := s.met[id]
	s.mu.Unlock()
	if hit {
		panic("struck")
	}
}

func (s *set) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.met)
}

// effects are what became of late evidence about a command.
func effects(t testing.TB, pool *pgxpool.Pool, id uuid.UUID) []string {
	t.Helper()
	list := query[struct{ Effect string }](t, pool, `
		SELECT effect FROM findings WHERE command_id = $1 AND source = 'late_evidence' ORDER BY id`, id)
	words := make([]string, len(list))
	for i, e := range list {
		words[i] = e.Effect
	}
	return words
}

// TestZombie: a process that comes back after its attempts were taken over
// brings late evidence, which is used as far as it may be.
func TestZombie(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, func(w http.ResponseWriter, _ *http.Request, order string, n int) {
		switch {
		case n > 1:
			reply(w, 503, `{}`)
		case order == "refused", order == "denied":
			reply(w, 422, `{"code":"no"}`)
		case order == "declined":
			reply(w, 429, `{}`)
		case order == "poison":
			reply(w, 201, `{"id":"poison"}`)
		default:
			reply(w, 201, paid)
		}
	})
	refuseBodies(t, pool, "findings", "INSERT", "body")
	seen := &set{every: true}
	a := startPaused(t, pool, nil, seen)
	a.apply(t, brief("up", up.URL, short, ""))
	slow := brief("slow", up.URL, time.Minute, "")
	a.apply(t, slow)
	submit := func(name, upstream, operation string) uuid.UUID {
		s := order(name, operation)
		s.Upstream = upstream
		return a.submit(t, s).ID
	}
	pending := submit("pending", "slow", "pay")
	executing := submit("executing", "up", "pay")
	unresolved := submit("unresolved", "slow", "charge")
	refused := submit("refused", "slow", "charge")
	declined := submit("declined", "slow", "charge")
	absorbed := submit("absorbed", "slow", "charge")
	denied := submit("denied", "slow", "charge")
	poison := submit("poison", "slow", "charge") // the database refuses what was seen of it
	all := []uuid.UUID{pending, executing, unresolved, refused, declined, absorbed, denied, poison}
	eventually(t, "all answers", func() bool { return seen.size() == len(all) })
	a.proxy.Cut()

	late := make(chan struct{}) // until then the second attempt is under way
	b := startProcess(t, pool, options{leaseTTL: shortLease, seen: func(id uuid.UUID) {
		if id == executing {
			<-late
		}
	}})
	for _, id := range []uuid.UUID{unresolved, refused, declined, absorbed, denied, poison} {
		if c := b.final(t, id); c.State != outcome.StateUnresolved {
			t.Errorf("after the takeover %s is %s", c.Key, c.State)
		}
	}
	settle(t, b, absorbed, outcome.StateCancelled)
	settle(t, b, denied, outcome.StateSuccess)
	eventually(t, "the second attempt", func() bool { return len(up.of("executing")) == 2 })
	a.comeBack()
	for _, id := range all {
		eventually(t, "late evidence", func() bool { return len(effects(t, pool, id)) > 0 })
	}
	close(late)

	for _, tt := range []struct {
		id     uuid.UUID
		effect commands.Effect
		state  outcome.State
		by     outcome.DecidedBy
		stop   outcome.Reason
	}{
		{pending, commands.EffectSettled, outcome.StateSuccess, outcome.DecidedByLateEvidence, outcome.ReasonApplied},
		{executing, commands.EffectKept, outcome.StateSuccess, outcome.DecidedByAttempt, outcome.ReasonApplied},
		{unresolved, commands.EffectSettled, outcome.StateSuccess, outcome.DecidedByLateEvidence, outcome.ReasonApplied},
		{refused, commands.EffectSettled, outcome.StateRejected, outcome.DecidedByLateEvidence, outcome.ReasonRefused},
		{declined, commands.EffectSettled, outcome.StateCancelled, outcome.DecidedByLateEvidence, outcome.ReasonStatus(429)},
		{absorbed, commands.EffectConflict, outcome.StateCancelled, outcome.DecidedByOperator, ""},
		{denied, commands.EffectConflict, outcome.StateSuccess, outcome.DecidedByOperator, ""},
		{poison, commands.EffectSettled, outcome.StateSuccess, outcome.DecidedByLateEvidence, outcome.ReasonApplied},
	} {
		c := b.final(t, tt.id)
		if got := effects(t, pool, tt.id); len(got) != 1 || got[0] != string(tt.effect) {
			t.Errorf("%s: late evidence had the effects %v, want %s", c.Key, got, tt.effect)
		}
		if c.State != tt.state || c.Outcome.DecidedBy != tt.by || (tt.stop != "" && c.Outcome.StoppedBy != tt.stop) {
			t.Errorf("%s ended %s by %s, stopped by %q; want %s by %s, %q", c.Key, c.State, c.Outcome.DecidedBy, c.Outcome.StoppedBy, tt.state, tt.by, tt.stop)
		}
		if c.State == outcome.StateSuccess && tt.id != denied && tt.id != poison && (c.Outcome.Result.Reference != "pay_9" || string(c.Outcome.Result.Body) != paid) {
			t.Errorf("%s has the result %+v", c.Key, c.Outcome.Result)
		}
	}
	if n := count(t, pool, `SELECT count(*) AS n FROM events WHERE command_id = ANY($1) AND type = 'command.conflict'`, []uuid.UUID{absorbed, denied}); n != 2 {
		t.Errorf("%d conflict events", n)
	}
	up.verify(t, pool)
}

// settle ends an unresolved command as a person would.
func settle(t testing.TB, p *process, id uuid.UUID, state outcome.State) {
	t.Helper()
	ctx := context.Background()
	tx, err := p.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	locked, err := p.commands.Lock(ctx, tx, []uuid.UUID{id})
	if err != nil {
		t.Fatal(err)
	}
	c := locked[id]
	_, err = p.commands.Move(ctx, tx, []commands.Move{{
		Command: c, To: state, Attempts: c.Attempts, Actor: "operator",
		Outcome: &commands.Final{Outcome: outcome.Outcome{State: state, NextAction: outcome.NextActionNone}, DecidedBy: outcome.DecidedByOperator},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestZombieBeforeTheFirstByte: a process that stood still between begin and
// first byte, until others took its attempts over, sends nothing. That it did
// not is late evidence too.
func TestZombieBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, always(422, `{"code":"no"}`))
	begun := &set{every: true}
	a := startPaused(t, pool, begun, nil)
	a.apply(t, brief("up", up.URL, short, ""))
	unkeyed := a.submit(t, order("unkeyed", "charge")).ID
	keyed := a.submit(t, order("keyed", "pay")).ID
	eventually(t, "both begun", func() bool { return begun.size() == 2 })
	a.proxy.Cut()

	late := make(chan struct{}) // until then the second attempt is under way
	b := startProcess(t, pool, options{leaseTTL: shortLease, seen: func(uuid.UUID) { <-late }})
	if c := b.final(t, unkeyed); c.State != outcome.StateUnresolved {
		t.Errorf("after the takeover it is %s", c.State)
	}
	eventually(t, "the keyed command's second attempt", func() bool { return len(up.of("keyed")) == 1 })
	a.comeBack()
	for _, id := range []uuid.UUID{unkeyed, keyed} {
		eventually(t, "late evidence", func() bool { return len(effects(t, pool, id)) > 0 })
	}
	close(late)
	c := b.final(t, keyed)
	// Had the first attempt left any doubt, a refusal of the second would not
	// have ended it.
	if c.State != outcome.StateRejected || len(b.attempts(t, keyed)) != 2 {
		t.Errorf("keyed ended %s: %s", c.State, evidences(b.attempts(t, keyed)))
	}
	eventually(t, "the unkeyed command's end", func() bool { return b.final(t, unkeyed).State == outcome.StateCancelled })
	c = b.final(t, unkeyed)
	if c.Outcome.Reason != outcome.OutcomeReasonNeverSent || c.Outcome.DecidedBy != outcome.DecidedByLateEvidence ||
		c.Outcome.StoppedBy != outcome.ReasonNotSent || !c.Outcome.SafeToResubmit {
		t.Errorf("unkeyed: %+v", c.Outcome)
	}
	if n := len(up.of("unkeyed")); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestGate: a process that stands still past the send deadline of an attempt
// that it began sends nothing under it, though its lease is held again.
func TestGate(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, func(w http.ResponseWriter, _ *http.Request, _ string, _ int) { reply(w, 201, paid) })
	hit := &set{every: true}
	p := startProcess(t, pool, options{leaseTTL: shortLease, begun: func(id uuid.UUID) {
		if hit.has(id) {
			eventually(t, "the send deadline", func() bool {
				return query[struct{ Passed bool }](t, pool, `
					SELECT clock_timestamp() > send_deadline AS passed FROM attempts WHERE command_id = $1 AND number = 1`, id)[0].Passed
			})
		}
	}})
	p.apply(t, brief("up", up.URL, short, ""))
	for _, operation := range []string{"charge", "pay"} {
		c := p.final(t, p.submit(t, order(operation, operation)).ID)
		list := p.attempts(t, c.ID)
		if c.State != outcome.StateSuccess || len(list) != 2 || list[0].Evidence != outcome.EvidenceNotSent || list[0].Category != outcome.CategoryExecutorLost {
			t.Errorf("%s ended %s: %s", operation, c.State, evidences(list))
		}
		if n := len(up.of(operation)); n != 1 {
			t.Errorf("%s: %d requests", operation, n)
		}
	}
	up.verify(t, pool)
}
