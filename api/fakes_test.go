package api

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"

	"executor/attempts"
	"executor/commands"
	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/outcome"
	"executor/upstreams"
)

// fakeCommands is a store that knows nothing but what its functions say.
type fakeCommands struct {
	submit   func(context.Context, commands.Submission) (commands.Accepted, error)
	dryRun   func(context.Context, commands.Submission) (commands.Preview, error)
	get      func(context.Context, string, uuid.UUID) (commands.Command, error)
	list     func(context.Context, commands.Filter) ([]commands.Command, string, error)
	wait     func(context.Context, string, uuid.UUID) (commands.Command, error)
	cancel   func(context.Context, string, uuid.UUID, string) (commands.Command, commands.CancelResult, error)
	attempts func(context.Context, string, uuid.UUID) ([]commands.Attempt, error)
	events   func(context.Context, string, uuid.UUID) ([]commands.Event, error)
}

func (f *fakeCommands) Submit(ctx context.Context, sub commands.Submission) (commands.Accepted, error) {
	if f.submit == nil {
		return commands.Accepted{Command: pendingCommand(sub)}, nil
	}
	return f.submit(ctx, sub)
}

func (f *fakeCommands) SubmitBatch(ctx context.Context, subs []commands.Submission) []commands.BatchResult {
	results := make([]commands.BatchResult, len(subs))
	for i, sub := range subs {
		a, err := f.Submit(ctx, sub)
		if results[i].Err = err; err == nil {
			results[i].Accepted = &a
		}
	}
	return results
}

func (f *fakeCommands) DryRun(ctx context.Context, sub commands.Submission) (commands.Preview, error) {
	if f.dryRun == nil {
		return commands.Preview{}, &commands.Invalid{Detail: "nothing to preview"}
	}
	return f.dryRun(ctx, sub)
}

func (f *fakeCommands) Get(ctx context.Context, tenant string, id uuid.UUID) (commands.Command, error) {
	if f.get == nil {
		return commands.Command{}, commands.ErrNotFound
	}
	return f.get(ctx, tenant, id)
}

func (f *fakeCommands) List(ctx context.Context, filter commands.Filter) ([]commands.Command, string, error) {
	if f.list == nil {
		return nil, "", nil
	}
	return f.list(ctx, filter)
}

func (f *fakeCommands) Wait(ctx context.Context, tenant string, id uuid.UUID) (commands.Command, error) {
	if f.wait == nil {
		return f.Get(ctx, tenant, id)
	}
	return f.wait(ctx, tenant, id)
}

func (f *fakeCommands) Cancel(ctx context.Context, tenant string, id uuid.UUID, by audit.By) (commands.Command, commands.CancelResult, error) {
	if f.cancel == nil {
		return commands.Command{}, "", commands.ErrNotFound
	}
	return f.cancel(ctx, tenant, id, by.Actor)
}

func (f *fakeCommands) Attempts(ctx context.Context, tenant string, id uuid.UUID) ([]commands.Attempt, error) {
	if f.attempts == nil {
		return nil, commands.ErrNotFound
	}
	return f.attempts(ctx, tenant, id)
}

func (f *fakeCommands) Events(ctx context.Context, tenant string, id uuid.UUID) ([]commands.Event, error) {
	if f.events == nil {
		return nil, commands.ErrNotFound
	}
	return f.events(ctx, tenant, id)
}

// fakeUpstreams holds one upstream.
type fakeUpstreams struct {
	held    upstreams.Upstream
	tenants []string
	err     error
}

func (f *fakeUpstreams) Apply(_ context.Context, p *upstreams.Profile, _ audit.By) (upstreams.Upstream, bool, error) {
	changed := f.held.Profile == nil || !bytes.Equal(f.held.Profile.Source, p.Source)
	if changed {
		f.held.Version++
	}
	f.held.Profile, f.held.Name, f.held.Tenant = p, p.Upstream, p.Tenant
	return f.held, changed, f.err
}

func (f *fakeUpstreams) Get(_ context.Context, tenant, name string) (upstreams.Upstream, error) {
	if f.err == nil && (f.held.Tenant != tenant || f.held.Name != name) {
		return upstreams.Upstream{}, upstreams.ErrNotFound
	}
	return f.held, f.err
}

func (f *fakeUpstreams) Tenants(context.Context) ([]string, error) { return f.tenants, f.err }

func (f *fakeUpstreams) List(context.Context, string) ([]upstreams.Upstream, error) {
	if f.held.Profile == nil {
		return nil, f.err
	}
	return []upstreams.Upstream{f.held}, f.err
}

func (f *fakeUpstreams) Pause(ctx context.Context, tenant, name string, by audit.By) (upstreams.Upstream, error) {
	now := time.Now()
	f.held.PausedAt, f.held.PausedBy, f.held.PausedReason = &now, by.Actor, by.Reason
	return f.Get(ctx, tenant, name)
}

func (f *fakeUpstreams) Resume(ctx context.Context, tenant, name string, _ audit.By) (upstreams.Upstream, error) {
	f.held.PausedAt = nil
	return f.Get(ctx, tenant, name)
}

// fakeDeployment is a deployment without a database.
type fakeDeployment struct {
	state attempts.DeploymentState
	err   error
}

func (f *fakeDeployment) Show(context.Context) (attempts.DeploymentState, error) {
	return f.state, f.err
}

func (f *fakeDeployment) Freeze(_ context.Context, by audit.By) (attempts.DeploymentState, error) {
	now := time.Now()
	f.state.FrozenAt, f.state.FrozenBy, f.state.FrozenReason = &now, by.Actor, by.Reason
	return f.state, f.err
}

func (f *fakeDeployment) Resume(context.Context, audit.By) (attempts.DeploymentState, error) {
	f.state = attempts.DeploymentState{ID: f.state.ID, Expected: f.state.Expected}
	return f.state, f.err
}

func (f *fakeDeployment) Adopt(context.Context, audit.By) (attempts.DeploymentState, error) {
	f.state.ID = f.state.Expected
	return f.state, f.err
}

type fakeHealth struct{ err error }

func (f *fakeHealth) Ready(context.Context) error { return f.err }

// fakeKeys are API keys by their secret.
type fakeKeys map[string]apikeys.Key

func (f fakeKeys) Authenticate(_ context.Context, secret string) (apikeys.Key, error) {
	if k, ok := f[secret]; ok {
		return k, nil
	}
	return apikeys.Key{}, apikeys.ErrUnknown
}

var (
	someID   = uuid.MustParse("01930000-0000-7000-8000-000000000001")
	someTime = time.Date(2026, 12, 1, 10, 0, 0, 123456000, time.UTC)
)

// pendingCommand is a command as it stands after its acceptance.
func pendingCommand(sub commands.Submission) commands.Command {
	next := someTime
	return commands.Command{
		ID: someID, Tenant: sub.Tenant, Key: sub.Key, Upstream: sub.Upstream, Operation: sub.Operation, ProfileVersion: 3, BodyKind: outcome.BodyReplayable,
		State: outcome.StatePending, Version: 1, Priority: commands.PriorityNormal, CreatedAt: someTime, Deadline: someTime.Add(time.Hour),
		NextAttemptAt: &next, Metadata: sub.Metadata, Record: commands.Record{Record: outcome.Record{Boundary: outcome.BoundaryNotCrossed}},
	}
}

// doneCommand is a success whose upstream answered with body.
func doneCommand(body string) commands.Command {
	c := pendingCommand(commands.Submission{Tenant: "default", Key: "k1", Upstream: "ledger", Operation: "pay", Metadata: map[string]string{"order": "42"}})
	finalized := someTime.Add(time.Second)
	c.State, c.Version, c.Sequence, c.NextAttemptAt, c.FinalizedAt, c.Attempts = outcome.StateSuccess, 7, 1, nil, &finalized, 1
	c.Record = commands.Record{
		Record:   outcome.Record{Attempts: 1, LastResponseClass: "2xx", Elapsed: 3012 * time.Millisecond, Boundary: outcome.BoundaryCrossed},
		Identity: upstreams.Identity{In: "header", Name: "Idempotency-Key", Key: "k1"},
	}
	c.Outcome = &commands.Outcome{
		State: outcome.StateSuccess, Reason: "applied", StoppedBy: "applied", DecidedBy: "attempt", DecidedAt: finalized, Sequence: 1, NextAction: "none",
		Result: &commands.Result{Status: 201, Reference: "pay_9", Body: []byte(body), ContentType: "application/json"},
	}
	return c
}

// listOf is a store that lists these commands.
func listOf(list []commands.Command) func(context.Context, commands.Filter) ([]commands.Command, string, error) {
	return func(context.Context, commands.Filter) ([]commands.Command, string, error) { return list, "", nil }
}
