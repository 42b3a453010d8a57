package main

import (
	"context"
	"errors"
	"time"

	"executor/internal/audit"
	"executor/internal/postgres"
)

// onlyDurable refuses a database whose commits may be lost. Nothing that can be
// configured changes it: the tests' binary does, whose databases may forget.
var onlyDurable = postgres.Durable

// keepDurable looks again and again whether the database still keeps what it
// commits, since a reload of the server changes that. Where it does not, nothing is
// accepted, and the deployment is frozen: both might be forgotten. The freeze is ended
// by a person, as any is.
func (p *process) keepDurable(ctx context.Context) {
	tick := time.NewTicker(p.config.LeaseTTL)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		err := p.checkDurable(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, postgres.ErrNotDurable):
			p.log.Error("commits are not durable", "error", err)
		default:
			p.log.Warn("it is not known whether commits are durable", "error", err)
		}
	}
}

func (p *process) checkDurable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	err := onlyDurable(ctx, p.db.pool)
	switch {
	case err == nil:
		p.commands.Accept()
		return nil
	case !errors.Is(err, postgres.ErrNotDurable):
		return err
	}
	p.commands.Refuse(err)
	_, frozen := p.deployment.Freeze(ctx, audit.By{Actor: p.config.Instance, Reason: err.Error()})
	return errors.Join(err, frozen)
}
