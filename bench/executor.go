package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/egress"
	"executor/upstreams"
)

// executor is the product below its REST API, as one process runs it.
type executor struct {
	commands *commands.Store
	engine   *attempts.Engine
	upstream string
}

// profile is a keyed operation with room for everything that is under way.
const profile = `version: 1
upstream: %s
base_url: %s
egress: {allow: [127.0.0.0/8]}
limits: {max_in_flight: %d}
timeouts: {connect: 3s, tls: 3s, response_header: %s, total: %s}
deadline: 30m
operations:
  pay:
    method: POST
    path: /payments
    body: json
    idempotency: {kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h}
    result: {reference: json.id}
`

func profileFor(name, url string, inFlight int, answer string) string {
	return fmt.Sprintf(profile, name, url, inFlight, answer, answer)
}

func newExecutor(ctx context.Context, pool *pgxpool.Pool, profiles ...string) (*executor, error) {
	log := slog.New(slog.DiscardHandler)
	if _, err := attempts.NewDeployment(pool, "bench", nil).Adopt(ctx, audit.By{Actor: "bench"}); err != nil {
		return nil, err
	}
	ups := upstreams.NewStore(pool)
	for _, source := range profiles {
		p, err := upstreams.Parse("bench.yaml", []byte(source))
		if err != nil {
			return nil, err
		}
		if _, _, err := ups.Apply(ctx, p, audit.By{Actor: "bench"}); err != nil {
			return nil, err
		}
	}
	jobs, err := attempts.NewInserter(pool)
	if err != nil {
		return nil, err
	}
	guard := egress.NewGuard(egress.GuardConfig{})
	x := &executor{commands: commands.NewStore(commands.Config{Pool: pool, Upstreams: ups, Jobs: jobs, Log: log}), upstream: "up"}
	x.engine, err = attempts.NewEngine(attempts.EngineConfig{
		Pool: pool, Commands: x.commands, Upstreams: ups, Sender: attempts.NewSender(attempts.SenderConfig{Guard: guard}),
		Secrets: egress.NewSecrets(os.Getenv, ""), Tokens: egress.NewTokens(egress.TokensConfig{Guard: guard}),
		Instance: "bench-" + uuid.NewString(), Expected: "bench", Log: log,
	})
	if err != nil {
		return nil, err
	}
	x.commands.SetStarter(x.engine)
	return x, x.engine.Start(ctx)
}

func (x *executor) submission(n int64) commands.Submission {
	return commands.Submission{
		Tenant: "default", Key: fmt.Sprintf("key-%d", n), Upstream: x.upstream, Operation: "pay",
		Body: []byte(payload), HasBody: true, Actor: "bench",
	}
}

func (x *executor) do(ctx context.Context, n int64) error {
	a, err := x.commands.Submit(ctx, x.submission(n))
	if err != nil {
		return err
	}
	if !x.commands.Ended(ctx, a.Command.ID) {
		return ctx.Err()
	}
	return nil
}

func (x *executor) stop() {
	_ = x.engine.Stop(context.Background())
	x.commands.Close()
}
