package commands_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/seal"
	"executor/outcome"
)

// newHolder is a rig whose store takes one-shot bodies.
func newHolder(t *testing.T, room int) (*rig, *starter) {
	t.Helper()
	box, err := seal.New([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *commands.Config) { c.Box = box })
	s := &starter{epoch: r.lease(t, "live", true), room: room}
	r.store.SetStarter(s)
	return r, s
}

const oneShotBody = `{"pin":"canary-4711"}`

func oneShot(key string) commands.Submission {
	s := submission(key, "charge")
	s.Body, s.OneShot = []byte(oneShotBody), true
	return s
}

// TestOneShotIsNotWritten: nothing in the database holds the body or a hash that a
// guess can be tried against, and the engine has it before anybody sees the command.
func TestOneShotIsNotWritten(t *testing.T) {
	r, s := newHolder(t, 1)
	claimed := r.submit(t, oneShot("claimed"))
	kept := r.submit(t, oneShot("kept"))
	if claimed.BodyKind != outcome.BodyOneShot || r.get(t, kept.ID).BodyKind != outcome.BodyOneShot {
		t.Errorf("kinds %s and %s", claimed.BodyKind, kept.BodyKind)
	}
	for _, c := range []commands.Command{claimed, kept} {
		if string(s.held[c.ID]) != oneShotBody || !s.settled[c.ID] {
			t.Errorf("held %q, settled %v", s.held[c.ID], s.settled[c.ID])
		}
	}
	if len(s.launched) != 1 || len(s.kept) != 1 || s.kept[0].ID != kept.ID {
		t.Errorf("%d launched, %d kept", len(s.launched), len(s.kept))
	}
	if n := r.count(t, `SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("%d jobs that no other process may take", n)
	}
	plain := submission("plain", "charge")
	plain.Body = []byte(oneShotBody)
	sum := r.submit(t, plain)
	var same bool
	r.scan(t, `SELECT (SELECT substr(field_hashes, 6*32+1, 32) FROM command_requests WHERE command_id = $1)
		= (SELECT substr(field_hashes, 6*32+1, 32) FROM command_requests WHERE command_id = $2)`, []any{sum.ID, kept.ID}, &same)
	if same {
		t.Error("the hash of a one-shot body is one that anybody can make")
	}
	r.exec(t, `DELETE FROM command_requests WHERE command_id = $1`, sum.ID)
	var row string
	r.scan(t, `SELECT string_agg(r::text || c::text, ' ') FROM command_requests r JOIN commands c ON c.id = r.command_id`, nil, &row)
	if strings.Contains(row, "canary") || strings.Contains(row, hexOf("canary")) {
		t.Errorf("the row holds the body: %s", row)
	}
}

func hexOf(s string) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

// TestOneShotRepeated: the key finds its command again, by the same bytes only,
// whether they are called one-shot or not.
func TestOneShotRepeated(t *testing.T) {
	r, s := newHolder(t, 0)
	first := r.submit(t, oneShot("k"))
	replayable := oneShot("k")
	replayable.OneShot = false
	for _, again := range []commands.Submission{oneShot("k"), replayable} {
		a, err := r.store.Submit(t.Context(), again)
		if err != nil || !a.Replayed || a.Command.ID != first.ID {
			t.Errorf("one shot %v: %v %v", again.OneShot, a, err)
		}
	}
	other := oneShot("k")
	other.Body = []byte(`{"pin":"canary-4712"}`)
	var mismatch *commands.KeyMismatch
	if _, err := r.store.Submit(t.Context(), other); !errors.As(err, &mismatch) || !slices.Equal(mismatch.Differs, []string{"body"}) || mismatch.Blind {
		t.Errorf("other bytes: %v", err)
	}
	box, err := seal.New([]byte("fedcba9876543210fedcba9876543210"))
	if err != nil {
		t.Fatal(err)
	}
	rotated := newRigOn(t, r.pool, func(c *commands.Config) { c.Box = box })
	rotated.store.SetStarter(s)
	if _, err := rotated.store.Submit(t.Context(), oneShot("k")); !errors.As(err, &mismatch) || !mismatch.Blind || mismatch.CommandID != first.ID {
		t.Errorf("under another key: %v", err)
	}
	for id := range s.held {
		if id != first.ID && s.settled[id] {
			t.Error("a repeat keeps a body of its own")
		}
	}
}

// TestRefusedBodyIsLetGo: what the database refused for certain takes up no room.
func TestRefusedBodyIsLetGo(t *testing.T) {
	r, s := newHolder(t, 0)
	poison := oneShot("k")
	poison.Metadata = map[string]string{"a": "\x00"}
	if _, err := r.store.Submit(t.Context(), poison); !errors.Is(err, commands.ErrUnavailable) {
		t.Errorf("refused by the database: %v", err)
	}
	for id := range s.held {
		if accepted, told := s.settled[id]; !told || accepted {
			t.Error("the body is kept")
		}
	}
	if len(s.held) != 1 {
		t.Errorf("%d bodies were given out", len(s.held))
	}
}

// TestOneShotRefused: without a key for its hash, or a process that can hold it, none
// is taken; the latter may be mended by asking again.
func TestOneShotRefused(t *testing.T) {
	r, s := newHolder(t, 0)
	s.full = true
	if _, err := r.store.Submit(t.Context(), oneShot("k")); !errors.Is(err, commands.ErrCannotHold) {
		t.Errorf("no room: %v", err)
	}
	s.full = false
	known := r.submit(t, oneShot("known"))
	s.full = true
	if a, err := r.store.Submit(t.Context(), oneShot("known")); err != nil || !a.Replayed || a.Command.ID != known.ID {
		t.Errorf("a repeat where there is no room: %+v, %v", a, err)
	}
	r.exec(t, `DELETE FROM commands`)
	r.exec(t, `DELETE FROM command_requests`)
	r.store.SetStarter(nil)
	if _, err := r.store.Submit(t.Context(), oneShot("k")); !errors.Is(err, commands.ErrCannotHold) {
		t.Errorf("no worker: %v", err)
	}
	keyless, _ := newStarter(t, 0)
	var bad *commands.Invalid
	if _, err := keyless.store.Submit(t.Context(), oneShot("k")); !errors.As(err, &bad) || bad.Fields[0].Pointer != "/body_kind" {
		t.Errorf("no key: %v", err)
	}
	bodiless := submission("k", "balance")
	bodiless.OneShot = true
	if _, err := r.store.Submit(t.Context(), bodiless); !errors.As(err, &bad) {
		t.Errorf("no body: %v", err)
	}
	if n := r.count(t, `SELECT count(*) FROM commands`); n != 0 {
		t.Errorf("%d commands were written", n)
	}
}

// TestCloseLost: a one-shot command whose process is gone was never sent and ends so;
// one whose process lives is nobody else's.
func TestCloseLost(t *testing.T) {
	r, s := newHolder(t, 0)
	mine := r.submit(t, oneShot("mine"))
	s.epoch = r.lease(t, "dead", true)
	theirs := r.submit(t, oneShot("theirs"))
	r.exec(t, `UPDATE leases SET ended_at = now() WHERE epoch = $1`, s.epoch)
	r.exec(t, `UPDATE commands SET next_attempt_at = now() - interval '1 minute'`)
	for _, heal := range []func(context.Context) (int, error){r.store.Unclaim, r.store.Heal} {
		if n, err := heal(t.Context()); n != 0 || err != nil {
			t.Errorf("%d one-shot commands were given to others, %v", n, err)
		}
	}
	if n, err := r.store.CloseLost(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("closed %d, %v", n, err)
	}
	c := r.get(t, theirs.ID)
	if c.State != outcome.StateCancelled || c.Outcome.Reason != outcome.OutcomeReasonNeverSent || !c.Outcome.SafeToResubmit ||
		c.Outcome.StoppedBy != outcome.ReasonBodyNotReplayable {
		t.Errorf("%s %+v", c.State, c.Outcome)
	}
	if c := r.get(t, mine.ID); c.State != outcome.StatePending {
		t.Errorf("the command of a live process is %s", c.State)
	}
	if n, err := r.store.CloseLost(t.Context(), []uuid.UUID{mine.ID}); n != 1 || err != nil {
		t.Errorf("closed %d, %v", n, err)
	}
}
