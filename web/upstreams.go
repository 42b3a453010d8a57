package web

import (
	"net/http"
	"slices"

	"executor/commands"
	"executor/internal/operators"
	"executor/outcome"
)

func upstreamRoutes() []route {
	viewer := func(pattern string, serve func(*Server, *visit) error) route {
		return route{method: http.MethodGet, pattern: pattern, role: operators.RoleViewer, serve: serve}
	}
	return slices.Concat([]route{
		viewer("/upstreams", (*Server).upstreamList),
		viewer("/upstreams/{name}", (*Server).upstreamShow),
		viewer("/upstreams/{name}/explain", (*Server).upstreamExplain),
		viewer("/upstreams/{name}/diff", (*Server).upstreamDiff),
	}, upstreamPauseRoutes(), upstreamEditRoutes())
}

// upstreamView is how an upstream does, for its panel and its page.
type upstreamView struct {
	commands.UpstreamStatus
	States []stateCount
	Spark  spark
}

func newUpstreamView(u commands.UpstreamStatus) upstreamView {
	view := upstreamView{UpstreamStatus: u, Spark: newSpark(outcomesOf(u.Rates), "Outcomes of the last hour")}
	for _, state := range outcome.States() {
		view.States = append(view.States, stateCount{state, u.States[state], stateMeaning[state]})
	}
	return view
}

// outcomesOf are the outcomes of each minute, of every kind.
func outcomesOf(r commands.Rates) []int64 {
	sum := make([]int64, commands.Points)
	for _, what := range []commands.Tally{commands.TallySuccess, commands.TallyRejected, commands.TallyUnresolved, commands.TallyCancelled} {
		for i, n := range r.PerMinute[what] {
			sum[i] += n
		}
	}
	return sum
}

// Standing is one word for how it does.
func (u upstreamView) Standing() string {
	if u.Trouble == nil {
		return "works"
	}
	return map[string]string{
		commands.TroubleProfile: "unreadable", commands.TroublePaused: "paused", commands.TroubleCredential: "no secret", commands.TroubleFile: "no file",
		commands.TroubleThrottled: "throttled", commands.TroubleBudget: "no retries", commands.TroubleFailing: "failing",
	}[u.Trouble.Code]
}

// Tone is the colour of its Standing.
func (u upstreamView) Tone() string {
	switch {
	case u.Trouble == nil:
		return "good"
	case u.Trouble.Code == commands.TroublePaused, u.Trouble.Code == commands.TroubleThrottled, u.Trouble.Code == commands.TroubleBudget:
		return "doubt"
	default:
		return "bad"
	}
}

// Description is that of its profile.
func (u upstreamView) Description() string {
	if u.Profile == nil {
		return ""
	}
	return u.Profile.Description
}

// Tokens is what is left in the retry budget, in whole tokens: what can be spent.
func (u upstreamView) Tokens() int { return int(u.BudgetTokens) }

// Throttled reports whether the upstream itself asked for a pause that is not over.
func (u upstreamView) Throttled() bool {
	return u.Trouble != nil && u.Trouble.Code == commands.TroubleThrottled
}

// upstreamsPage lists the upstreams of the tenant.
type upstreamsPage struct {
	Upstreams []upstreamView
	Admin     bool
}

func (s *Server) upstreamList(v *visit) error {
	list, err := s.commands.Upstreams(v.r.Context(), v.tenant)
	if err != nil {
		return err
	}
	p := upstreamsPage{Admin: v.may(operators.RoleAdmin)}
	for _, u := range list {
		p.Upstreams = append(p.Upstreams, newUpstreamView(u))
	}
	return v.render("upstreams.html", "Upstreams", p)
}
