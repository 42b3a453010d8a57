package web

import (
	"net/http"
	"time"

	"executor/attempts"
	"executor/commands"
	"executor/internal/operators"
	"executor/outcome"
	"executor/reconcile"
)

func homeRoutes() []route {
	return []route{{method: http.MethodGet, pattern: "/", role: operators.RoleViewer, serve: (*Server).home}}
}

// homePage is what needs a person first, then how everything goes.
type homePage struct {
	commands.Overview
	Waiting   commands.Count         // for a person
	Oldest    []reconcile.ReviewItem // of them
	States    []stateCount
	Rates     []rateLine
	Processes []attempts.Process // of the deployment
	Overdue   []overdue
	Fresh     bool // nothing was ever submitted
}

// overdue is a kind of work that has waited longer than it should.
type overdue struct {
	What string
	For  time.Duration
}

// patience is how long work may be due before the home page speaks of it.
const patience = 30 * time.Second

// stateCount is the number of commands in a state, and where they are listed.
type stateCount struct {
	State outcome.State
	Count commands.Count
	Says  string
}

// rateLine is what happened in each minute of the last hour.
type rateLine struct {
	What  commands.Tally
	Sum   int64
	Spark spark
}

// oldestShown is how many of those that wait for a person the home page names.
const oldestShown = 5

func (s *Server) home(v *visit) error {
	ctx := v.r.Context()
	overview, err := s.commands.Overview(ctx, v.tenant)
	if err != nil {
		return err
	}
	p := homePage{Overview: overview, Fresh: overview.Total == 0}
	if p.Oldest, _, err = s.doubts.Reviews(ctx, reconcile.ReviewFilter{Tenant: v.tenant, Limit: oldestShown}); err != nil {
		return err
	}
	if p.Waiting, err = s.doubts.CountReviews(ctx, reconcile.ReviewFilter{Tenant: v.tenant}); err != nil {
		return err
	}
	if p.Processes, err = s.deployment.Processes(ctx, v.tenant); err != nil {
		return err
	}
	late, err := s.deployment.Overdue(ctx)
	if err != nil {
		return err
	}
	p.Overdue = overdueOf(late)
	p.States, p.Rates = stateCounts(overview), rateLines(overview.Rates)
	return v.render("home.html", "Home", p)
}

func overdueOf(o attempts.Overdue) []overdue {
	var list []overdue
	for _, kind := range []overdue{{"commands to be sent", o.Commands}, {"lookups", o.Lookups}, {"webhook deliveries", o.Deliveries}, {"items of bulk actions", o.BulkItems}} {
		if kind.For > patience {
			list = append(list, kind)
		}
	}
	return list
}

// stateMeaning says in a few words what a state is.
var stateMeaning = map[outcome.State]string{
	outcome.StatePending:    "wait to be sent",
	outcome.StateExecuting:  "on the wire now",
	outcome.StateUnresolved: "in doubt",
	outcome.StateSuccess:    "done, confirmed",
	outcome.StateRejected:   "refused, nothing done",
	outcome.StateCancelled:  "nothing was done",
}

func stateCounts(o commands.Overview) []stateCount {
	var list []stateCount
	for _, state := range []outcome.State{outcome.StateUnresolved, outcome.StatePending, outcome.StateExecuting, outcome.StateSuccess, outcome.StateRejected, outcome.StateCancelled} {
		list = append(list, stateCount{state, o.States[state], stateMeaning[state]})
	}
	return list
}

func rateLines(r commands.Rates) []rateLine {
	var list []rateLine
	for _, what := range []commands.Tally{commands.TallyAccepted, commands.TallySuccess, commands.TallyRejected, commands.TallyUnresolved, commands.TallyCancelled} {
		list = append(list, rateLine{what, r.Sum(what, commands.Points), newSpark(r.PerMinute[what], string(what)+" in the last hour")})
	}
	return list
}
