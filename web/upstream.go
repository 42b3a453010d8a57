package web

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"executor/commands"
	"executor/internal/operators"
	"executor/outcome"
	"executor/upstreams"
)

// upstreamPage is one upstream: how it does, what is promised of it, and the text
// of one of its versions.
type upstreamPage struct {
	upstreamView
	Path     string
	Sparks   []happening
	WaitsFor []waitCount
	Newest   []commandRow
	Looked   *commands.Scanned
	Limits   []fact
	Versions []upstreams.Version
	Shown    int // the version whose text is shown
	Source   string
	Warnings []upstreams.Warning // of that version
	Broken   []upstreams.Problem // why that version cannot be read any more
	Operator bool
	Admin    bool
}

// happening is how often something happened.
type happening struct {
	What      commands.Tally
	Hour, Day int64
	Spark     spark
	State     string // that it led to; "" for none
}

// waitCount is how many pending commands wait for something.
type waitCount struct {
	For string
	N   int64
}

// Old reports whether the text shown is not of the newest version.
func (p *upstreamPage) Old() bool { return p.Shown != p.Version }

func (s *Server) upstreamShow(v *visit) error {
	name := v.param("name")
	o, err := s.commands.UpstreamOverview(v.r.Context(), v.tenant, name)
	if errors.Is(err, upstreams.ErrNotFound) && name == "new" && v.may(operators.RoleAdmin) {
		return v.redirect(newUpstreamPath)
	}
	if err != nil {
		return err
	}
	p := &upstreamPage{
		upstreamView: newUpstreamView(o.UpstreamStatus), Path: "/upstreams/" + name, Newest: commandRows(o.Newest), Looked: o.Looked,
		Sparks: happenings(o), WaitsFor: waitCounts(o.Waits), Operator: v.may(operators.RoleOperator), Admin: v.may(operators.RoleAdmin),
	}
	if p.Profile != nil {
		p.Limits = limitsOf(p.Profile)
	}
	if p.Versions, err = s.upstreams.Versions(v.r.Context(), v.tenant, name); err != nil {
		return err
	}
	if err := s.addVersion(v, p); err != nil {
		return err
	}
	return v.render("upstream.html", "Upstream "+name, p)
}

// addVersion adds the text of the version that the address names, or of the newest,
// and what there is to say about it.
func (s *Server) addVersion(v *visit, p *upstreamPage) (err error) {
	if p.Shown, err = versionOf(v.query("version"), p.Version, p.Version); err != nil {
		return err
	}
	if p.Source, err = s.upstreams.Source(v.r.Context(), v.tenant, p.Name, p.Shown); err != nil {
		return err
	}
	profile, err := s.upstreams.Profile(v.r.Context(), p.ID, p.Shown)
	var broken *upstreams.ParseError
	switch {
	case errors.As(err, &broken):
		p.Broken = broken.Problems
	case err != nil:
		return err
	default:
		p.Warnings = profile.Warnings
	}
	return nil
}

// versionOf reads the number of a version; "" is the usual one.
func versionOf(text string, usual, newest int) (int, error) {
	if text == "" {
		return usual, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 1 || int(n) > newest {
		return 0, notFound("This upstream has no version " + text + ". The newest is " + strconv.Itoa(newest) + ".")
	}
	return int(n), nil
}

func happenings(o *commands.UpstreamOverview) (list []happening) {
	for _, what := range commands.Tallies() {
		h := happening{
			What: what, Hour: o.LastHour[what], Day: o.LastDay[what],
			Spark: newSpark(o.Rates.PerMinute[what], capital(what)+" in the last hour"),
		}
		if _, err := outcome.ParseState(string(what)); err == nil {
			h.State = string(what)
		}
		list = append(list, h)
	}
	return list
}

// waitNouns name what pending commands wait for.
var waitNouns = []struct {
	what commands.WaitFor
	noun string
}{
	{commands.WaitBackoff, "the pause between two attempts"}, {commands.WaitPermit, "a free place under way"}, {commands.WaitRate, "the rate limit"},
	{commands.WaitRetryToken, "a retry token"}, {commands.WaitThrottle, "the pause that the upstream asked for"}, {commands.WaitPaused, "a person to resume"},
	{commands.WaitFrozen, "the deployment to be resumed"}, {commands.WaitCredential, "a secret that is missing"}, {commands.WaitFile, "a file that cannot be read"},
	{commands.WaitNotBefore, "the moment that the caller named"},
}

// waitNoun names what a command waits for; "" if there is no such word.
func waitNoun(what commands.WaitFor) string {
	for _, w := range waitNouns {
		if w.what == what {
			return w.noun
		}
	}
	return ""
}

func waitCounts(waits map[commands.WaitFor]int64) (list []waitCount) {
	for _, w := range waitNouns {
		if n := waits[w.what]; n > 0 {
			list = append(list, waitCount{w.noun, n})
		}
	}
	return list
}

// limitsOf are the promises and bounds of a profile in words.
func limitsOf(p *upstreams.Profile) []fact {
	t, r := p.Timeouts, p.Retry
	facts := []fact{
		{"Address", p.Base.String()},
		{"Authorisation", authText(p.Auth)},
		{"Under way at once", fmt.Sprintf("at most %s requests, of all processes", number(p.Limits.MaxInFlight))},
		{"Rate", p.Limits.Rate.String()},
		{"Lookups", fmt.Sprintf("at most %d under way, rate %s", p.Limits.Lookups.MaxInFlight, p.Limits.Lookups.Rate)},
		{"Attempts", fmt.Sprintf("at most %d of one command, the wait between them up to %s", r.MaxAttempts, duration(r.Backoff.Max))},
		{"Retry budget", fmt.Sprintf("%s tokens at most; %v for each first attempt and %v a second; when empty: %s", number(r.Budget.Burst), r.Budget.Ratio, r.Budget.FloorPerSecond, r.Budget.WhenEmpty)},
		{"Timeouts", fmt.Sprintf("connect %s, TLS %s, response header %s, in total %s", duration(t.Connect), duration(t.TLS), duration(t.ResponseHeader), duration(t.Total))},
		{"Deadline", duration(p.Deadline) + " after it was accepted, where the caller names none"},
		{"Unresolved is told", announceText(p.AnnounceUnresolvedAfter)},
		{"What is found out", map[string]string{upstreams.ReconciliationReportOnly: "is only recorded, and changes no command"}[p.Reconciliation]},
	}
	if facts[len(facts)-1].Value == "" {
		facts[len(facts)-1].Value = "settles the command"
	}
	return facts
}

func authText(a upstreams.Auth) string {
	switch a.Type {
	case upstreams.AuthBearer:
		return "bearer token from " + a.Token
	case upstreams.AuthBasic:
		return "basic, password from " + a.Password
	case upstreams.AuthHeader:
		return "header " + a.Name + " from " + a.Value
	case upstreams.AuthOAuth2:
		return "OAuth 2 client credentials, secret from " + a.ClientSecret
	default:
		return "none"
	}
}

func announceText(after *time.Duration) string {
	switch {
	case after == nil:
		return "at once; 30s later where the upstream said \"pending\" and can be asked"
	case *after == 0:
		return "at once"
	default:
		return duration(*after) + " later, so that a lookup can come first"
	}
}
