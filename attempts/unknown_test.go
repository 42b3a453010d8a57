package attempts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/internal/testkit"
	"executor/outcome"
)

// Transactions are told apart by a statement that only they hold.
const (
	submitting = "INSERT INTO commands ("
	beginning  = "INSERT INTO attempts (command_id, number, tenant"
	unsent     = "INSERT INTO attempts (command_id, number, ended_at"
	finishing  = "UPDATE attempts a SET (ended_at"
	learning   = "INSERT INTO findings"
)

// losses are the two ways to lose a COMMIT. Who sent it cannot tell them apart.
func losses() map[string]testkit.Fate {
	return map[string]testkit.Fate{"request": {LoseRequest: true}, "reply": {LoseReply: true}}
}

// loseOnce gives the first transaction that holds the text its fate. The counter
// tells how many there were.
func loseOnce(proxy *testkit.Proxy, text string, fate testkit.Fate) *atomic.Int32 {
	met := new(atomic.Int32)
	proxy.OnCommit(func(c testkit.Commit) testkit.Fate {
		if c.Did(text) && met.Add(1) == 1 {
			return fate
		}
		return testkit.Fate{}
	})
	return met
}

// startBehind starts a process behind a proxy, with the upstream "up" in place
// and its lane open.
func startBehind(t testing.TB, pool *pgxpool.Pool, up *ledger, o options) (*process, *testkit.Proxy) {
	t.Helper()
	proxy := testkit.NewProxy(t, pool.Config().ConnString())
	p := startProcess(t, testkit.Open(t, proxy.URL), o)
	p.apply(t, brief("up", up.URL, ample, ""))
	p.final(t, p.submit(t, order("first-"+uuid.NewString(), "pay")).ID)
	return p, proxy
}

func always(status int, body string) func(http.ResponseWriter, *http.Request, string, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ string, _ int) { reply(w, status, body) }
}

// TestUnknownSubmit: a submit whose COMMIT was lost says so. If it was accepted,
// it is run though nobody repeats it; repeating tells.
func TestUnknownSubmit(t *testing.T) {
	t.Parallel()
	for name, fate := range losses() {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			up := newLedger(t, always(201, paid))
			p, proxy := startBehind(t, pool, up, options{leaseTTL: shortLease})
			loseOnce(proxy, submitting, fate)
			_, err := p.commands.Submit(context.Background(), order("k", "charge"))
			if !errors.Is(err, commands.ErrUnavailable) {
				t.Fatalf("submit: %v, want %v", err, commands.ErrUnavailable)
			}
			if fate.LoseReply {
				eventually(t, "the request", func() bool { return len(up.of("k")) == 1 })
			}
			again, err := p.commands.Submit(context.Background(), order("k", "charge"))
			if err != nil || again.Replayed != fate.LoseReply {
				t.Fatalf("repeated: replayed %v, %v", again.Replayed, err)
			}
			if c := p.final(t, again.Command.ID); c.State != outcome.StateSuccess {
				t.Errorf("ended %s", c.State)
			}
			if jobs := count(t, pool, `SELECT count(*) AS n FROM river_job WHERE args ->> 'id' = $1::text`, again.Command.ID.String()); jobs != 0 {
				t.Errorf("it took %d jobs, though its process claimed it", jobs)
			}
			up.verify(t, pool)
		})
	}
}

// TestUnknownBegin: nothing is sent under an attempt whose begin is not certain.
// It is closed as not sent, if it stands on record, and the command sent once.
func TestUnknownBegin(t *testing.T) {
	t.Parallel()
	for name, fate := range losses() {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			up := newLedger(t, always(201, paid))
			p, proxy := startBehind(t, pool, up, options{})
			for _, operation := range []string{"pay", "charge"} {
				loseOnce(proxy, beginning, fate)
				c := p.final(t, p.submit(t, order(operation, operation)).ID)
				list := p.attempts(t, c.ID)
				if c.State != outcome.StateSuccess || len(up.of(operation)) != 1 {
					t.Errorf("%s ended %s after %d requests: %s", operation, c.State, len(up.of(operation)), evidences(list))
				}
				want := 1
				if fate.LoseReply {
					want = 2
				}
				if len(list) != want || (want == 2 && list[0].Evidence != outcome.EvidenceNotSent) {
					t.Errorf("%s: attempts on record: %s", operation, evidences(list))
				}
			}
			up.verify(t, pool)
		})
	}
}

// TestUnknownBeginTakenOver: the attempt of a begin that is not certain was taken
// over by others, who cannot know that it was never sent. Its process can.
func TestUnknownBeginTakenOver(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, always(201, paid))
	a, proxy := startBehind(t, pool, up, options{leaseTTL: shortLease})
	never := make(chan struct{})
	defer close(never)
	loseOnce(proxy, beginning, testkit.Fate{HoldReply: never})
	id := a.submit(t, order("k", "charge")).ID
	eventually(t, "the begin", func() bool {
		return count(t, pool, `SELECT count(*) AS n FROM attempts WHERE command_id = $1`, id) == 1
	})
	proxy.Cut()
	b := startProcess(t, pool, options{leaseTTL: shortLease})
	if c := b.final(t, id); c.State != outcome.StateUnresolved {
		t.Errorf("after the takeover it is %s", c.State)
	}
	proxy.Mend()
	eventually(t, "the end", func() bool { return b.final(t, id).State == outcome.StateCancelled })
	if c := b.final(t, id); c.Outcome.DecidedBy != outcome.DecidedByLateEvidence || c.Outcome.Reason != outcome.OutcomeReasonNeverSent {
		t.Errorf("ended by %s, %s", c.Outcome.DecidedBy, c.Outcome.Reason)
	}
	up.verify(t, pool)
}

// TestUnknownFinish: the end of an attempt is written until that is certain, and
// stands once: one outcome, one event, and no evidence that it came late.
func TestUnknownFinish(t *testing.T) {
	t.Parallel()
	for name, fate := range losses() {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			up := newLedger(t, func(w http.ResponseWriter, _ *http.Request, order string, n int) {
				if order == "lost answer" && n == 1 {
					drop(w)
					return
				}
				reply(w, 201, paid)
			})
			p, proxy := startBehind(t, pool, up, options{})
			for _, tt := range []struct {
				order, operation string
				wire             int
				state            outcome.State
			}{
				{"answered", "charge", 1, outcome.StateSuccess},
				{"lost answer", "pay", 2, outcome.StateSuccess},
			} {
				loseOnce(proxy, finishing, fate)
				c := p.final(t, p.submit(t, order(tt.order, tt.operation)).ID)
				if c.State != tt.state || len(up.of(tt.order)) != tt.wire || len(p.attempts(t, c.ID)) != tt.wire {
					t.Errorf("%s ended %s after %d requests: %s", tt.order, c.State, len(up.of(tt.order)), evidences(p.attempts(t, c.ID)))
				}
				if got := effects(t, pool, c.ID); len(got) != 0 {
					t.Errorf("%s: its own process's report counts as late evidence: %v", tt.order, got)
				}
			}
			up.verify(t, pool)
		})
	}
}

// counting resolves every name to loopback and counts how often it is asked.
type counting struct{ asked atomic.Int32 }

func (c *counting) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	c.asked.Add(1)
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// TestUnknownUnsent: an attempt that never left is on record once, however often
// its recording was repeated.
func TestUnknownUnsent(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	for name, fate := range losses() {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			proxy := testkit.NewProxy(t, pool.Config().ConnString())
			dials := &counting{}
			p := startProcess(t, testkit.Open(t, proxy.URL), options{resolver: dials})
			p.apply(t, brief("up", fmt.Sprintf("http://up.test:%d", port), ample, ""))
			loseOnce(proxy, unsent, fate)
			c := p.final(t, p.submit(t, order("k", "charge")).ID)
			list := p.attempts(t, c.ID)
			if c.State != outcome.StateCancelled || len(list) != 4 || int(dials.asked.Load()) != len(list) {
				t.Errorf("ended %s after %d dials: %s", c.State, dials.asked.Load(), evidences(list))
			}
		})
	}
}

// TestUnknownLateEvidence: late evidence whose recording was repeated is on
// record once.
func TestUnknownLateEvidence(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, always(201, paid))
	seen := &set{every: true}
	a := startPaused(t, pool, nil, seen)
	a.apply(t, brief("up", up.URL, short, ""))
	id := a.submit(t, order("k", "charge")).ID
	eventually(t, "the answer", func() bool { return seen.size() == 1 })
	a.proxy.Cut()
	b := startProcess(t, pool, options{leaseTTL: shortLease})
	if c := b.final(t, id); c.State != outcome.StateUnresolved {
		t.Fatalf("after the takeover it is %s", c.State)
	}
	settle(t, b, id, outcome.StateCancelled)
	met := loseOnce(a.proxy, learning, testkit.Fate{LoseReply: true})
	a.comeBack()
	eventually(t, "late evidence, twice", func() bool { return met.Load() >= 1 })
	a.stop()
	if got := effects(t, pool, id); len(got) != 1 || got[0] != string(commands.EffectConflict) {
		t.Errorf("late evidence had the effects %v", got)
	}
	if n := count(t, pool, `SELECT count(*) AS n FROM events WHERE command_id = $1 AND type = 'command.conflict'`, id); n != 1 {
		t.Errorf("%d conflict events", n)
	}
}

// TestLossyDatabase: every seventh COMMIT is lost in one of both ways, River's
// among them, and the upstream loses answers too. Every command ends, and
// everything that must always hold does.
func TestLossyDatabase(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, func(w http.ResponseWriter, _ *http.Request, _ string, n int) {
		switch {
		case n == 1 && rand.IntN(4) == 0:
			drop(w)
		case n == 1 && rand.IntN(6) == 0:
			reply(w, 429, `{}`)
		default:
			reply(w, 201, paid)
		}
	})
	a, proxyA := startBehind(t, pool, up, options{})
	b, proxyB := startBehind(t, pool, up, options{})
	lossy := func(testkit.Commit) testkit.Fate {
		switch rand.IntN(14) {
		case 0:
			return testkit.Fate{LoseRequest: true}
		case 1:
			return testkit.Fate{LoseReply: true}
		default:
			return testkit.Fate{}
		}
	}
	proxyA.OnCommit(lossy)
	proxyB.OnCommit(lossy)
	var (
		callers sync.WaitGroup
		ids     [60]uuid.UUID
	)
	for i := range ids {
		callers.Go(func() {
			s := order(fmt.Sprintf("lossy-%d", i), []string{"pay", "charge"}[i%2])
			p := []*process{a, b}[i%3%2]
			for {
				accepted, err := p.commands.Submit(context.Background(), s)
				if err == nil {
					ids[i] = accepted.Command.ID
					return
				}
				if !errors.Is(err, commands.ErrUnavailable) {
					t.Errorf("submit: %v", err)
					return
				}
			}
		})
	}
	callers.Wait()
	for _, id := range ids {
		a.final(t, id)
	}
	proxyA.OnCommit(nil)
	proxyB.OnCommit(nil)
	a.stop()
	b.stop()
	up.verify(t, pool)
}
