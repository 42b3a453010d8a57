package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/operators"
	"executor/upstreams"
	"executor/web"
)

// wireWeb builds the dashboard on the stores of the process.
func (p *process) wireWeb(pool *pgxpool.Pool, ups *upstreams.Store) (err error) {
	if p.people, err = operators.NewStore(operators.Config{Pool: pool}); err != nil {
		return err
	}
	p.web, err = web.NewServer(web.Config{
		Pool: pool, Commands: p.commands, Upstreams: ups, Doubts: p.doubts, Hooks: p.hooks, Deployment: p.deployment, Keys: p.keys,
		Operators: p.people, Sessions: operators.NewSessions(pool), JSON: p.api.CommandJSON, Instance: p.config.Instance, Log: p.log,
	})
	return err
}

// devLinkLife is how long the link that "executor dev" prints signs in.
const devLinkLife = 12 * time.Hour

// openDashboard makes whoever started "executor dev" an admin, and a link that
// signs them in once.
func (d *dev) openDashboard(ctx context.Context) error {
	people, by := d.process.people, operators.By{Actor: "executor dev", Reason: "whoever starts it is the admin of this machine's data"}
	me, err := people.Create(ctx, by, operators.New{Name: devOperator, Tenant: defaultTenant, Role: operators.RoleAdmin})
	if errors.Is(err, operators.ErrExists) {
		me, err = people.ByName(ctx, devOperator)
	}
	if err != nil {
		return err
	}
	token, err := people.CreateLink(ctx, by, me.ID, devLinkLife)
	if err != nil {
		return err
	}
	d.dashboard = d.process.front.url() + "/sign-in/link?token=" + token
	return nil
}

// devOperator is who acts in the dashboard of "executor dev".
const devOperator = "dev"
