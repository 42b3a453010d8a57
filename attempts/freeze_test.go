package attempts_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/postgres"
	"executor/internal/testkit"
	"executor/outcome"
)

// waitsFor waits until a command says that it waits for this.
func (p *process) waitsFor(t testing.TB, id uuid.UUID, what commands.WaitFor) {
	t.Helper()
	eventually(t, "waiting for "+string(what), func() bool {
		c, err := p.commands.Get(context.Background(), "default", id)
		if err != nil {
			t.Fatal(err)
		}
		return c.Waiting != nil && c.Waiting.For == what
	})
}

// TestStandstill: neither a pause nor a plain freeze sends anything or adds
// anything; what waited is sent once when it ends.
func TestStandstill(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, always(201, paid))
	p := startProcess(t, pool, options{})
	p.apply(t, brief("up", up.URL, ample, ""))
	ctx, deployment := context.Background(), p.engine.Deployment()
	for _, tt := range []struct {
		name        commands.WaitFor
		stop, start func() error
	}{
		{commands.WaitPaused,
			func() error {
				_, err := p.ups.Pause(ctx, "default", "up", audit.By{Actor: "test", Reason: "test"})
				return err
			},
			func() error { _, err := p.ups.Resume(ctx, "default", "up", audit.By{Actor: "test"}); return err }},
		{commands.WaitFrozen,
			func() error { _, err := deployment.Freeze(ctx, audit.By{Actor: "test", Reason: "test"}); return err },
			func() error {
				for fault, refused := range map[error]bool{postgres.ErrNotDurable: true, context.DeadlineExceeded: false} {
					deployment.Demand(func(context.Context, *pgxpool.Pool) error { return fault })
					if s, err := deployment.Resume(ctx, audit.By{Actor: "test"}); !errors.Is(err, fault) || errors.Is(err, attempts.ErrNotResumed) != refused || !s.Frozen() {
						t.Errorf("resumed in spite of %v: %v, frozen %t", fault, err, s.Frozen())
					}
				}
				deployment.Demand(func(context.Context, *pgxpool.Pool) error { return nil })
				_, err := deployment.Resume(ctx, audit.By{Actor: "test"})
				return err
			}},
	} {
		if err := tt.stop(); err != nil {
			t.Fatal(err)
		}
		var ids []uuid.UUID
		for _, operation := range []string{"pay", "charge"} {
			id := p.submit(t, order(string(tt.name)+operation, operation)).ID
			p.waitsFor(t, id, tt.name)
			ids = append(ids, id)
		}
		if n := len(up.of(string(tt.name) + "pay")); n != 0 {
			t.Errorf("%s: %d requests", tt.name, n)
		}
		if err := tt.start(); err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if c := p.final(t, id); c.State != outcome.StateSuccess || c.Attempts != 1 {
				t.Errorf("%s: ended %s after %d attempts", tt.name, c.State, c.Attempts)
			}
		}
	}
	up.verify(t, pool)
}

// TestForeignData: a process does not send with another deployment's data, nor
// does it start to before somebody adopted them.
func TestForeignData(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	up := newLedger(t, always(201, paid))
	front.apply(t, brief("up", up.URL, ample, ""))
	unkeyed := front.submit(t, order("unkeyed", "charge")).ID
	ctx := context.Background()
	copied := attempts.OpenDeployment(pool, "staging", front.commands, front.ups)
	state, err := copied.Check(ctx, "test", false)
	if err != nil || !state.Foreign() || state.Frozen() {
		t.Fatalf("after the check: %+v, %v", state, err)
	}
	p := startProcess(t, pool, options{expected: "staging"})
	p.waitsFor(t, unkeyed, commands.WaitFrozen)
	if _, err := copied.Resume(ctx, audit.By{Actor: "test"}); !errors.Is(err, attempts.ErrOtherDeployment) {
		t.Errorf("resume before it was adopted: %v", err)
	}
	if state, err := copied.Adopt(ctx, audit.By{Actor: "test"}); err != nil || !state.Frozen() || !state.Doubtful || state.Foreign() {
		t.Errorf("after it was adopted: %+v, %v", state, err)
	}
	if _, err := copied.Resume(ctx, audit.By{Actor: "test"}); err != nil {
		t.Errorf("resume: %v", err)
	}
	if c := p.final(t, unkeyed); c.State != outcome.StateUnresolved {
		t.Errorf("ended %s", c.State)
	}
	if len(up.all()) != 0 {
		t.Errorf("%d requests", len(up.all()))
	}
}

// TestCopyBeside: a copy in another database of the same server is noticed.
func TestCopyBeside(t *testing.T) {
	t.Parallel()
	pool := database(t)
	ctx := context.Background()
	if _, err := pool.Exec(ctx, `UPDATE deployment SET system_identifier = regexp_replace(system_identifier, '[0-9]+$', '1')`); err != nil {
		t.Fatal(err)
	}
	state, err := attempts.NewDeployment(pool, "test", nil).Check(ctx, "test", false)
	if err != nil || !state.Frozen() || !state.Doubtful {
		t.Errorf("after the check: %+v, %v", state, err)
	}
}

// TestNothingIsCalledUnsentInDoubt: while the deployment stands still in doubt,
// deadlines and cancels go on, and say of nobody that it was never sent.
func TestNothingIsCalledUnsentInDoubt(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", "http://127.0.0.1:1025", 5*time.Second, ""))
	ctx := context.Background()
	overdue := order("overdue", "charge")
	overdue.Timeout = 2 * time.Second
	late := order("late", "charge")
	late.Timeout = 2 * time.Second
	ids := []uuid.UUID{front.submit(t, overdue).ID, front.submit(t, order("cancelled", "charge")).ID}
	answered := front.submit(t, late).ID
	own := attempts.OpenDeployment(pool, "test", front.commands, front.ups)
	if _, err := own.Doubt(ctx, audit.By{Actor: "test", Reason: "restored over itself"}); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, pool, options{})
	if c, result, err := p.commands.Cancel(ctx, "default", ids[1], audit.By{Actor: "test"}); err != nil || result != commands.CancelInDoubt || c.State != outcome.StateUnresolved {
		t.Errorf("cancel: %s, %s, %v", result, c.State, err)
	}
	for _, id := range ids {
		c := p.final(t, id)
		if c.State != outcome.StateUnresolved || c.Outcome.SafeToResubmit || evidences(p.attempts(t, id)) != "sent_no_response/executor_lost/" {
			t.Errorf("%s ended %s: %s", c.Key, c.State, evidences(p.attempts(t, id)))
		}
	}
	// The process that had sent it reports, though the record of its attempt is lost.
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, _, err := p.commands.Learn(ctx, tx, answered, commands.Knowledge{
			Source: outcome.DecidedByLateEvidence, Actor: "another", Attempt: 1, Evidence: outcome.EvidenceResponseReceived,
			Category: outcome.CategoryNone, Answer: outcome.AnswerApplied, Status: 201, Reference: "pay_1",
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := p.final(t, answered); c.State != outcome.StateSuccess || c.Outcome.Result.Reference != "pay_1" {
		t.Errorf("ended %s, though its answer is on record", c.State)
	}
}

// TestDoubtAfterFreeze: where doubt begins under a plain freeze, it covers what
// was accepted meanwhile.
func TestDoubtAfterFreeze(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	up := newLedger(t, always(201, paid))
	front.apply(t, brief("up", up.URL, ample, ""))
	ctx := context.Background()
	own := attempts.OpenDeployment(pool, "test", front.commands, front.ups)
	if _, err := own.Freeze(ctx, audit.By{Actor: "test", Reason: "a plain one"}); err != nil {
		t.Fatal(err)
	}
	id := front.submit(t, order("meanwhile", "charge")).ID
	if state, err := own.Doubt(ctx, audit.By{Actor: "test", Reason: "restored over itself"}); err != nil || !state.Doubtful || state.FrozenReason != "restored over itself" {
		t.Fatalf("in doubt: %+v, %v", state, err)
	}
	if _, err := own.Resume(ctx, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, pool, options{})
	if c := p.final(t, id); c.State != outcome.StateUnresolved {
		t.Errorf("ended %s", c.State)
	}
	if n := len(up.all()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestDoubtfulResume: after a promotion or a restore each unfinished command
// counts as possibly sent. What was accepted during the freeze is untouched, and
// however many resume, each command gets one synthetic attempt.
func TestDoubtfulResume(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"timeline":          `UPDATE deployment SET timeline = timeline + 1`,
		"system identifier": `UPDATE deployment SET system_identifier = 'another'`,
	} {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			front := startProcess(t, pool, options{idle: true})
			up := newLedger(t, always(201, paid))
			front.apply(t, brief("up", up.URL, short, "")) // nothing is sent again while a lost attempt may be under way
			keyed := front.submit(t, order("keyed", "pay")).ID
			unkeyed := front.submit(t, order("unkeyed", "charge")).ID
			ctx := context.Background()
			if _, err := pool.Exec(ctx, change); err != nil {
				t.Fatal(err)
			}
			deployment := attempts.OpenDeployment(pool, "test", front.commands, front.ups)
			state, err := deployment.Check(ctx, "test", false)
			if err != nil || !state.Frozen() || !state.Doubtful {
				t.Fatalf("after the check: %+v, %v", state, err)
			}
			frozen := *state.FrozenAt
			meanwhile := front.submit(t, order("meanwhile", "charge")).ID
			p := startProcess(t, pool, options{})
			p.waitsFor(t, meanwhile, commands.WaitFrozen)

			var operators sync.WaitGroup
			for range 4 {
				operators.Go(func() {
					own := attempts.OpenDeployment(pool, "test", front.commands, front.ups)
					if _, err := own.Resume(ctx, audit.By{Actor: "test"}); err != nil {
						t.Errorf("resume: %v", err)
					}
				})
			}
			operators.Wait()
			if state, err := deployment.Check(ctx, "test", false); err != nil || state.Frozen() {
				t.Errorf("after the resume: %+v, %v", state, err)
			}
			for _, tt := range []struct {
				id    uuid.UUID
				state outcome.State
				tries string
			}{
				{keyed, outcome.StateSuccess, "sent_no_response/executor_lost/ response_received/none/applied"},
				{unkeyed, outcome.StateUnresolved, "sent_no_response/executor_lost/"},
				{meanwhile, outcome.StateSuccess, "response_received/none/applied"},
			} {
				c := p.final(t, tt.id)
				tries := p.attempts(t, tt.id)
				if list := evidences(tries); c.State != tt.state || list != tt.tries {
					t.Errorf("%s ended %s: %s", c.Key, c.State, list)
				}
				if end := frozen.Add(short); tt.id == keyed && (len(tries) < 2 || tries[1].StartedAt.Before(end)) {
					t.Errorf("sent again before %s, while an attempt whose record is lost may have been under way", end)
				}
			}
			up.verify(t, pool)
		})
	}
}

// TestResumeAfterAnUnnoticedPromotion: frozen for it by hand, promoted while no process
// ran, and resumed at once.
func TestResumeAfterAnUnnoticedPromotion(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", "http://127.0.0.1:1024", ample, ""))
	unkeyed := front.submit(t, order("unkeyed", "charge")).ID
	deployment := attempts.OpenDeployment(pool, "test", front.commands, front.ups)
	if _, err := deployment.Freeze(t.Context(), audit.By{Actor: "ann", Reason: "planned"}); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE deployment SET timeline = timeline + 1`); err != nil {
		t.Fatal(err)
	}
	if state, err := deployment.Resume(t.Context(), audit.By{Actor: "ann"}); err != nil || state.Frozen() || state.Doubtful {
		t.Errorf("after the resume: %+v, %v", state, err)
	}
	if c := front.final(t, unkeyed); c.State != outcome.StateUnresolved || c.Attempts != 1 {
		t.Errorf("ended %s after %d attempts", c.State, c.Attempts)
	}
}

// TestRewoundLease: a process whose lease is older than it knows, or gone, works
// on a database that was restored under it. It freezes everybody before it holds
// a lease again, also if the first try to freeze is lost.
func TestRewoundLease(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"older": `UPDATE leases SET renewed_at = renewed_at - interval '1 hour'`,
		"gone":  `DELETE FROM leases`,
	} {
		t.Run(name, func(t *testing.T) {
			pool := database(t)
			up := newLedger(t, always(201, paid))
			p, proxy := startBehind(t, pool, up, options{leaseTTL: shortLease, drain: time.Second})
			defer proxy.Cut()
			ctx := context.Background()
			lost := proxy.StallAt("UPDATE deployment SET")
			if _, err := pool.Exec(ctx, change); err != nil {
				t.Fatal(err)
			}
			<-lost
			deployment := p.engine.Deployment()
			eventually(t, "the freeze", func() bool {
				state, err := deployment.Show(ctx)
				return err == nil && state.Frozen() && state.Doubtful
			})
			id := p.submit(t, order("k", "charge")).ID
			p.waitsFor(t, id, commands.WaitFrozen)
			if _, err := deployment.Resume(ctx, audit.By{Actor: "test"}); err != nil {
				t.Fatal(err)
			}
			if c := p.final(t, id); c.State != outcome.StateSuccess || c.Attempts != 1 {
				t.Errorf("ended %s after %d attempts", c.State, c.Attempts)
			}
			up.verify(t, pool)
		})
	}
}

// TestPromotion: a standby takes over under a running process, and has lost the
// record of an attempt that is on the wire. Nothing is sent from then on before
// somebody resumes, and what may have been sent is not sent again.
func TestPromotion(t *testing.T) {
	t.Parallel()
	server := testkit.Cluster(t)
	pool := server.Database()
	ctx := context.Background()
	if _, err := attempts.NewDeployment(pool, "test", nil).Adopt(ctx, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		if hang(r, answer) {
			reply(w, 201, paid)
		}
	})
	p := startProcess(t, testkit.Open(t, server.URL), options{leaseTTL: 5 * time.Second})
	p.apply(t, brief("up", up.URL, 20*time.Second, "limits: {max_in_flight: 2}"))
	kept := p.submit(t, order("kept", "charge")).ID
	lost := p.submit(t, order("lost", "charge")).ID
	eventually(t, "both requests", func() bool { return len(up.all()) == 2 })
	waiting := p.submit(t, order("waiting", "pay")).ID

	server.Crash()
	server.Promote()
	pool.Reset()
	forget(t, pool, lost)
	deployment := p.engine.Deployment()
	eventually(t, "the freeze", func() bool {
		state, err := deployment.Show(ctx)
		return err == nil && state.Frozen() && state.Doubtful
	})
	close(answer)
	if c := p.final(t, kept); c.State != outcome.StateSuccess {
		t.Errorf("the command whose attempt is on record ended %s", c.State)
	}
	if c := p.final(t, lost); c.State != outcome.StateSuccess || c.Outcome.DecidedBy != outcome.DecidedByLateEvidence {
		t.Errorf("the command whose attempt was lost ended %s by %s", c.State, c.Outcome.DecidedBy)
	}
	if n := len(up.all()); n != 2 {
		t.Errorf("%d requests before anybody resumed", n)
	}
	if _, err := deployment.Resume(ctx, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if c := p.final(t, waiting); c.State != outcome.StateSuccess || len(up.of("waiting")) != 1 {
		t.Errorf("the command that waited ended %s after %d requests", c.State, len(up.of("waiting")))
	}
}

// TestPromotedAgain: the server's files tell of a promotion only minutes later; a process
// that starts at once must know all the same. So must it of a second one, which lost that
// somebody had resumed after the first, and whatever was sent since; and of a third, while
// somebody resumes.
func TestPromotedAgain(t *testing.T) {
	t.Parallel()
	server := testkit.Cluster(t)
	pool := server.Database()
	adopt(t, pool)
	promote := func() {
		server.Stop()
		server.Promote()
		pool.Reset()
	}
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", "http://127.0.0.1:1024", ample, ""))
	ctx, own := t.Context(), attempts.OpenDeployment(pool, "test", front.commands, front.ups)
	check := func() time.Time {
		t.Helper()
		state, err := own.Check(ctx, "test", false)
		if err != nil || !state.Frozen() || !state.Doubtful {
			t.Fatalf("after the check: %+v, %v", state, err)
		}
		return *state.FrozenAt
	}
	promote()
	first := check()
	one, two := front.submit(t, order("one", "charge")).ID, front.submit(t, order("two", "charge")).ID
	promote()
	if c, how, err := front.commands.Cancel(ctx, "default", one, audit.By{Actor: "ann"}); how != commands.CancelInDoubt {
		t.Errorf("the cancel of what may have been sent: %s, %s, %v", how, c.State, err)
	}
	if again := check(); !again.After(first) || check() != again {
		t.Errorf("frozen at %s, and after another promotion at %s", first, again)
	}
	own.Demand(func(context.Context, *pgxpool.Pool) error { promote(); return nil })
	if state, err := own.Resume(ctx, audit.By{Actor: "ann"}); !errors.Is(err, attempts.ErrNotResumed) || !state.Frozen() {
		t.Errorf("resumed while the database was promoted: %+v, %v", state, err)
	}
	own.Demand(func(context.Context, *pgxpool.Pool) error { return nil })
	if state, err := own.Resume(ctx, audit.By{Actor: "ann"}); err != nil || state.Frozen() {
		t.Errorf("resumed: %+v, %v", state, err)
	}
	if c := front.final(t, two); c.State != outcome.StateUnresolved {
		t.Errorf("what may have been sent ended %s", c.State)
	}
}

// TestLostWithItsAttempt: the database lost the command whose attempt is on the wire,
// and one that waits in the process that accepted it. Both end there, and the process
// goes on and stops as ever.
func TestLostWithItsAttempt(t *testing.T) {
	t.Parallel()
	pool := database(t)
	answer := make(chan struct{})
	up := newLedger(t, func(w http.ResponseWriter, r *http.Request, _ string, _ int) {
		if hang(r, answer) {
			reply(w, 201, paid)
		}
	})
	p := startProcess(t, pool, options{})
	p.apply(t, brief("up", up.URL, ample, "limits: {max_in_flight: 1}"))
	sent := p.submit(t, order("sent", "charge")).ID
	eventually(t, "the request", func() bool { return len(up.all()) == 1 })
	waits := p.submit(t, order("waits", "charge")).ID
	for _, id := range []uuid.UUID{sent, waits} {
		for _, table := range []string{"findings", "events", "attempts", "command_requests"} {
			clear(t, pool, `DELETE FROM `+table+` WHERE command_id = $1`, id)
		}
		clear(t, pool, `DELETE FROM commands WHERE id = $1`, id)
	}
	close(answer)
	next := p.submit(t, order("next", "charge")).ID
	if c := p.final(t, next); c.State != outcome.StateSuccess {
		t.Errorf("the next command ended %s", c.State)
	}
	if err := <-p.stopping(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if n := len(up.of("waits")); n != 0 {
		t.Errorf("%d requests of a command that is gone", n)
	}
}

func clear(t testing.TB, pool *pgxpool.Pool, sql string, id uuid.UUID) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql, id); err != nil {
		t.Fatal(err)
	}
}

// forget takes the attempt of a command off the record, as if it had been
// committed too late to reach the standby.
func forget(t testing.TB, pool *pgxpool.Pool, id uuid.UUID) {
	t.Helper()
	for _, sql := range []string{
		`DELETE FROM attempts WHERE command_id = $1`,
		`UPDATE commands SET state = 'pending', attempts = 0, next_attempt_at = created_at WHERE id = $1`,
	} {
		if _, err := pool.Exec(context.Background(), sql, id); err != nil {
			t.Fatal(err)
		}
	}
}
