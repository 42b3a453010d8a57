package main

import (
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"executor/internal/egress"
	"executor/internal/seal"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// followers are the parts of a process that follow up doubts and tell of
// outcomes. The engines are nil without the role worker.
type followers struct {
	doubts *reconcile.Store
	hooks  *webhooks.Store

	lookups    *reconcile.Engine
	deliveries *webhooks.Engine
}

// openHooks opens the store that announces outcomes, which the store of commands
// needs.
func (p *process) openHooks(pool *pgxpool.Pool, box *seal.Box, registry *prometheus.Registry) error {
	allow, err := networks(p.config.WebhookAllow)
	if err != nil {
		return err
	}
	p.hooks = webhooks.NewStore(webhooks.Config{
		Pool: pool, Box: box, Allow: allow, Ports: p.config.WebhookPorts, Guard: p.guard, Ask: webhooks.Ask(p.config.WebhookAsk), Log: p.log, Registry: registry,
	})
	return nil
}

func (p *process) openDoubts(pool *pgxpool.Pool, ups *upstreams.Store, secrets *egress.Secrets, registry *prometheus.Registry) {
	p.doubts = reconcile.NewStore(reconcile.Config{
		Pool: pool, Commands: p.commands, Upstreams: ups, Secrets: secrets, Log: p.log, Registry: registry,
	})
}

// wireFollowers builds what works by itself.
func (p *process) wireFollowers(access *upstreams.Access) {
	dialer := egress.NewDialer(p.guard, p.resolver)
	p.lookups = reconcile.NewEngine(reconcile.EngineConfig{
		Store: p.doubts, Dialer: dialer, Access: access, Instance: p.config.Instance, Expected: p.config.DeploymentID, Hop: p.hop, Log: p.log,
	})
	p.lookups.Add(p.doubts.NoticeMatcher())
	p.lookups.Add(p.doubts.BulkRunner())
	p.lookups.Add(p.doubts.ReportRunner())
	p.deliveries = webhooks.NewEngine(webhooks.EngineConfig{
		Store: p.hooks, Dialer: dialer, Instance: p.config.Instance, Expected: p.config.DeploymentID, Hop: p.hop, Log: p.log,
		Rate: p.config.WebhookRate,
	})
}

func (f *followers) start() {
	if f.lookups != nil {
		f.lookups.Start()
		f.deliveries.Start()
	}
}

// stop lets questions and deliveries that are on the wire end until ctx ends.
func (f *followers) stop(ctx context.Context) {
	if f.lookups == nil {
		return
	}
	var stopping sync.WaitGroup
	stopping.Go(func() { f.lookups.Stop(ctx) })
	stopping.Go(func() { f.deliveries.Stop(ctx) })
	stopping.Wait()
}
