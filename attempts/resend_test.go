package attempts_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// resend asks for one more attempt of an unresolved command.
func (p *process) resend(t testing.TB, id uuid.UUID, how commands.Resend, settledBy string) error {
	t.Helper()
	ctx := context.Background()
	var moved []commands.Moved
	err := p.commands.Commit(ctx, func(ctx context.Context, tx commands.Tx) error {
		locked, err := p.commands.Lock(ctx, tx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		moved, err = p.commands.Resend(ctx, tx, locked[id], how, settledBy, "ann")
		return err
	})
	if err == nil {
		p.commands.Changed(moved)
	}
	return err
}

// onceMore waits for the outcome after the one with the sequence.
func (p *process) onceMore(t testing.TB, id uuid.UUID) commands.Command {
	t.Helper()
	var c commands.Command
	eventually(t, "the end of the resend", func() bool {
		var err error
		c, err = p.commands.Get(context.Background(), "default", id)
		return err == nil && c.Final()
	})
	return c
}

// TestAResendIsOneRequest: whatever an authorised attempt meets, no other follows
// it, although attempts, time and key would allow one.
func TestAResendIsOneRequest(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{})
	tests := []struct {
		name   string
		second func(w http.ResponseWriter)
		want   outcome.State
	}{
		{"answered", func(w http.ResponseWriter) { reply(w, 201, paid) }, outcome.StateSuccess},
		{"lost again", drop, outcome.StateUnresolved},
		// The person found that nothing of the first arrived, and these did nothing.
		{"busy", func(w http.ResponseWriter) { reply(w, 429, "") }, outcome.StateCancelled},
		{"unavailable", func(w http.ResponseWriter) { reply(w, 503, "") }, outcome.StateUnresolved},
		{"refused", func(w http.ResponseWriter) { reply(w, 422, "") }, outcome.StateRejected},
		{"told that the first had arrived after all", func(w http.ResponseWriter) { reply(w, 409, paid) }, outcome.StateSuccess},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := "up" + uuid.NewString()[:8]
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
				if n == 1 {
					drop(w)
					return
				}
				tt.second(w)
			})
			ours := "path: /charges\n    answers: [{when: status == 409 && in_doubt, answer: applied}]\n"
			front.apply(t, strings.Replace(profileOf(name, up.URL, ""), "path: /charges\n", ours, 1))
			s := submission(uuid.NewString(), "charge")
			s.Upstream = name
			id := front.submit(t, s).ID
			if c := front.final(t, id); c.State != outcome.StateUnresolved {
				t.Fatalf("%s after the first request", c.State)
			}
			var no *commands.NotResendable
			if err := front.resend(t, id, commands.ResendOperator, ""); !errors.As(err, &no) {
				t.Fatalf("a keyless command in doubt may be sent again: %v", err)
			}
			if err := front.resend(t, id, commands.ResendOperator, "operator"); err != nil {
				t.Fatal(err)
			}
			c := front.onceMore(t, id)
			if n := len(up.all()); c.State != tt.want || n != 2 || c.Attempts != 2 {
				t.Errorf("%s after %d requests and %d attempts, want %s after 2", c.State, n, c.Attempts, tt.want)
			}
		})
	}
}

// TestAResendThatCannotLeaveIsUsedUp: an attempt that was not sent was the one.
func TestAResendThatCannotLeaveIsUsedUp(t *testing.T) {
	t.Parallel()
	pool := database(t)
	p := startProcess(t, pool, options{})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { drop(w) })
	p.apply(t, profileOf("up", up.URL, "connection: {fresh: always}"))
	id := p.submit(t, submission(uuid.NewString(), "charge")).ID
	p.final(t, id)
	up.Close()
	if err := p.resend(t, id, commands.ResendOperator, "operator"); err != nil {
		t.Fatal(err)
	}
	c := p.onceMore(t, id)
	list := p.attempts(t, id)
	if len(list) != 2 || list[1].Evidence != outcome.EvidenceNotSent || c.State != outcome.StateCancelled {
		t.Errorf("%s after %s", c.State, evidences(list))
	}
}

// TestAResendWaitsAndEndsInDoubt: a paused upstream holds the attempt back until
// the fresh deadline; the doubt from before stands.
func TestAResendWaitsAndEndsInDoubt(t *testing.T) {
	t.Parallel()
	pool := database(t)
	p := startProcess(t, pool, options{})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { drop(w) })
	p.apply(t, profileOf("up", up.URL, "limits: {max_in_flight: 4}"))
	s := submission(uuid.NewString(), "pay")
	id := p.submit(t, s).ID
	p.final(t, id)
	sent := len(up.all())
	if _, err := p.ups.Pause(context.Background(), "default", "up", audit.By{Actor: "ann", Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	if err := p.engine.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := p.resend(t, id, commands.ResendReplay, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(context.Background(), `UPDATE commands SET deadline = now() WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	c := p.onceMore(t, id)
	if c.State != outcome.StateUnresolved || len(up.all()) != sent || c.Outcome.Sequence != 1 {
		t.Errorf("%+v after %d requests", c.Outcome, len(up.all()))
	}
}

// TestACancelForbidsResends: on an unresolved command it does nothing else.
func TestACancelForbidsResends(t *testing.T) {
	t.Parallel()
	pool := database(t)
	p := startProcess(t, pool, options{})
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { drop(w) })
	p.apply(t, profileOf("up", up.URL, ""))
	id := p.submit(t, submission(uuid.NewString(), "charge")).ID
	p.final(t, id)
	if _, result, err := p.commands.Cancel(context.Background(), "default", id, audit.By{Actor: "ann"}); err != nil || result != commands.CancelInDoubt && result != commands.CancelTooLate {
		t.Fatal(result, err)
	}
	var no *commands.NotResendable
	if err := p.resend(t, id, commands.ResendOperator, "operator"); !errors.As(err, &no) || no.Reason != outcome.ReasonCancelRequested {
		t.Errorf("after a cancel: %v", err)
	}
}

// TestTheLinkOfAnAcceptedCommandIsKept: of the upstream's own origin only.
func TestTheLinkOfAnAcceptedCommandIsKept(t *testing.T) {
	t.Parallel()
	pool := database(t)
	p := startProcess(t, pool, options{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		w.Header().Set("Location", map[bool]string{true: "/jobs/1?part=a", false: "https://elsewhere.example/jobs/1"}[n == 1])
		w.WriteHeader(http.StatusAccepted)
	})
	p.apply(t, profileOf("up", up.URL, ""))
	for n, want := range []string{"/jobs/1?part=a", ""} {
		id := p.submit(t, submission(uuid.NewString(), "charge")).ID
		p.final(t, id)
		var link string
		if err := pool.QueryRow(t.Context(), `SELECT link FROM attempts WHERE command_id = $1`, id).Scan(&link); err != nil || link != want {
			t.Errorf("request %d: link %q, %v; want %q", n+1, link, err, want)
		}
	}
}
