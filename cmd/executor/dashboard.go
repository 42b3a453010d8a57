package main

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/operators"
	"executor/upstreams"
	"executor/web"
)

// wireWeb builds the dashboard on the stores of the process.
func (p *process) wireWeb(pool *pgxpool.Pool, ups *upstreams.Store) error {
	people, err := operators.NewStore(operators.Config{Pool: pool})
	if err != nil {
		return err
	}
	p.web, err = web.NewServer(web.Config{
		Pool: pool, Commands: p.commands, Upstreams: ups, Doubts: p.doubts, Hooks: p.hooks, Deployment: p.deployment, Keys: p.keys,
		Operators: people, Sessions: operators.NewSessions(pool), JSON: p.api.CommandJSON, Instance: p.config.Instance, Log: p.log,
	})
	return err
}
