package api

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/seats"
)

// TestStreamsOfAKeyAreBounded: who opens more is told so, others are not, and a seat
// that is left is free.
func TestStreamsOfAKeyAreBounded(t *testing.T) {
	g := newRig(t)
	g.server.streams = seats.New(2, 3)
	path := "/v1/commands/" + someID.String() + "/events"
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(1), nil }
	first := g.openStream()
	nextID(t, first)
	nextID(t, g.openStream())
	r := g.do("GET", path, with("Accept", eventStream), as("exk_read")).want(429)
	if r.problem(ProblemCodeRateLimited); r.header.Get("Retry-After") == "" {
		t.Errorf("%v", r.header)
	}
	g.do("GET", path, as("exk_read")).want(200) // without a stream
	nextID(t, g.openStream(as("exk_admin")))
	g.do("GET", path, with("Accept", eventStream), as("exk_admin")).want(429) // of all together
	g.server.Drain()
	for first.Scan() {
	}
	for deadline := time.Now().Add(patience); g.server.streams.Taken() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d seats were not given back", g.server.streams.Taken())
		}
	}
}

// TestWaitsOfAKeyAreBounded: who finds no room to wait is answered at once, and not
// told that the wait was honoured.
func TestWaitsOfAKeyAreBounded(t *testing.T) {
	g := newRig(t)
	g.server.waits = seats.New(0, 0)
	g.commands.get = func(context.Context, string, uuid.UUID) (commands.Command, error) {
		return pendingCommand(commands.Submission{Tenant: "default"}), nil
	}
	g.commands.wait = func(context.Context, string, uuid.UUID) (commands.Command, error) {
		t.Error("somebody waits without a seat")
		return commands.Command{}, commands.ErrNotFound
	}
	r := g.do("GET", "/v1/commands/"+someID.String(), with("Prefer", "wait=30")).want(200)
	if r.header.Get("Preference-Applied") != "" || r.command().Final {
		t.Errorf("%v", r.header)
	}
	g.submit("k", leastSubmit, with("Prefer", "wait=30")).want(202)
	g.server.waits = seats.New(1, 1)
	for range 3 { // each gives its seat back
		g.commands.wait = func(context.Context, string, uuid.UUID) (commands.Command, error) { return doneCommand(`{}`), nil }
		if !g.do("GET", "/v1/commands/"+someID.String(), with("Prefer", "wait=30")).want(200).command().Final {
			t.Error("a seat was not given back")
		}
	}
}

// revocable is a key that can be revoked while requests run.
type revocable struct {
	Authenticator
	gone atomic.Bool
}

func (k *revocable) Authenticate(ctx context.Context, secret string) (apikeys.Key, error) {
	if k.gone.Load() {
		return apikeys.Key{}, apikeys.ErrUnknown
	}
	return k.Authenticator.Authenticate(ctx, secret)
}

// TestAStreamEndsWithItsKey: what a revoked key began does not go on.
func TestAStreamEndsWithItsKey(t *testing.T) {
	keys := &revocable{}
	g := newRig(t, func(c *Config) { keys.Authenticator, c.Keys = c.Keys, keys })
	g.server.heartbeat = 5 * g.server.poll
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(1), nil }
	lines := g.openStream()
	nextID(t, lines)
	keys.gone.Store(true)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), ":") && lines.Text() != "" {
			t.Errorf("after the revocation came %s", lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream did not end in order: %v", err)
	}
}
